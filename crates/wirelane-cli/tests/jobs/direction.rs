//! "What does this host send?"

use wirelane_testkit::tshark::filtered_fields;

use super::lan::ONCE;
use super::*;

/// Both directions, each of which is half of a talk.
#[test]
fn privileged_only_what_the_host_sends_or_receives() {
    if unavailable(&["tcpdump", "tshark", "ping"]) {
        return;
    }
    let lan = Lan::new(2);
    let [host, other] = &lan.hosts[..] else { unreachable!() };
    let mac = host.end.mac.map(|byte| format!("{byte:02x}")).join(":");
    for (direction, sent) in [("out", true), ("in", false)] {
        let mut both =
            lan.both(direction, host.interface(), &["-Q", direction], &["-Q", direction]);
        both.ready(READY, || host.ping(other.address, 1, READY, ONCE));
        host.ping(other.address, 1, BEGIN, ONCE);
        host.ping(other.address, 30, b"host ask", 56);
        other.ping(host.address, 30, b"other as", 56);
        host.ping(other.address, 1, LAST, ONCE);
        let (ours, theirs) = both.finish(LAST, 1);
        let seen = between(&ours, BEGIN, LAST);
        assert_same(&seen, &between(&theirs[0], BEGIN, LAST));
        // Thirty requests and thirty answers, the first and the last, and perhaps a question for an
        // address.
        assert!(seen.len() >= 62, "{direction}: {}", seen.len());
        let sources = filtered_fields(&ours, "frame", &["eth.src"]);
        assert!(sources.iter().all(|row| (row[0] == mac) == sent), "{direction}: {sources:?}");
        // The same by masks, which say it for queues.
        for packet in packets(&ours) {
            let class = packet.class.map(|class| class.as_str());
            assert_eq!(class == Some("tx"), sent, "{direction}");
        }
    }
}
