//! Packets as lines on standard output.

use std::io::{BufRead, BufReader, Read};
use std::process::Stdio;

use rustix::process::{Pid, Signal};

use super::*;

/// The printed lines of packets, without times.
#[track_caller]
fn printed(args: &[&str]) -> Vec<String> {
    let ended = output(wirelane(["capture", "-q", "-t"]).args(args));
    assert_eq!((ended.status.code(), ended.stderr.as_str()), (Some(0), ""));
    ended.stdout.lines().map(str::to_owned).collect()
}

#[test]
fn a_file_is_read_and_each_packet_is_a_line_in_order_of_time() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("what?@.pcapng");
    let text = file.to_str().unwrap();
    capture(&["sim:4?count=5000&proto=mix&tx=3", "-w", text]);
    let lines = printed(&["-r", text]);
    let all = packets(&file);
    assert_eq!(lines.len(), all.len());
    for (line, packet) in lines.iter().zip(&all) {
        let place = format!("sim {}{} ", packet.class.unwrap(), packet.queue.unwrap());
        assert!(line.starts_with(&place), "{line:?} is not of {place:?}");
    }
    // Words are a filter, and -w does not change the lines.
    let tcp = printed(&["-r", text, "tcp", "port", "56073"]);
    let expected: Vec<_> = lines
        .iter()
        .filter(|line| line.contains("Flags") && line.contains(".56073"))
        .cloned()
        .collect();
    assert!(!expected.is_empty() && tcp == expected);
    let copy = directory.path().join("copy.pcapng");
    assert_eq!(printed(&["-r", text, "--print", "-w", copy.to_str().unwrap()]), lines);
    assert_eq!(packets(&copy), all);
    assert!(printed(&["-r", text, "-w", copy.to_str().unwrap()]).is_empty());
}

#[test]
fn a_reader_that_has_seen_enough_ends_it_cleanly() {
    let mut command = wirelane(["capture", "-q", "-n", "sim:2?rate=max"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.next().unwrap().unwrap().contains(" sim "));
    drop(lines);
    let ended = child.wait_with_output().unwrap();
    assert_eq!((ended.status.code(), ended.stderr.as_slice()), (Some(0), &b""[..]));
}

/// A blocked reader does not slow the receiving side: skipped packets are counted.
#[test]
fn what_is_not_printed_is_counted_and_nothing_else_is_lost() {
    let mut command = wirelane(["capture", "-n", "sim:2?rate=20kpps&size=1500&count=20000"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let pid = child.id().to_string();
    let statistics = || {
        let said = output(&mut wirelane(["stats", "--json", &pid]));
        serde_json::from_str::<Value>(&said.stdout).unwrap_or_default()
    };
    let deadline = std::time::Instant::now() + PATIENCE;
    let counted = loop {
        let said = statistics();
        let totals = &said["totals"];
        let missed = totals["not_printed"].as_u64().unwrap_or(0);
        if missed > 0 && totals["received"] == 20_000 {
            break said;
        }
        assert!(std::time::Instant::now() < deadline, "{totals}");
        std::thread::sleep(Duration::from_millis(20));
    };
    assert_eq!(dropped(&counted, "writer"), 0, "{counted}");
    let text = output(&mut wirelane(["stats", &pid])).stdout;
    let total = text.lines().find(|line| line.contains(" delivered, ")).unwrap();
    assert!(total.ends_with(" not printed"), "{text}");
    let number = Pid::from_raw(pid.parse().unwrap()).unwrap();
    rustix::process::kill_process(number, Signal::USR1).unwrap();
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    let mut so_far = String::new();
    while !so_far.contains("so far: ") {
        so_far.clear();
        assert_ne!(stderr.read_line(&mut so_far).unwrap(), 0);
    }
    assert!(so_far.contains(" captured, ") && so_far.contains(" not printed"), "{so_far}");
    let lines = BufReader::new(child.stdout.take().unwrap()).lines().count();
    let ended = child.wait_with_output().unwrap();
    let mut said = String::new();
    stderr.read_to_string(&mut said).unwrap();
    assert_eq!(ended.status.code(), Some(0), "{said}");
    assert!(said.contains("not printed"), "{said}");
    assert!(lines > 0 && lines < 20_000, "{lines}");
}

#[test]
fn standard_output_takes_one_thing() {
    refused(&["capture", "sim:1?count=1", "--print", "--json"], 2, &["--print", "--json"]);
    refused(&["capture", "sim:1?count=1", "--print", "-w", "-"], 2, &["--print", "-w -"]);
    refused(&["capture", "sim:1?count=1", "--print", "--split", "-w", "x.pcapng"], 2, &["--split"]);
}
