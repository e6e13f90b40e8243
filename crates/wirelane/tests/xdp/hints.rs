//! Metadata from the driver: the hash of a packet's flow, compared with the hash that another part
//! of the kernel computes for the same bytes; and no hash if the driver has none.

use std::collections::HashMap;

use wirelane::Frame;
use wirelane::filter::Filter;
use wirelane::frame::RxHash;
use wirelane_os::bpf::{Insn, Load, Program, ProgramType};
use wirelane_os::iface;
use wirelane_os::packet::PacketSocket;
use wirelane_os::xdp::wait_for_receivers;
use wirelane_send::kernel::LiveSender;
use wirelane_testkit::privileged;

use super::*;

/// The bytes and the metadata of a received frame.
type Said = (Vec<u8>, Option<RxHash>, Option<u64>);

fn said(frame: &Frame) -> Said {
    (frame.data().to_vec(), frame.rx_hash(), frame.hardware_timestamp())
}

/// Stops the port and receives all packets until the end.
fn all(port: &XdpPort, ends: &mut [Rx]) -> Vec<Said> {
    port.control().stop();
    let (mut got, mut batch) = (Vec::new(), Batch::new(16));
    for rx in ends {
        while !matches!(rx.readiness().unwrap(), Readiness::End) {
            rx.receive(&mut batch);
            got.extend(batch.iter().map(said));
            batch.clear();
        }
    }
    got
}

/// Returns the hash of the kernel's flow dissector for a frame, from a test run of a
/// traffic-control program that uses no interface.
struct Oracle(Program);

impl Oracle {
    fn new() -> Self {
        /// `BPF_FUNC_get_hash_recalc`, Linux 4.8.
        const GET_HASH_RECALC: i32 = 34;
        let insns = [Insn::call(GET_HASH_RECALC), Insn::exit()];
        Self(Program::load(&Load::new(ProgramType::Traffic, "oracle", &insns)).unwrap())
    }

    fn hash(&self, frame: &[u8]) -> u32 {
        // A test run accepts at most a page; the headers are at the beginning.
        self.0.test_run(&frame[..frame.len().min(1000)], None, 1).unwrap().result
    }
}

/// Sends `frames` from the host at the near end, through its whole stack.
fn send_from_host(bench: &Bench, frames: &[Vec<u8>]) {
    bench.near.inside(|| {
        let socket = PacketSocket::open().unwrap();
        socket.bind(iface::index(&bench.pair.a.interface).unwrap(), 0).unwrap();
        for frame in frames {
            assert_eq!(socket.send_frame(frame).unwrap(), frame.len());
        }
        // On a busy machine this takes some time.
        assert!(eventually(|| socket.outstanding().unwrap() == 0));
        wait_for_receivers();
    });
}

/// Packets of `flows` flows, of mixed lengths up to `longest`.
fn frames(count: u64, flows: u16, longest: u64) -> Vec<Vec<u8>> {
    let frame = |n: u64| {
        let flow = (n / 3 % u64::from(flows)) as u16;
        let length = (60 + n * 97 % (longest - 59)) as usize;
        match n % 3 {
            0 => packets::udp4(n).flow(flow).length(length).build(),
            1 => packets::tcp4(n).flow(flow).length(length.max(74)).build(),
            _ => packets::udp6(n).flow(flow).length(length.max(80)).build(),
        }
    };
    (0..count).map(frame).collect()
}

#[test]
fn privileged_each_packet_comes_with_the_hash_of_its_flow() {
    if !privileged::require() {
        return;
    }
    let oracle = Oracle::new();
    let filter: Filter = "udp or tcp".parse().unwrap();
    let matching = OpenOptions::default().filter(filter).take(Take::Matching);
    for (mtu, longest, query, options) in [
        (1500, 1514, "?mode=native&rx_hash=on", receiving()),
        (1500, 1514, "?mode=native&rx_hash=auto&rx_timestamps=auto&frame=3000", matching),
        (1500, 1514, "?mode=native&rx_hash=on&tags=on&headroom=64", receiving()),
        // In pieces: the hash is stored before the first.
        (9000, 9014, "?mode=native&rx_hash=on&frame=2048", receiving()),
    ] {
        let bench = Bench::new(1, mtu);
        let mut port = bench.far(query, &options);
        assert_eq!(port.info().notes, [] as [String; 0]);
        let mut ends = port.rx().unwrap();
        port.start().unwrap();
        let sent = frames(120, 10, longest);
        send_from_host(&bench, &sent);
        let got = all(&port, &mut ends);
        assert!(got.iter().map(|(bytes, ..)| bytes).eq(&sent), "{query}: {}", got.len());
        let mut values: HashMap<u32, usize> = HashMap::new();
        for (bytes, hash, time) in &got {
            let hash = hash.unwrap();
            assert_eq!(hash.value, oracle.hash(bytes), "{query}");
            assert!(hash.kind.covers_ports(), "{:?}", hash.kind);
            // Without hardware there is no hardware timestamp.
            assert_eq!(*time, None);
            *values.entry(hash.value).or_default() += 1;
        }
        assert_eq!((values.len(), values.values().sum::<usize>()), (30, 120), "{query}");
        assert_conserved(&port);
    }
}

