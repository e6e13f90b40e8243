//! Rings that deliver each packet at once.

use std::time::Instant;

use rustix::net::SendFlags;
use wirelane::internal::port::ProgramOptions;
use wirelane::mask::Class;
use wirelane::port::{OpenOptions, PortMode};
use wirelane_os::packet::PacketSocket;
use wirelane_testkit::netns::Namespace;
use wirelane_testkit::tap::MultiQueueTap;
use wirelane_testkit::{packets, privileged};

use super::*;

/// A frame of `length` bytes.
fn frame(sequence: u64, length: usize) -> Vec<u8> {
    let mut frame = packets::raw(sequence);
    frame.resize(length, sequence as u8);
    frame
}

#[test]
fn privileged_packets_longer_than_a_slot_are_whole() {
    if !privileged::require() {
        return;
    }
    let ns = Namespace::new();
    let tap = MultiQueueTap::new(&ns, "wl-long", 1);
    let lengths = [60, 1514, 1900, 1940, 1950, 1960, 2048, 2500, 4096, 9014, 16_000, 65_000];
    let mut sent: Vec<_> = (0..).zip(lengths).map(|(n, length)| frame(n, length)).collect();
    sent.push(packets::udp4(90).vlan(100).length(9000).build());
    sent.push(packets::udp6(91).vlan(4095).length(1514).build());
    for snaplen in [OpenOptions::MAX_SNAPLEN, 40_000, 2000, 96, 14] {
        let options = OpenOptions::default()
            .snaplen(snaplen)
            .internal(ProgramOptions::default().outgoing(false));
        let mut port = open(&ns, "packet:wl-long?ring=1Mi&retire=0", &options).unwrap();
        assert_eq!(port.info().mode, PortMode::TpacketV2);
        let mut ends = port.rx().unwrap();
        port.start().unwrap();
        // Twice as many long frames as the port has memory for at a time.
        for _ in 0..2 {
            sent.iter().for_each(|frame| tap.write(0, frame));
        }
        let got = finish(&*port.control(), &mut ends);
        assert_eq!(got.len(), 2 * sent.len(), "snap length {snaplen}");
        for (got, sent) in got.iter().zip(sent.iter().chain(&sent)) {
            let kept = sent.len().min(snaplen as usize);
            assert!(got.bytes == sent[..kept], "{} of {} bytes", got.bytes.len(), sent.len());
            assert_eq!(got.original_len as usize, sent.len());
        }
        assert_conserved(&port);
    }
}

/// BIG TCP makes packets of this size.
#[test]
fn privileged_packets_of_200_000_bytes_are_whole() {
    if !privileged::require() {
        return;
    }
    let ns = Namespace::new();
    ns.run("ip", ["link", "set", "lo", "mtu", "250000", "up"]);
    let index = ns.inside(|| wirelane_os::iface::index("lo").unwrap());
    let sender = ns.inside(|| PacketSocket::open().unwrap());
    sender.bind(index, 0).unwrap();
    let lengths = [60, 65_600, 131_008, 131_009, 180_054, 200_000, 60, 200_000];
    let sent: Vec<_> = (0..).zip(lengths).map(|(n, length)| frame(n, length)).collect();
    for snaplen in [OpenOptions::MAX_SNAPLEN, 150_000, 96] {
        let options = OpenOptions::default()
            .snaplen(snaplen)
            .internal(ProgramOptions::default().outgoing(false));
        let mut port = open(&ns, "packet:lo?retire=0", &options).unwrap();
        assert_eq!(port.info().mode, PortMode::TpacketV2);
        let mut ends = port.rx().unwrap();
        port.start().unwrap();
        for frame in sent.iter().chain(&sent) {
            assert_eq!(rustix::net::send(&sender, frame, SendFlags::empty()), Ok(frame.len()));
        }
        let got = finish(&*port.control(), &mut ends);
        assert_eq!(got.len(), 2 * sent.len(), "snap length {snaplen}");
        for (got, sent) in got.iter().zip(sent.iter().chain(&sent)) {
            assert!(got.bytes == sent[..sent.len().min(snaplen as usize)], "{}", sent.len());
            assert_eq!(got.original_len as usize, sent.len());
        }
        assert_conserved(&port);
    }
}

