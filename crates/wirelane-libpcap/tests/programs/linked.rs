//! The premise of the other tests: each program loads libpcap by the drop-in's name.

use std::fs;

use wirelane_testkit::installed::Program;

/// tshark captures through dumpcap; Scapy loads libpcap at run time.
const LINKED: [&str; 13] = [
    "tcpdump",
    "dumpcap",
    "nmap",
    "ngrep",
    "p0f",
    "arpwatch",
    "tcpflow",
    "nfpcapd",
    "softflowd",
    "argus",
    "tcpreplay",
    "tcpbridge",
    "suricata",
];

#[test]
fn programs_ask_for_libpcap_by_the_name_of_the_drop_in() {
    if !Program::require(&LINKED) {
        return;
    }
    for name in LINKED {
        let program = fs::read(Program::find(name).unwrap().path()).unwrap();
        let asks = program.windows(NAME.len()).any(|bytes| bytes == NAME);
        assert!(asks, "{name} has a libpcap of its own");
    }
}

const NAME: &[u8] = b"libpcap.so.0.8\0";
