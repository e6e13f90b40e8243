//! "Let it run for days, and keep the newest five files."

use std::fs;

use super::lan::ONCE;
use super::*;

const PINGS: usize = 2000;

/// Each of Wirelane's files equals one of dumpcap's. tcpdump counts bytes in other units: its files
/// and Wirelane's files by size each hold the newest packets without a gap.
#[test]
fn privileged_a_ring_of_five_files() {
    if unavailable(&["tcpdump", "dumpcap", "ping"]) {
        return;
    }
    let lan = Lan::new(2);
    let [host, other] = &lan.hosts[..] else { unreachable!() };
    let (ns, interface) = other.interface();
    // The neighbours resolve each other first.
    host.ping(other.address, 2, b"hello ok", 56);
    let place = |name: &str| {
        let directory = lan.directory.path().join(name);
        fs::create_dir(&directory).unwrap();
        directory.join("ring.pcapng")
    };
    let [all, count, size, dumpcap, tcpdump] =
        ["all", "count", "size", "dumpcap", "tcpdump"].map(place);
    let ours = |file: &Path, rotation: &[&str]| {
        let common = [interface, "-f", "icmp", "-W", "5", "-w", file.to_str().unwrap()];
        Running::start(Some(ns), &[&common, rotation].concat())
    };
    // tcpdump reports that it listens before it sets its filter, and loses packets in between.
    let args = ["-C", "1", "-W", "5", "icmp"];
    let slow = Peer::tcpdump(ns, interface, &tcpdump, &args);
    while slow.count(READY) < 2 {
        host.ping(other.address, 1, READY, ONCE);
    }
    let captures = [ours(&count, &["--rotate-packets", "800"]), ours(&size, &["-C", "1M"])];
    let ring = ["-f", "icmp", "-b", "packets:800", "-b", "files:5"];
    let theirs = [
        slow,
        Peer::dumpcap(ns, interface, &all, &["-f", "icmp"]),
        Peer::dumpcap(ns, interface, &dumpcap, &ring),
    ];
    // Requests and answers alternate: there is only one order.
    host.ping(other.address, PINGS, b"a packet", 1400);
    host.ping(other.address, 1, LAST, ONCE);
    theirs.into_iter().for_each(|peer| drop(peer.finish(LAST, 2)));
    for capture in captures {
        assert_eq!(number(&finish(capture)["totals"]["written"]), 2 * PINGS as u64 + 2);
    }
    let all = seen(&files(&all)[0]);
    assert_eq!(all.len(), 2 * PINGS + 2);

    let [count, size, dumpcap, tcpdump] = [count, size, dumpcap, tcpdump].map(|it| files(&it));
    for rotated in [&count, &size, &dumpcap, &tcpdump] {
        assert_eq!(rotated.len(), 5, "{rotated:?}");
        let newest: Vec<Seen> = rotated.iter().flat_map(|file| seen(file)).collect();
        assert_same(&newest, &all[all.len() - newest.len()..]);
    }
    for (our, their) in count.iter().zip(&dumpcap) {
        assert_same(&seen(our), &seen(their));
    }
    for file in &size {
        let length = fs::metadata(file).unwrap().len();
        assert!(length <= 1 << 20, "{}: {length} bytes", file.display());
    }
}

/// The files of a rotation, in the order of their packets.
fn files(one: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(one.parent().unwrap()).unwrap();
    let mut files: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort_by_key(|file| packets(file).first().map(|packet| packet.timestamp));
    files
}
