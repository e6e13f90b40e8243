//! A capture has metadata on its origin, as dumpcap's has.

use wirelane_testkit::files;
use wirelane_testkit::netns::Namespace;
use wirelane_testkit::privileged;

use super::running::Running;
use super::*;

#[test]
fn privileged_a_capture_says_what_dumpcap_says() {
    if !privileged::require() || !has_wireshark() || !tools::require("dumpcap") {
        return;
    }
    let files = Files::new();
    let (x, y) = (files.path("x.pcapng"), files.path("y.pcapng"));
    let ns = Namespace::new();
    ns.run("ip", ["link", "set", "lo", "up"]);
    let words = ["lo", "udp", "port", "9", "--comment", "of mine", "--rx-queues", "0", "-w"];
    let capture = Running::start(Some(&ns), &[&words[..], &[x.to_str().unwrap()]].concat());
    let dumpcap = ["-q", "-i", "lo", "-f", "udp port 9", "--capture-comment", "of mine", "-a"];
    ns.run("dumpcap", [&dumpcap[..], &["duration:1", "-w", y.to_str().unwrap()]].concat());
    capture.finish();
    let ours = |name: &str| about_its(name, &x);
    let theirs = |name: &str| about_its(name, &y);
    for name in ["Capture hardware", "Capture oper-sys", "Operating system"] {
        let (ours, theirs) = (ours(name), theirs(name));
        // dumpcap adds the CPU's instruction sets.
        assert!(
            !theirs.is_empty() && theirs[0].starts_with(&ours[0]),
            "{name}: {ours:?} {theirs:?}"
        );
    }
    assert_eq!(ours("Filter string")[0], theirs("Filter string")[0]);
    assert_eq!(ours("Name")[0], theirs("Name")[0]);
    assert!(theirs("Capture comment").contains(&"of mine".into()));
    let mut comments = ours("Capture comment");
    assert_eq!(comments.remove(0), "of mine");
    let comment = comments.concat();
    let host = ns.run("uname", ["-n"]);
    assert!(comment.starts_with(&format!(
        "wirelane {} on {}",
        env!("CARGO_PKG_VERSION"),
        host.trim()
    )));
    for part in
        ["capture", "lo udp port 9 --comment 'of mine'", "; filter: udp port 9", "; RX queues: 0"]
    {
        assert!(comment.contains(part), "{comment}");
    }
    // In the segments of a store, too.
    let store = files.path("store");
    run(wirelane(["record", "-q", "sim:1?count=100"]).arg(&store).args(["--comment", "of mine"]));
    let mut segments: Vec<_> = files::below(&store);
    segments.retain(|path| path.extension().is_some_and(|suffix| suffix == "pcapng"));
    let comments = about_its("Capture comment", &segments[0]);
    assert_eq!(comments[0], "of mine");
    assert!(comments[1].contains(" record -q sim:1?count=100 "), "{comments:?}");
}