#[test]
fn privileged_where_the_driver_knows_nothing_it_is_unknown() {
    if !privileged::require() {
        return;
    }
    let bench = Bench::new(1, 1500);
    let sent = frames(5, 5, 1514);
    // Without the option, frames have no metadata.
    let mut port = bench.far("?mode=native", &receiving());
    let mut ends = port.rx().unwrap();
    port.start().unwrap();
    send_from_host(&bench, &sent);
    let got = all(&port, &mut ends);
    assert_eq!(got.len(), 5);
    assert!(got.iter().all(|(_, hash, time)| hash.is_none() && time.is_none()));
    drop((port, ends));
    // First packets that have hashes, then, in the same chunks, packets that never passed a network
    // stack, so that veth has no hash for them.
    let mut port =
        bench.far("?mode=native&rx_hash=on&rx_timestamps=on&frames=128&ring=64", &receiving());
    let mut ends = port.rx().unwrap();
    port.start().unwrap();
    let mut batch = Batch::new(64);
    let mut receive = |count: usize| {
        let mut got = Vec::new();
        assert!(eventually(|| {
            ends[0].receive(&mut batch);
            got.extend(batch.iter().map(said));
            batch.clear();
            // Returns chunks to the kernel.
            ends[0].readiness().unwrap();
            got.len() >= count
        }));
        got
    };
    for _ in 0..60 {
        send_from_host(&bench, &sent);
        let got = receive(sent.len());
        assert!(got.iter().all(|(_, hash, time)| hash.is_some() && time.is_none()));
    }
    let frame = packets::udp4(7).build();
    let interface = &bench.pair.a.interface;
    bench.near.inside(|| LiveSender::new(interface, &[&frame]).unwrap().send(30).unwrap());
    let got = receive(30);
    assert!(
        got.iter().all(|(bytes, hash, time)| *bytes == frame && hash.is_none() && time.is_none())
    );
}

#[test]
fn privileged_what_cannot_be_had_is_said_or_refused() {
    if !privileged::require() {
        return;
    }
    let bench = Bench::new(1, 1500);
    for (option, what) in [("rx_hash", "hashes"), ("rx_timestamps", "times")] {
        let spec = format!("xdp:{}?mode=generic&{option}=on", bench.pair.b.interface);
        let error = open(&bench.far, &spec, &receiving()).err().unwrap();
        let text = error.to_string();
        for part in [what, &format!("{option}=on"), "veth", "generic", &format!("{option}=auto")] {
            assert!(text.contains(part), "{part}: {text}");
        }
        let port = bench.far(&format!("?mode=generic&{option}=auto"), &receiving());
        let said = |note: &String| note.contains(what) && note.contains("generic");
        assert!(port.info().notes.iter().any(said), "{:?}", port.info().notes);
        drop(port);
        // Negotiation finds a mode that supports it.
        let port = bench.far(&format!("?{option}=on"), &receiving());
        assert_eq!(port.info().mode, PortMode::Native);
        drop(port);
        // A port that only sends does not need it.
        open(&bench.far, &format!("{spec}&tx_budget=32"), &sending()).unwrap();
    }
}

#[test]
fn privileged_another_filter_asks_as_well() {
    if !privileged::require() {
        return;
    }
    let bench = Bench::new(1, 1500);
    let mut port = bench.far("?mode=native&rx_hash=on", &receiving());
    let mut ends = port.rx().unwrap();
    port.start().unwrap();
    // Set the filter from this namespace, where the interface index is of another interface or of
    // none.
    let filter: Filter = "udp".parse().unwrap();
    port.control().set_filter(Some(&filter)).unwrap();
    send_from_host(&bench, &frames(9, 3, 200));
    let got = all(&port, &mut ends);
    assert_eq!(got.len(), 6);
    assert!(got.iter().all(|(_, hash, _)| hash.is_some()));
}