#[test]
fn privileged_a_latency_below_a_block_is_one_by_one() {
    if !privileged::require() {
        return;
    }
    let ns = Namespace::new();
    let _tap = MultiQueueTap::new(&ns, "wl-mode", 1);
    for (spec, micros, mode) in [
        ("packet:wl-mode", None, PortMode::TpacketV3),
        ("packet:wl-mode", Some(1000), PortMode::TpacketV3),
        ("packet:wl-mode", Some(999), PortMode::TpacketV2),
        ("packet:wl-mode?retire=1ms", Some(0), PortMode::TpacketV3),
        ("packet:wl-mode?retire=0", Some(50_000), PortMode::TpacketV2),
    ] {
        let options = OpenOptions::default().latency(micros.map(Duration::from_micros));
        let port = open(&ns, spec, &options).unwrap();
        assert_eq!(port.info().mode, mode, "{spec} {micros:?}");
        assert!(mode == PortMode::TpacketV3 || port.info().lateness <= 1_000_000);
    }
}

/// A ring of the default size has room for 10 s of 100 packets/s, at whatever rate they arrive.
#[test]
fn privileged_a_paused_reader_misses_none_of_a_thousand() {
    if !privileged::require() {
        return;
    }
    let ns = Namespace::new();
    let tap = MultiQueueTap::new(&ns, "wl-held", 4);
    let mut port = open(&ns, "packet:wl-held?retire=0", &OpenOptions::default()).unwrap();
    let mut ends = port.rx().unwrap();
    port.start().unwrap();
    let length = |n: u64| if n.is_multiple_of(50) { 9000 } else { 60 + n as usize };
    (0..1000).for_each(|n| tap.write(0, &frame(n, length(n))));
    let got = finish(&*port.control(), &mut ends);
    assert_eq!(sequences(&got, Class::Rx, 0), (0..1000).collect::<Vec<_>>());
    assert!(got.iter().all(|got| got.bytes.len() == length(got.sequence.unwrap())));
    assert_conserved(&port);
}

/// Packets that find no slot, and packets that are too long for their slot and find no room in the
/// socket's buffer.
#[test]
fn privileged_what_finds_no_room_is_counted() {
    if !privileged::require() {
        return;
    }
    let ns = Namespace::new();
    let tap = MultiQueueTap::new(&ns, "wl-loss", 1);
    for (sent, length) in [(5000, 60), (30, 60_000)] {
        let options = OpenOptions::default().internal(ProgramOptions::default().outgoing(false));
        let mut port = open(&ns, "packet:wl-loss?ring=64Ki&retire=0", &options).unwrap();
        let mut ends = port.rx().unwrap();
        port.start().unwrap();
        (0..sent).for_each(|n| tap.write(0, &frame(n, length)));
        let got = finish(&*port.control(), &mut ends);
        let stats = ends[0].counters().snapshot(0);
        let dropped = stats.dropped.kernel.unwrap() + stats.dropped.ring_full.unwrap();
        assert!(dropped > 0 && stats.packets > 0, "{stats:?}");
        assert_eq!(stats.packets + dropped, sent, "{stats:?}");
        assert!(got.iter().all(|got| got.bytes.len() == length));
        assert_conserved(&port);
    }
}

#[test]
fn privileged_a_packet_is_there_within_a_millisecond() {
    if !privileged::require() {
        return;
    }
    let ns = Namespace::new();
    let tap = MultiQueueTap::new(&ns, "wl-soon", 1);
    let options = masked(mask(&[0], &[], false));
    let mut port = open(&ns, "packet:wl-soon?retire=0", &options).unwrap();
    let mut ends = port.rx().unwrap();
    port.start().unwrap();
    let mut batch = Batch::default();
    let mut age = |n| {
        let sent = Instant::now();
        tap.write(0, &packets::raw(n));
        while ends[0].receive(&mut batch) == 0 {
            wirelane::pipeline::wait_any(&mut ends, &[], None).unwrap();
        }
        batch.clear();
        sent.elapsed()
    };
    // On a busy machine most packets may be late. A block would take at least a millisecond.
    assert!((0..10_000).any(|n| age(n) < Duration::from_micros(900)));
}
