//! An operator's view: counters, a full disk, the end.

use tempfile::tempdir;
use wirelane_testkit::privileged;

use super::*;

#[test]
fn stats_tell_how_far_the_disk_is() {
    let directory = tempdir().unwrap();
    let store = directory.path().to_str().unwrap();
    let mut recording = Running::start(None, &["sim:2?rate=20kpps", store, "--flush", "100ms"]);
    recording.wait_until(|stats| {
        let (store, totals) = (&stats["store"], &stats["totals"]);
        store["bytes"].as_u64() > Some(0)
            && totals["written"] == store["packets"]
            && number(&totals["written"]) > 1000
    });
    let said = output(&mut wirelane(["stats", &recording.pid()]));
    assert!(said.stdout.contains(": wirelane record "), "{}", said.stdout);
    assert!(said.stdout.contains(&format!("\nstore {store}: ")), "{}", said.stdout);
    recording.finish();
}

#[test]
fn the_summary_says_where_packets_are() {
    let directory = tempdir().unwrap();
    let store = directory.path().join("store");
    let ended = output(wirelane(["record", "sim:1?count=1000"]).arg(&store));
    assert!(ended.status.success(), "{}", ended.stderr);
    let said = &ended.stderr;
    assert!(said.starts_with("recording sim:1?count=1000"), "{said}");
    assert!(said.contains("\n1,000 captured, 0 filtered, 0 dropped"), "{said}");
    assert!(said.contains(&format!(" → {} (1 segment, ", store.display())), "{said}");
}

/// A command that runs the script with a file system of this size at `path`, which no other process
/// sees. In the script, `$0` is the path, and `$@` is `wirelane` with the arguments added later.
fn with_a_disk(path: &str, size: &str, script: &str) -> Command {
    let script = format!("mount -t tmpfs -o size={size} none \"$0\" && {script}");
    let mut command = Command::new("unshare");
    command.args(["--mount", "--propagation", "private", "sh", "-c", &script, path, WIRELANE]);
    command
}

/// A disk that fills up: packets are dropped and counted, and recording continues once there is
/// room.
#[test]
fn privileged_a_full_disk_is_survived() {
    if !privileged::require() {
        return;
    }
    let directory = tempdir().unwrap();
    let path = directory.path().to_str().unwrap();
    // The file that fills the disk is reached through /proc/PID/root.
    let script = "mkdir \"$0/s\" && \
                  dd if=/dev/zero of=\"$0/ballast\" bs=1M count=48 2>/dev/null && exec \"$@\"";
    let command = with_a_disk(path, "64m", script);
    let store = directory.path().join("s");
    let spec = "sim:1?rate=20kpps&size=1500";
    let args =
        [spec, store.to_str().unwrap(), "--segment", "4M", "--buffer", "4M", "--min-free", "0%"];
    let mut recording = Running::spawn(command, &args);
    recording.wait_until(|stats| {
        number(&stats["totals"]["dropped"]) > 1000 && !stats["store"]["trouble"].is_null()
    });
    let inside = PathBuf::from(format!("/proc/{}/root{path}", recording.pid()));
    fs::remove_file(inside.join("ballast")).unwrap();
    recording.wait_until(|stats| stats["store"]["trouble"].is_null());
    let packets_then = recorded(&recording);
    recording.wait_until(|stats| number(&stats["store"]["packets"]) > packets_then);
    // Finished segments are readable.
    let copies = tempdir().unwrap();
    for segment in segments(&inside.join("s")) {
        let copy = copies.path().join(segment.file_name().unwrap());
        fs::copy(&segment, &copy).unwrap();
        assert!(!packets(&copy).is_empty());
    }
    recording.child.interrupt();
    let ended = recording.child.wait(PATIENCE);
    let summary = parse(&ended.stdout);
    assert!(dropped(&summary, "writer") > 1000);
    assert!(number(&summary["store"]["troubles"]) > 0);
}

/// If the disk is still full at the end, the command fails and reports the cause.
#[test]
fn privileged_a_disk_that_stays_full_is_an_error() {
    if !privileged::require() {
        return;
    }
    let directory = tempdir().unwrap();
    let path = directory.path().to_str().unwrap();
    let mut command = with_a_disk(path, "20m", "exec \"$@\"");
    let store = directory.path().join("s");
    command.args(["record", "-q", "--json", "sim:1?rate=20kpps&size=1500", "--duration", "5s"]);
    let ended = output(
        command.arg(&store).args(["--segment", "4M", "--buffer", "4M"]).args(["--min-free", "0%"]),
    );
    assert_refused(&ended, 1, &["No space left on device", "make room"]);
    let summary = parse(&ended.stdout);
    assert!(dropped(&summary, "writer") > 1000, "{summary}");
    let trouble = summary["store"]["trouble"].as_str().unwrap_or_default();
    assert!(trouble.contains("No space left on device"), "{summary}");
}

/// A disk that is too small for segments of the usual size gets shorter ones, and the recording
/// says so.
#[test]
fn privileged_a_small_disk_has_short_segments() {
    if !privileged::require() {
        return;
    }
    let directory = tempdir().unwrap();
    let path = directory.path().to_str().unwrap();
    let mut command = with_a_disk(path, "100m", "\"$@\" && ls \"$0\"/s");
    let store = directory.path().join("s");
    command.args(["record", "sim:2?count=80000&rate=100kpps&size=1500"]).arg(&store);
    let ended = output(&mut command);
    assert!(ended.status.success(), "{}", ended.stderr);
    let said = &ended.stderr;
    assert!(said.contains("\n80,000 captured, 0 filtered, 0 dropped"), "{said}");
    let note = "note: segments of 5.93M instead of 256M: there is room for 95.0M, and 2 receiving \
                threads need two\n";
    assert_eq!(said.matches(note).count(), 2, "as it begins and at the end: {said}");
    let segments = ended.stdout.lines().filter(|name| name.ends_with(".pcapng")).count();
    assert!(segments > 8, "{}", ended.stdout);
}

#[track_caller]
fn recorded(recording: &Running) -> u64 {
    let said = output(&mut wirelane(["stats", "--json", &recording.pid()]));
    number(&serde_json::from_str::<Value>(&said.stdout).unwrap()["store"]["packets"])
}

#[test]
fn a_directory_has_one_recorder() {
    let directory = tempdir().unwrap();
    let store = directory.path().to_str().unwrap();
    let recording = Running::start(None, &["sim:1?rate=1kpps", store]);
    let refused = output(&mut wirelane(["record", "-q", "sim:1?count=5", store]));
    assert_refused(&refused, 1, &[store]);
    recording.finish();
    record(&["sim:1?count=5", store]);
}
