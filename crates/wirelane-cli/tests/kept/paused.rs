//! A reader that pauses, as on a busy machine, loses no packet of slow traffic.

use std::net::UdpSocket;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use wirelane_testkit::privileged;
use wirelane_testkit::veth::VethPair;

use super::*;

const PACKETS: u32 = 300;
const GAP: Duration = Duration::from_millis(10);
const PAUSE: Duration = Duration::from_millis(1300);

#[test]
fn privileged_a_paused_reader_loses_nothing_at_100_packets_a_second() {
    if !privileged::require() {
        return;
    }
    let (near, far) = (Namespace::new(), Namespace::new());
    let pair = VethPair::new(&near, &far, 2, 1500);
    let directory = tempfile::tempdir().unwrap();
    let port = pair.b.interface.as_str();
    let filter = "udp port 7007";
    let commands = commands(directory.path());
    let running: Vec<_> =
        commands.iter().map(|(name, args)| (*name, start(&far, port, args, filter))).collect();
    let socket = near.inside(|| UdpSocket::bind("0.0.0.0:7007")).unwrap();
    let begun = Instant::now();
    for sent in 0..PACKETS {
        if sent == 50 {
            running.iter().for_each(|(_, child)| child.signal(Signal::STOP));
        }
        if sent == 50 + (PAUSE.as_millis() / GAP.as_millis()) as u32 {
            running.iter().for_each(|(_, child)| child.signal(Signal::CONT));
        }
        socket.send_to(&sent.to_be_bytes(), (pair.b.address, 7007)).unwrap();
        thread::sleep((GAP * (sent + 1)).saturating_sub(begun.elapsed()));
    }
    thread::sleep(Duration::from_millis(500));
    for (name, child) in running {
        assert_eq!(finish(name, child, directory.path()), PACKETS as usize, "{name}");
    }
}
