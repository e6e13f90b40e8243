//! "What passes this bridge, and with which VLAN tags?"

use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use wirelane_testkit::netns::Namespace;
use wirelane_testkit::process::output;
use wirelane_testkit::tap::MultiQueueTap;
use wirelane_testkit::tshark::filtered_fields;

use super::lan::{At, BRIDGE, ONCE, ping};
use super::*;

/// A host whose cable carries tags that its interface does not see: some kernels lack VLAN
/// interfaces.
///
/// ```text
///   host ─ TAP ─ thread ─ TAP ─ bridge
///                  └ puts tags into what the host sends, takes them out of what it receives
/// ```
struct Tagged {
    ns: Namespace,
    address: Ipv4Addr,
    /// The interface of the cable at the switch.
    port: String,
    ended: Arc<AtomicBool>,
    cable: Option<JoinHandle<()>>,
}

impl Tagged {
    fn new(lan: &Lan, number: u8, vlan: u16) -> Self {
        let ns = Namespace::new();
        let host = MultiQueueTap::new(&ns, "wl-host", 1);
        let address = Ipv4Addr::new(10, 66, 0, number);
        ns.run("ip", ["address", "add", &format!("{address}/24"), "dev", "wl-host"]);
        let port = format!("wl-trunk{number}");
        let switch = MultiQueueTap::new(&lan.switch, &port, 1);
        lan.switch.run("ip", ["link", "set", &port, "master", BRIDGE]);
        let tag = [&[0x81, 0x00][..], &vlan.to_be_bytes()].concat();
        let ended = Arc::new(AtomicBool::new(false));
        let stop = Arc::clone(&ended);
        let cable = thread::spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                while let Some(frame) = host.read(0) {
                    switch.write(0, &[&frame[..12], &tag, &frame[12..]].concat());
                }
                while let Some(frame) = switch.read(0) {
                    if frame[12..16] == tag {
                        host.write(0, &[&frame[..12], &frame[16..]].concat());
                    }
                }
                thread::sleep(Duration::from_micros(100));
            }
        });
        Self { ns, address, port, ended, cable: Some(cable) }
    }
}

impl Drop for Tagged {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        let _ = self.cable.take().map(JoinHandle::join);
    }
}

/// Two hosts talk through a bridge without tags, two in VLAN 10, two in VLAN 20.
#[test]
fn privileged_a_bridge_and_its_vlans() {
    if unavailable(&["tcpdump", "tshark", "ping"]) {
        return;
    }
    let lan = Lan::new(2);
    let [left, right] = &lan.hosts[..] else { unreachable!() };
    let [a, b] = [11, 12].map(|number| Tagged::new(&lan, number, 10));
    let [c, d] = [21, 22].map(|number| Tagged::new(&lan, number, 20));
    let talk = |count, mark: &[u8; 8], size| {
        left.ping(right.address, count, mark, size);
        ping(&a.ns, b.address, count, mark, size);
        ping(&c.ns, d.address, count, mark, size);
    };
    // The place, the filter, and the expected tags.
    let places: [(At<'_>, &str, &[&str]); 6] = [
        (left.interface(), "icmp", &[""]),
        ((&lan.switch, &left.port), "icmp", &[""]),
        ((&lan.switch, &a.port), "icmp", &["10"]),
        ((&lan.switch, BRIDGE), "icmp", &["", "10", "20"]),
        ((&lan.switch, BRIDGE), "vlan 10 and icmp", &["10"]),
        ((&lan.switch, BRIDGE), "", &["", "10", "20"]),
    ];
    let mut captures: Vec<Both> = Vec::new();
    for (number, (at, filter, _)) in places.iter().enumerate() {
        let theirs: Vec<&str> = Some(*filter).filter(|it| !it.is_empty()).into_iter().collect();
        let ours: Vec<&str> = theirs.iter().flat_map(|filter| ["-f", filter]).collect();
        captures.push(lan.both(&number.to_string(), *at, &ours, &theirs));
    }
    for both in &mut captures {
        both.ready(READY, || talk(1, READY, ONCE));
    }
    talk(1, BEGIN, ONCE);
    for size in [0, 56, 1400] {
        talk(10, b"a packet", size);
    }
    talk(1, LAST, ONCE);
    for (both, (at, filter, tags)) in captures.into_iter().zip(places) {
        let (ours, theirs) = both.finish(LAST, 2 * tags.len());
        let seen = between(&ours, BEGIN, LAST);
        assert_same(&seen, &between(&theirs[0], BEGIN, LAST));
        let rows = filtered_fields(&ours, "icmp", &["vlan.id"]);
        let found: BTreeSet<&str> = rows.iter().map(|row| row[0].as_str()).collect();
        assert!(found.iter().eq(tags), "{at:?} {filter}: {found:?}");
        // A file has the tags in their original place, and the filter selects the same packets from
        // it.
        let again = lan.path("again.pcapng");
        let args = ["capture", "-q", "-r", ours.to_str().unwrap(), "-f", filter, "-w"];
        let ended = output(wirelane(args).arg(&again));
        assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
        assert_same(&between(&again, BEGIN, LAST), &seen);
    }
}
