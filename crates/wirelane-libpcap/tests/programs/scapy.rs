//! Scapy with `conf.use_pcap`: it calls libpcap by Python's ctypes.

use wirelane_testkit::installed::Program;
use wirelane_testkit::libpcap::Library;
use wirelane_testkit::privileged;

use crate::bed::{Bed, Ending, assert_same, succeeded};
use crate::capture::Capture;
use crate::traffic;

/// Debian's Python, for which Debian's Scapy is installed.
const PYTHON: &str = "/usr/bin/python3";
const BEGIN: &str = "
import logging, sys
logging.getLogger('scapy').setLevel(logging.ERROR)
from scapy.all import *
conf.use_pcap = True
conf.verb = 0
assert 'pcap' in str(conf.L2listen), conf.L2listen
";

fn script(text: &str) -> [String; 2] {
    ["-c".to_owned(), format!("{BEGIN}{text}")]
}

#[test]
fn privileged_scapy_sees_the_same_packets() {
    if !privileged::require() || !scapy() {
        return;
    }
    let bed = Bed::new();
    let all = traffic::frames().len();
    let show = "for p in packets: print(len(p), p.wirelen, bytes(p).hex(), p.summary())";
    let scripts = [
        script(&format!("packets = sniff(iface='@', count={all})\n{show}")),
        script(&format!("packets = sniff(iface='@', count=20, filter='udp port 53')\n{show}")),
        script(&format!(
            "packets = sniff(iface='@', filter='icmp or greater 1500', stop_filter=lambda p: b'LLLL' in bytes(p))\n{show}"
        )),
    ];
    let args: Vec<Vec<&str>> =
        scripts.iter().map(|args| args.iter().map(String::as_str).collect()).collect();
    let programs: Vec<_> = args.iter().map(|args| (PYTHON, &args[..])).collect();
    let runs = bed.watch(&programs, Ending::Itself, || bed.replay());
    for (runs, least) in runs.into_iter().zip([all, 20, 20]) {
        let [stock, ours] = succeeded(runs).map(|run| run.output.stdout);
        assert_same("sniff", &stock, &ours);
        assert!(ours.lines().count() >= least, "{ours}");
    }
}

#[test]
fn privileged_scapy_sends_and_is_answered() {
    if !privileged::require() || !scapy() {
        return;
    }
    let bed = Bed::new();
    let there = bed.pair.b.address;
    let frame = "Ether(dst='02:00:00:00:00:07')/IP(src='192.0.2.1', dst='192.0.2.2')/UDP(dport=9)";
    let [flag, text] = script(&format!(
        "
sendp([{frame}/(b'%04d' % n) for n in range(200)], iface='@')
ping = srp1(Ether()/IP(dst='{there}')/ICMP(id=7, seq=3)/b'payload', iface='@', timeout=20)
print(ping.sprintf('%IP.src% %ICMP.type% %ICMP.id% %ICMP.seq% %Raw.load%'))
who = srp1(Ether(dst='ff:ff:ff:ff:ff:ff')/ARP(pdst='{there}'), iface='@', timeout=20)
print(who.sprintf('%ARP.op% %ARP.hwsrc% %ARP.psrc%'))
"
    ));
    let both = Library::BOTH.map(|library| {
        let mut watcher = bed.spawn_far("tcpdump", &["-i", "@", "-w", "seen", "-U", "udp"]);
        watcher.wait_until_listening();
        let run = bed.once(library, PYTHON, &[&flag, &text]);
        (watcher.end(Ending::Interrupt).bytes("seen"), run)
    });
    let [(stock_seen, stock), (ours_seen, ours)] = both;
    let [stock, ours] = succeeded([stock, ours]).map(|run| run.output.stdout);
    assert_same("answers", &stock, &ours);
    assert!(ours.contains("echo-reply 0x7 0x3") && ours.contains("is-at"), "{ours}");
    let seen = [&stock_seen, &ours_seen].map(|bytes| Capture::parse(bytes));
    assert_same("packets", &seen[0].lines(), &seen[1].lines());
    assert_eq!(seen[1].records.len(), 200);
}

#[track_caller]
fn scapy() -> bool {
    Program::require(&["scapy3", PYTHON, "tcpdump", "tcpreplay"])
}
