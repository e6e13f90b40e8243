//! Programs that send: tcpreplay and tcpbridge.

use wirelane_testkit::installed::Program;
use wirelane_testkit::libpcap::Library;
use wirelane_testkit::privileged;
use wirelane_testkit::veth::VethPair;

use crate::bed::{Bed, Ending, Run, assert_same, succeeded};
use crate::capture::{Capture, assert_same_packets};
use crate::traffic;

/// The packets at the other end while `action` sends over one library, then over the other.
fn seen_at_the_other_end(
    bed: &Bed,
    mut action: impl FnMut(Library) -> Run,
) -> ([Vec<u8>; 2], [Run; 2]) {
    let both = Library::BOTH.map(|library| {
        let mut watcher = bed.spawn_far("tcpdump", &["-i", "@", "-w", "seen", "-U"]);
        watcher.wait_until_listening();
        let run = action(library);
        (watcher.end(Ending::Interrupt).bytes("seen"), run)
    });
    let [(stock_seen, stock), (ours_seen, ours)] = both;
    ([stock_seen, ours_seen], [stock, ours])
}

#[test]
fn privileged_tcpreplay_sends_the_same_packets() {
    if !privileged::require() || !Program::require(&["tcpreplay", "tcpdump"]) {
        return;
    }
    let bed = Bed::new();
    bed.write_traffic("traffic.pcap");
    let file = "../traffic.pcap";
    let cases: [&[&str]; 3] = [
        &["-i", "@", "--pps=5000", file],
        &["-i", "@", "-K", "--pps=5000", "--loop=2", "-L", "400", file],
        &["-i", "@", "--multiplier=10", file],
    ];
    for args in cases {
        let (seen, runs) =
            seen_at_the_other_end(&bed, |library| bed.once(library, "tcpreplay", args));
        let what = format!("{args:?}");
        let [stock, ours] = succeeded(runs).map(|run| {
            let counts = |line: &&str| line.contains("packets:") || line.contains("Retried");
            run.output.stdout.lines().filter(counts).map(str::to_owned).collect::<Vec<_>>()
        });
        assert_eq!(stock, ours, "{what}");
        let seen = assert_same_packets(&what, seen.each_ref().map(Vec::as_slice));
        let count = if args.contains(&"-L") { 400 } else { traffic::frames().len() };
        assert_eq!(seen.records.len(), count, "{what}");
    }
}

/// tcpbridge reads and sends through libpcap, with two handles.
///
/// ```text
///   far ══ wla near wlb ══ beyond
/// ```
#[test]
fn privileged_tcpbridge_passes_the_same_packets_on() {
    if !privileged::require() || !Program::require(&["tcpbridge", "tcpreplay", "tcpdump"]) {
        return;
    }
    let both = Library::BOTH.map(|library| {
        let bed = Bed::new();
        let second = VethPair::new(&bed.far, &bed.near, 1, 1500);
        second.set_offloads(false);
        let mut watcher =
            bed.spawn_far("tcpdump", &["-i", &second.a.interface, "-w", "seen", "-U"]);
        watcher.wait_until_listening();
        let out = format!("--intf2={}", second.b.interface);
        let all = format!("--limit={}", traffic::frames().len());
        let mut bridge = bed.spawn(library, "tcpbridge", &["-u", "--intf1=@", &out, &all]);
        bridge.wait_until_listening();
        bed.replay();
        let run = bridge.end(Ending::Itself);
        (watcher.end(Ending::Interrupt).bytes("seen"), run)
    });
    let [(stock, first), (ours, second)] = both;
    let said = |run: &Run| run.output.stdout.replace(|c: char| c.is_ascii_digit(), "");
    assert_same("what it says", &said(&first), &said(&second));
    let seen = assert_same_packets("tcpbridge", [&stock, &ours]);
    assert_eq!(seen.lines(), Capture::parse(&stock).lines());
    assert_eq!(seen.records.len(), traffic::frames().len());
}
