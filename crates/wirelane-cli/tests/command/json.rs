//! The output for programs: the summary object alone on standard output.

use tempfile::tempdir;
use wirelane_testkit::tshark::capinfos;
use wirelane_testkit::{process, tools};

use super::*;

/// Whether `value` has the shape of `model`: the same keys at least, and values of the same kinds.
/// A string such as `"number?"` in the model names a kind that may also be `null`.
#[track_caller]
fn assert_shape(value: &Value, model: &Value, place: &str) {
    match model {
        Value::Object(fields) => {
            for (key, model) in fields {
                let field = value.get(key).unwrap_or_else(|| panic!("{place} lacks {key}"));
                assert_shape(field, model, &format!("{place}.{key}"));
            }
        }
        Value::Array(elements) => {
            let values = value.as_array().unwrap_or_else(|| panic!("{place} is no list"));
            assert!(!values.is_empty(), "{place}: nothing to compare");
            values.iter().for_each(|value| assert_shape(value, &elements[0], place));
        }
        _ => {
            let kind = model.as_str().unwrap();
            let fits = match kind.trim_end_matches('?') {
                "number" => value.is_u64(),
                "float" => value.is_f64(),
                "text" => value.is_string(),
                kind => panic!("{kind}"),
            };
            assert!(fits || kind.ends_with('?') && value.is_null(), "{place}: {value} for {kind}");
        }
    }
}

#[test]
fn the_summary_has_its_keys() {
    let directory = tempdir().unwrap();
    let file = directory.path().join("x.pcapng");
    let summary = capture(&["sim:2@1?count=1000&other=3&tx=5", "-w", file.to_str().unwrap()]);
    let model = serde_json::json!({
        "schema": "text", "command": "text", "version": "text", "elapsed_s": "float",
        "ports": [{
            "spec": "text", "backend": "text", "mode": "text", "interface": "text?",
            "queues": ["number"],
            "negotiation": [{
                "rung": "text", "outcome": "text", "errno": "text?", "cause": "text?", "fix": "text?",
            }],
        }],
        "queues": [{
            "port": "number", "queue": "number?", "class": "text", "packets": "number",
            "bytes": "number?", "filtered": "number?",
            "dropped": { "kernel": "number?", "ring_full": "number?", "writer": "number?" },
        }],
        "totals": {
            "received": "number?", "filtered": "number?", "delivered": "number",
            "written": "number?", "sent": "number", "dropped": "number?",
        },
        "frames": { "pool": "number", "free": "number", "leaked": "number" },
        "cpu": { "user_s": "float", "system_s": "float" },
    });
    assert_shape(&summary, &model, "summary");
    assert_eq!(summary["schema"], "wirelane.summary/1");
    assert_eq!(summary["command"], "capture");
    assert_eq!(summary["ports"][0]["backend"], "sim");
    assert_eq!(summary["ports"][0]["queues"], serde_json::json!([1]));
    assert_eq!(summary["frames"]["free"], summary["frames"]["pool"]);
    let queues = summary["queues"].as_array().unwrap();
    let classes: Vec<_> = queues.iter().map(|queue| &queue["class"]).collect();
    assert_eq!(classes, ["rx", "tx", "other"]);
    assert_eq!(summary["queues"][2]["queue"], Value::Null, "OTHER has no queue");
}

/// An unknown value is `null`, never 0.
#[test]
fn unknown_is_null() {
    let summary = capture(&["sim:1?count=10"]);
    assert_eq!(summary["totals"]["written"], Value::Null, "nothing was to be written");
    assert_eq!(summary["ports"][0]["interface"], Value::Null);
    assert_eq!(summary["ports"][0]["speed"], Value::Null);
    assert_eq!(summary["totals"]["delivered"], 10);
}

