//! Files as sources and sinks.

use tempfile::tempdir;
use wirelane_testkit::privileged;
use wirelane_testkit::veth::VethPair;

use super::*;

#[test]
fn a_file_is_sent_and_written_as_it_is() {
    let directory = tempdir().unwrap();
    let [a, b, c] = ["a.pcapng", "b.pcapng.gz", "c.pcap"].map(|name| directory.path().join(name));
    let port = |path: &Path| format!("file:{}", path.display());
    let spec = "sim:2?count=5000&size=imix";
    forward(&[spec, &port(&a)]);
    let summary = forward(&[&port(&a), &port(&b)]);
    assert_eq!(summary["totals"]["sent"], 5000);
    forward(&[&port(&b), &port(&c)]);
    let bytes = |path: &Path| -> Vec<_> {
        packets(path).into_iter().map(|packet| (packet.timestamp, packet.data)).collect()
    };
    assert_eq!(bytes(&a).len(), 5000);
    assert!(bytes(&a) == bytes(&b) && bytes(&b) == bytes(&c));
    let summary = forward(&[&port(&c), "sim:1?verify=on"]);
    assert_eq!(summary["totals"]["sent"], 5000);
}

/// A truncated packet must not be sent through an interface.
#[test]
fn packets_that_were_cut_are_not_sent() {
    let directory = tempdir().unwrap();
    let path = directory.path().join("x.pcapng");
    let capture = ["capture", "-q", "sim:1?count=1000&size=imix", "-s", "100", "-w"];
    assert!(output(wirelane(capture).arg(&path)).status.success());
    let whole = packets(&path).iter().filter(|p| p.data.len() == p.original_len as usize).count();
    assert!(whole > 0 && whole < 1000);
    let source = format!("file:{}", path.display());
    let summary = forward(&[&source, "sim:1"]);
    assert_eq!(number(&summary["totals"]["sent"]), whole as u64);
    assert_eq!(of_port(&summary, "queues", 0, "filtered"), 1000 - whole as u64);
    // In a file, a packet keeps its original length.
    let copy = format!("file:{}", directory.path().join("copy.pcapng").display());
    assert_eq!(forward(&[&source, &copy])["totals"]["sent"], 1000);
}

/// From a file through a wire into a capture: the same packets in the same order.
#[test]
fn privileged_a_file_passes_a_wire() {
    if !privileged::require() {
        return;
    }
    let (near, far) = (Namespace::new(), Namespace::new());
    let pair = VethPair::new(&near, &far, 1, 1500);
    let directory = tempdir().unwrap();
    let [sent, received] =
        ["sent.pcapng", "received.pcapng"].map(|name| directory.path().join(name));
    // Fewer than the far end's backlog holds (`net.core.netdev_max_backlog`), in case it is slow.
    let spec = "sim:1?count=900&rate=20000&size=imix&vlan=7";
    forward(&[spec, &format!("file:{}", sent.display())]);
    let capture = ["capture", "-q", "--json", &format!("packet:{}", pair.b.interface), "-w"]
        .map(str::to_owned);
    let mut command = far.command(WIRELANE);
    let mut capture = ChildGuard::spawn(command.args(capture).arg(&received).args(["-c", "900"]));
    let pid = capture.id().to_string();
    capture.wait_until(PATIENCE, |_| output(&mut wirelane(["mask", &pid])).status.success());
    let source = format!("file:{}?rate=original", sent.display());
    let sink = format!("packet:{}", pair.a.interface);
    let summary = summary(&near_output(&near, &["forward", "-q", "--json", &source, &sink]));
    assert_eq!(forwarded(&summary)["totals"]["sent"], 900);
    assert_eq!(capture.wait(PATIENCE).status.code(), Some(0));
    let data =
        |path: &Path| packets(path).into_iter().map(|packet| packet.data).collect::<Vec<_>>();
    assert!(data(&sent) == data(&received));
}

fn near_output(ns: &Namespace, args: &[&str]) -> wirelane_testkit::process::Output {
    output(ns.command(WIRELANE).args(args))
}

#[test]
fn privileged_packets_of_which_none_can_be_sent_are_an_error() {
    if !privileged::require() {
        return;
    }
    let (near, far) = (Namespace::new(), Namespace::new());
    let pair = VethPair::new(&near, &far, 1, 1500);
    let directory = tempdir().unwrap();
    let path = directory.path().join("x.pcapng");
    let long = format!("file:{}", path.display());
    let mut command = wirelane(["send", "-q", &long, "--packet", "udp", "--size", "4000"]);
    assert!(output(command.args(["-c", "3", "--top-speed"])).status.success());
    let sink = format!("packet:{}", pair.a.interface);
    let ended = near_output(&near, &["forward", "-q", "--json", &long, &sink]);
    assert_refused(&ended, 1, &["none of the 3 packets to send could be sent"]);
    assert_eq!(parse(&ended.stdout)["totals"]["sent"], 0);
}
