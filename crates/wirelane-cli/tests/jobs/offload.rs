//! "Why are there packets longer than the MTU, with wrong checksums?"

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::thread;

use serde_json::Value;
use wirelane_testkit::process::output;
use wirelane_testkit::tshark::wrong_checksums;

use super::lan::ONCE;
use super::*;

const BYTES: usize = 2 << 20;

/// A file passes from host 0 to host 1. The sender's interface segments packets and completes
/// checksums, and the receiver merges packets.
#[test]
fn privileged_packets_as_offloads_make_them() {
    if unavailable(&["tcpdump", "dumpcap", "tshark", "ethtool", "ping"]) {
        return;
    }
    let lan = Lan::new(2);
    let [sender, receiver] = &lan.hosts[..] else { unreachable!() };
    // The switch sends segments, like a wire, and the receiver merges them (GRO). The receiver's
    // answers are complete packets.
    for feature in ["tso", "gso", "tx"] {
        lan.switch.run("ethtool", ["-K", &receiver.port, feature, "off"]);
        receiver.end.ethtool(&["-K", &receiver.end.interface, feature, "off"]);
    }
    receiver.end.ethtool(&["-K", &receiver.end.interface, "gro", "on"]);

    let places = [
        ("sent", sender.interface()),
        ("wire", (&lan.switch, receiver.port.as_str())),
        ("received", receiver.interface()),
    ];
    let mut captures = places.map(|(name, (ns, interface))| {
        let mut both = lan.both(name, (ns, interface), &["--ring", "32M"], &[]);
        let dumpcap = lan.path(&format!("dumpcap-{name}.pcapng"));
        both.theirs.push(Peer::dumpcap(ns, interface, &dumpcap, &[]));
        both
    });
    for both in &mut captures {
        both.ready(READY, || sender.ping(receiver.address, 1, READY, ONCE));
    }
    sender.ping(receiver.address, 1, BEGIN, ONCE);
    transfer(&lan);
    sender.ping(receiver.address, 1, LAST, ONCE);

    let [sent, wire, received] = captures.map(|both| {
        let (ours, theirs) = both.finish(LAST, 2);
        let seen = between(&ours, BEGIN, LAST);
        for file in &theirs {
            assert_same(&seen, &between(file, BEGIN, LAST));
        }
        ours
    });
    let long = |file: &Path| seen(file).iter().filter(|packet| packet.0 > 1514).count();
    assert!(long(&sent) > 10 && long(&received) > 10, "{} {}", long(&sent), long(&received));
    assert_eq!(long(&wire), 0);
    assert!(!wrong_checksums(&sent).is_empty());
    assert_eq!(wrong_checksums(&wire).len(), 0);
    // tshark calls partial checksums wrong; Wirelane reports them as left to the interface, and
    // finds no violation.
    for (file, left) in [(&sent, true), (&wire, false), (&received, true)] {
        let audit = verify(file);
        assert_eq!(audit["violations"], 0, "{audit}");
        let of = |name: &str, key: &str| {
            let rules = audit["rules"].as_array().unwrap();
            number(&rules.iter().find(|rule| rule["rule"] == name).unwrap()[key])
        };
        assert_eq!(of("tcp-checksum", "left") > 0, left, "{audit}");
        assert_eq!(of("super-frame", "notes"), long(file) as u64, "{audit}");
    }
}

/// Sends the file over TCP.
#[track_caller]
fn transfer(lan: &Lan) {
    let [sender, receiver] = &lan.hosts[..] else { unreachable!() };
    let listener = receiver.ns.inside(|| TcpListener::bind((receiver.address, 0)).unwrap());
    let to = listener.local_addr().unwrap();
    let taker = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut got = vec![];
        stream.read_to_end(&mut got).unwrap();
        got
    });
    let content: Vec<u8> = (0..BYTES).map(|i| ((i * 7) >> 3) as u8).collect();
    let mut stream = sender.ns.inside(|| TcpStream::connect(to).unwrap());
    stream.write_all(&content).unwrap();
    drop(stream);
    assert!(taker.join().unwrap() == content);
}

#[track_caller]
fn verify(file: &Path) -> Value {
    let ended = output(wirelane(["verify", "--json"]).arg(file));
    assert_eq!(ended.status.code(), Some(0), "{}{}", ended.stdout, ended.stderr);
    serde_json::from_str(&ended.stdout).unwrap()
}