/// The statistics in the file equal the summary's. Statistics are also written while the capture
/// runs.
#[test]
fn the_file_holds_the_counters() {
    let directory = tempdir().unwrap();
    let file = directory.path().join("x.pcapng");
    let args = ["sim:2?rate=10kpps&other=4", "--statistics-every", "200ms"];
    let mut capture = Running::start(None, &[&args[..], &["-w", file.to_str().unwrap()]].concat());
    let has_statistics = |_: &ChildGuard| {
        let Ok(mut reader) = CaptureReader::open(&file) else { return false };
        // The file may end in the middle of a block.
        while let Ok(true) = reader.advance() {}
        reader.statistics().len() == 3
    };
    capture.child.wait_until(PATIENCE, has_statistics);
    let summary = capture.finish();
    assert_counters(&summary, &file);
    if tools::require("capinfos") {
        let interfaces = capinfos(&file).interfaces;
        assert_eq!(interfaces.len(), 3);
        // One at the end, and at least the earlier one.
        assert!(interfaces.iter().all(|interface| interface.statistics >= 2), "{interfaces:?}");
    }
}

/// A writer that is too slow: its drops have their own name, and everything balances.
#[test]
fn a_slow_writer_has_drops_of_its_own() {
    let directory = tempdir().unwrap();
    let fifo = directory.path().join("fifo");
    process::run(Command::new("mkfifo").arg(&fifo));
    // With frames for seconds: packets are lost only because of the writer.
    let spec = "sim:2?rate=4kpps&size=1500&frames=32768";
    let args = [spec, "-w", fifo.to_str().unwrap(), "--buffer", "1M"];
    let mut capture = Running::spawn(None, &args);
    let mut reader = std::fs::File::open(&fifo).unwrap();
    capture.wait_until_statistics(|stats| dropped(stats, "writer") > 100);
    capture.child.interrupt();
    let copy = directory.path().join("copy.pcapng");
    std::io::copy(&mut reader, &mut std::fs::File::create(&copy).unwrap()).unwrap();
    let summary = summary(&capture.child.wait(PATIENCE));
    assert!(dropped(&summary, "writer") > 0, "{summary}");
    assert_eq!(dropped(&summary, "kernel") + dropped(&summary, "ring_full"), 0, "{summary}");
    let packets = packets(&copy);
    assert_eq!(summary["totals"]["written"], packets.len());
    assert_counters(&summary, &copy);
    assert!(is_in_order(&packets));
    predicted_numbers(&stream(spec), &packets);
}

#[test]
fn people_and_programs_read_different_streams() {
    let both = output(&mut wirelane(["capture", "sim:2?count=1000", "--json"]));
    parse(&both.stdout);
    assert!(both.stderr.contains("1,000 captured, 0 filtered, 0 dropped"), "{}", both.stderr);
    let people = output(&mut wirelane(["capture", "sim:2?count=1000"]));
    assert_eq!(people.stdout, "");
    let quiet = output(&mut wirelane(["capture", "sim:2?count=1000", "-q"]));
    assert_eq!((quiet.stdout.as_str(), quiet.stderr.as_str()), ("", ""));
}

#[test]
fn progress_appears_on_a_terminal_only() {
    let args = ["capture", "sim:2?rate=10kpps", "--duration", "3s"];
    let piped = output(&mut wirelane(args));
    assert!(!piped.stderr.contains(['\x1b', '\r']), "{:?}", piped.stderr);
    assert!(!piped.stderr.contains("bit/s"), "{}", piped.stderr);
    if !tools::require("script") {
        return;
    }
    // Standard error is a terminal there. Standard output is not, or packets would be printed.
    let words = args.join(" ").replace('?', "\\?");
    let command = format!("{WIRELANE} {words} >/dev/null");
    let terminal = process::run(Command::new("script").args(["-qec", &command, "/dev/null"]));
    assert!(terminal.contains('\x1b'), "{terminal:?}");
    for part in ["rx 0 ", "rx 1 ", "total", "packet/s", "bit/s", "0 dropped"] {
        assert!(terminal.contains(part), "{terminal:?}");
    }
    let quiet = format!("{command} -q");
    assert_eq!(process::run(Command::new("script").args(["-qec", &quiet, "/dev/null"])), "");
}
