//! A simulated port receives exactly the packets that its stream predicts.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use proptest::prelude::*;
use wirelane::internal::sim::{self, Stream, cable};
use wirelane::pcap::{CaptureWriter, Direction, Record, Source, WriterOptions};
use wirelane::port::{OpenOptions, Port, Readiness, Rx, Spec, Tx};
use wirelane::{Batch, Class, QueueMask};
use wirelane_testkit::{tools, tshark};
use wirelane_wire::{FlowKey, HashInput, ToeplitzKey, ethernet};

/// The class and the queue as in a stream: packets without a queue have queue 0.
fn place(rx: &Rx) -> (Class, u16) {
    (rx.class(), rx.queue().unwrap_or(0))
}

fn spec(text: &str) -> Spec {
    text.parse().unwrap()
}

fn open(text: &str) -> Port {
    sim::open(&spec(text), &OpenOptions::default().transmit(true)).unwrap()
}

/// Class, queue, timestamp and bytes of a packet.
type Seen = (Class, u16, u64, Vec<u8>);

/// Receives on every end in turn until all have ended.
fn drain(ends: &mut [Rx], batch: usize) -> Vec<Seen> {
    let (mut seen, mut open) = (Vec::new(), true);
    let mut batch = Batch::new(batch);
    let deadline = Instant::now() + Duration::from_secs(60);
    while open {
        assert!(Instant::now() < deadline, "the port does not come to its end");
        open = false;
        for rx in ends.iter_mut() {
            let floor = rx.watermark();
            let n = rx.receive(&mut batch);
            open |= n > 0 || !matches!(rx.readiness().unwrap(), Readiness::End);
            for frame in batch.iter() {
                assert_eq!((frame.class(), frame.queue()), (rx.class(), rx.queue()));
                assert!(frame.timestamp() >= floor, "older than promised");
                let bytes = frame.data().to_vec();
                seen.push((frame.class(), place(rx).1, frame.timestamp(), bytes));
            }
            batch.clear();
        }
    }
    seen
}

/// Asking for ends that do not exist, or a second time, is an error; an empty list would hide the
/// mistake.
#[test]
fn ends_that_are_not_there_are_errors() {
    let mut sim = sim::open(&spec("sim:2?count=1"), &OpenOptions::default()).unwrap();
    assert!(!sim.transmits());
    let error = sim.tx().err().unwrap();
    assert_eq!(
        error.to_string(),
        "port 'sim:2?count=1': it was opened without transmitting ends; open it with \
         OpenOptions::transmit(true)"
    );
    assert_eq!(sim.rx().unwrap().len(), 2);
    let error = sim.rx().err().unwrap();
    assert_eq!(
        error.to_string(),
        "port 'sim:2?count=1': its receiving ends were handed out before"
    );
    let mut sim = open("sim:2?count=1");
    assert!(sim.transmits() && sim.tx().unwrap().len() == 2 && !sim.transmits());
    let error = sim.tx_segmenting().err().unwrap();
    assert_eq!(
        error.to_string(),
        "port 'sim:2?count=1': its transmitting ends were handed out before"
    );
}

/// Checks that every packet of the stream arrives exactly once, unchanged, in order, and on its
/// queue.
fn assert_predicted(text: &str, batch: usize) {
    let stream = Stream::new(&spec(text)).unwrap();
    let mut sim = open(text);
    let mut ends = sim.rx().unwrap();
    assert!(sim.rx().is_err());
    sim.start().unwrap();
    let seen = drain(&mut ends, batch);
    let mut last = BTreeMap::new();
    let mut numbers = Vec::new();
    let epoch = seen.iter().map(|(_, _, time, _)| *time).min().unwrap_or(0);
    for (class, queue, time, bytes) in &seen {
        let k = stream.number(bytes).expect("an intact packet");
        let predicted = stream.packet(k);
        assert_eq!((predicted.class, predicted.queue), (*class, *queue), "packet {k}");
        assert_eq!(&predicted.bytes, bytes, "packet {k}");
        if let Some(due) = predicted.due {
            assert_eq!(time - epoch, due, "packet {k}");
        }
        if let Some((before, then)) = last.insert((*class, *queue), (k, *time)) {
            assert!(before < k && (then < *time || predicted.due.is_some()), "order of {k}");
        }
        numbers.push(k);
    }
    numbers.sort_unstable();
    assert!(numbers.iter().copied().eq(0..stream.count().unwrap()), "each once: {text}");
    let counted: u64 = ends.iter().map(|rx| rx.counters().packets.value()).sum();
    assert_eq!(counted, seen.len() as u64);
    let frames = sim.frames();
    assert_eq!(frames.free, frames.pool);
}

#[test]
fn every_kind_of_traffic_is_predicted() {
    for text in [
        "sim:1?count=1000",
        "sim:4?count=5000&size=imix&flows=100&proto=mix&ip=mix",
        "sim:64?count=3000&flows=1000&vlan=7",
        "sim:300?count=3000&flows=1000",
        "sim:3?count=2000&size=9000&ip=6&proto=tcp&flows=1",
        "sim:2?count=2000&size=1500&flows=65536&key=symmetric",
        "sim:4?count=4000&other=3&tx=5&flows=64&size=imix",
        "sim:2?count=4000&other=1",
        "sim:2?count=500&size=60&seed=99&frames=3",
        "sim:2?count=2000&rate=1Mpps&frames=4096",
        "sim:2?count=2000&rate=6Gbit&size=imix&proto=mix&frames=4096",
    ] {
        assert_predicted(text, 64);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn prediction_is_reception(
        queues in 1u16..=64,
        size in prop_oneof![Just("imix".to_owned()), (60u32..=2000).prop_map(|n| n.to_string())],
        flows in 1u32..400,
        proto in prop_oneof![Just("udp"), Just("tcp"), Just("mix")],
        ip in prop_oneof![Just("4"), Just("6"), Just("mix")],
        extra in prop_oneof![Just(""), Just("&other=7"), Just("&tx=4"), Just("&tx=2&other=3&vlan=9")],
        seed: u64,
        count in 1u64..2000,
        batch in 1usize..100,
    ) {
        let traffic = format!("size={size}&flows={flows}&proto={proto}&ip={ip}&seed={seed}{extra}");
        assert_predicted(&format!("sim:{queues}?{traffic}&count={count}&frames=64"), batch);
    }
}

#[test]
fn nothing_comes_before_the_start_and_nothing_new_after_the_stop() {
    for text in ["sim:2", "sim:2?rate=1Mpps"] {
        let mut sim = open(text);
        let mut ends = sim.rx().unwrap();
        let mut batch = Batch::default();
        std::thread::sleep(Duration::from_millis(5));
        assert_eq!(ends[0].receive(&mut batch), 0);
        assert!(matches!(ends[0].readiness().unwrap(), Readiness::After(_)));
        sim.start().unwrap();
        std::thread::sleep(Duration::from_millis(1));
        assert!(ends[0].receive(&mut batch) > 0);
        sim.control().stop();
        drain(&mut ends, 64);
        batch.clear();
        assert_eq!(ends[0].receive(&mut batch), 0);
    }
}

#[test]
fn masks_select_exactly_and_can_change() {
    let text = "sim:4?other=5&tx=3&flows=97";
    let stream = Stream::new(&spec(text)).unwrap();
    let mut sim = open(text);
    let (mut ends, control) = (sim.rx().unwrap(), sim.control());
    sim.start().unwrap();
    let mut batch = Batch::default();
    let mut next: BTreeMap<(Class, u16), u64> = BTreeMap::new();
    for bits in 0..512u32 {
        let mut mask = QueueMask::NONE;
        mask.rx = (0..4).filter(|queue| bits >> queue & 1 == 1).collect();
        mask.tx = (0..4).filter(|queue| bits >> (4 + queue) & 1 == 1).collect();
        mask.other = bits >> 8 == 1;
        control.set_mask(mask.clone()).unwrap();
        assert_eq!(control.mask(), mask);
        for rx in &mut ends {
            let n = rx.receive(&mut batch);
            let selected = mask.selects(rx.class(), usize::from(place(rx).1));
            assert_eq!(n > 0, selected, "{mask}: {:?}", place(rx));
            for frame in batch.iter() {
                let k = stream.number(frame.data()).unwrap();
                let predicted = stream.packet(k);
                let predicted = (predicted.class, predicted.queue);
                assert_eq!(predicted, place(rx));
                let before = next.insert(predicted, k + 1).unwrap_or(0);
                assert!(before <= k, "packet {k} twice");
            }
            batch.clear();
        }
    }
}

#[test]
fn a_mask_with_a_queue_that_does_not_exist_is_refused() {
    for text in ["sim:4", "sim:4@0,1"] {
        let mask = QueueMask { rx: "0,6".parse().unwrap(), ..QueueMask::ALL };
        let options = OpenOptions::default().mask(mask.clone());
        let error = sim::open(&spec(text), &options).err().expect("there is no queue 6");
        assert_eq!(error.kind(), wirelane::ErrorKind::Usage);
        assert!(error.to_string().contains("queue 6"), "{error}");
        let control = open(text).control();
        assert!(control.set_mask(mask).is_err());
        assert_eq!(control.mask(), QueueMask::ALL);
    }
}

#[test]
fn a_queue_that_stays_selected_misses_nothing() {
    let text = "sim:2?flows=64";
    let stream = Stream::new(&spec(text)).unwrap();
    let mut sim = open(text);
    let (mut ends, control) = (sim.rx().unwrap(), sim.control());
    sim.start().unwrap();
    let changer = std::thread::spawn(move || {
        for i in 0..20_000 {
            let rx = if i % 2 == 0 { "0" } else { "0-1" }.parse().unwrap();
            control.set_mask(QueueMask { rx, ..QueueMask::ALL }).unwrap();
        }
        control.stop();
    });
    let (mut batch, mut numbers) = (Batch::default(), Vec::new());
    loop {
        let n = ends[0].receive(&mut batch);
        if n == 0 && matches!(ends[0].readiness().unwrap(), Readiness::End) {
            break;
        }
        ends[1].receive(&mut Batch::default());
        if numbers.len() < 50_000 {
            numbers.extend(batch.iter().map(|frame| stream.number(frame.data()).unwrap()));
        }
        batch.clear();
    }
    changer.join().unwrap();
    let last = *numbers.last().unwrap();
    let predicted = (0..=last).filter(|k| stream.packet(*k).queue == 0);
    assert!(numbers.iter().copied().eq(predicted));
}

#[test]
fn packets_are_due_to_the_nanosecond() {
    let text = "sim:2?rate=100kpps&count=20000&frames=20000";
    let stream = Stream::new(&spec(text)).unwrap();
    let mut sim = open(text);
    let mut ends = sim.rx().unwrap();
    let begin = Instant::now();
    sim.start().unwrap();
    let seen = drain(&mut ends, 64);
    // The last packet is due after 19999 intervals.
    assert!(begin.elapsed() >= Duration::from_nanos(199_990_000));
    assert_eq!(seen.len(), 20_000);
    let epoch = seen.iter().map(|(_, _, time, _)| *time).min().unwrap();
    for (_, _, time, bytes) in &seen {
        assert_eq!(time - epoch, stream.number(bytes).unwrap() * 10_000);
    }
    assert!(ends.iter().all(|rx| rx.counters().ring_full.value() == 0));
}

#[test]
fn a_full_ring_loses_and_counts() {
    let mut sim = open("sim:1?rate=1Mpps&frames=100&count=5000");
    let mut ends = sim.rx().unwrap();
    sim.start().unwrap();
    std::thread::sleep(Duration::from_millis(20));
    let mut held = Batch::new(200);
    assert_eq!(ends[0].receive(&mut held), 100);
    assert!(matches!(ends[0].readiness().unwrap(), Readiness::End));
    assert_eq!(ends[0].counters().ring_full.value(), 4900);
    assert_eq!(sim.frames().held(), 100);
    held.clear();
    assert_eq!(ends[0].receive(&mut held), 0);
    assert_eq!(sim.frames().held(), 0);
}

#[test]
fn a_consumer_that_keeps_all_frames_holds_the_source_back() {
    let mut sim = open("sim:1?frames=50&count=120");
    let mut ends = sim.rx().unwrap();
    sim.start().unwrap();
    let mut held = Batch::new(200);
    assert_eq!(ends[0].receive(&mut held), 50);
    assert_eq!(ends[0].receive(&mut held), 0);
    assert!(matches!(ends[0].readiness().unwrap(), Readiness::After(_)));
    assert_eq!(sim.frames().held(), 50);
    held.release_first(20);
    assert_eq!(ends[0].receive(&mut held), 20);
    held.clear();
    assert_eq!(ends[0].receive(&mut held), 50);
    assert_eq!(ends[0].counters().ring_full.value(), 0);
}

#[test]
fn queues_follow_receive_side_scaling() {
    for (text, key) in [
        ("sim:4?flows=500&ip=mix&proto=mix", ToeplitzKey::MICROSOFT),
        ("sim:4?flows=500&ip=mix&proto=mix&key=symmetric", ToeplitzKey::SYMMETRIC),
    ] {
        let stream = Stream::new(&spec(text)).unwrap();
        let mut queues = [0; 4];
        for k in 0..500 {
            let packet = stream.packet(k);
            let flow = FlowKey::parse(&packet.bytes).unwrap().unwrap();
            assert_eq!(flow, stream.flow_key(k as u32));
            let hash = key.hash(HashInput::with_ports(&flow).bytes());
            // The default table of 128 entries assigns the queues in turn.
            assert_eq!(packet.queue, (hash % 128 % 4) as u16);
            queues[usize::from(packet.queue)] += 1;
            let back = stream.queue_of(&flow.reversed());
            assert!(!key.is_symmetric() || back == packet.queue);
        }
        assert!(queues.iter().all(|n| (80..170).contains(n)), "{queues:?}");
    }
}

#[test]
fn the_snap_length_cuts_and_the_wire_length_stays() {
    let options = OpenOptions::default().snaplen(96);
    let mut sim = sim::open(&spec("sim:1?size=300&count=10"), &options).unwrap();
    let mut ends = sim.rx().unwrap();
    sim.start().unwrap();
    let mut batch = Batch::default();
    assert_eq!(ends[0].receive(&mut batch), 10);
    assert!(batch.iter().all(|frame| (frame.len(), frame.original_len()) == (96, 300)));
    assert_eq!(ends[0].counters().bytes.value(), 3000);
}

#[test]
fn only_the_queues_named_are_open() {
    let mut sim = open("sim:8@1,5?tx=2&other=9");
    assert_eq!(sim.info().queues, [1, 5]);
    let ends: Vec<_> = sim.rx().unwrap().iter().map(|rx| (rx.class(), rx.queue())).collect();
    let (rx, tx) = (Class::Rx, Class::Tx);
    let queues = [(rx, 1), (rx, 5), (tx, 1), (tx, 5)].map(|(class, queue)| (class, Some(queue)));
    assert_eq!(ends, [&queues[..], &[(Class::Other, None)]].concat());
    assert_eq!(sim.tx().unwrap().iter().map(|tx| tx.queue()).collect::<Vec<_>>(), [1, 5]);
}

#[test]
fn the_sink_counts_and_verifies() {
    let mut sim = open("sim:1?verify=on&frames=64&proto=mix&ip=mix&size=200");
    let (mut ends, mut sinks) = (sim.rx().unwrap(), sim.tx().unwrap());
    sim.start().unwrap();
    let mut batch = Batch::default();
    assert_eq!(ends[0].receive(&mut batch), 64);
    batch[3].data_mut()[150] ^= 1;
    for frame in batch.iter_mut() {
        ethernet::swap_addresses(frame.data_mut()).unwrap();
    }
    assert_eq!(sinks[0].transmit(&mut batch), 64);
    let counters = sinks[0].counters();
    assert_eq!((counters.packets.value(), counters.errors.value()), (63, 1));
    assert_eq!(sinks[0].allocate(&mut batch, 10), 10);
    assert!(batch.iter_mut().all(|frame| frame.fill(b"no packet at all")));
    assert_eq!(sinks[0].transmit(&mut batch), 10);
    assert_eq!(sinks[0].counters().errors.value(), 11);
    assert_eq!((sinks[0].pending(), sinks[0].flush().is_ok()), (0, true));
    assert_eq!(ends[0].receive(&mut batch), 64);
    batch.clear();
    assert_eq!(ends[0].receive(&mut Batch::new(0)), 0);
    assert_eq!(sim.frames().held(), 0);
}

/// Opens two ports with a cable between them.
fn plugged(a: &str, b: &str) -> (Port, Port) {
    let options = OpenOptions::default();
    cable((&spec(a), &options), (&spec(b), &options)).unwrap()
}

/// Fills the batch with the next packets of a stream, in frames of the port, as long as it has
/// frames.
fn load(tx: &mut Tx, stream: &Stream, numbers: &mut impl Iterator<Item = u64>, batch: &mut Batch) {
    let room = batch.room();
    tx.allocate(batch, room);
    let packets: Vec<_> = numbers.take(batch.len()).map(|k| stream.packet(k).bytes).collect();
    batch.truncate(packets.len());
    for (frame, bytes) in batch.iter_mut().zip(packets) {
        assert!(frame.fill(&bytes));
    }
}

#[test]
fn a_cable_carries_every_frame_to_the_queue_of_its_hash() {
    const COUNT: u64 = 3000;
    let stream = Stream::new(&spec("sim:4?flows=100&proto=mix&ip=mix&size=200")).unwrap();
    let (mut a, mut b) = plugged("sim:2", "sim:4?ring=64");
    let (mut a_tx, mut a_rx, mut b_tx, mut b_rx) =
        (a.tx().unwrap(), a.rx().unwrap(), b.tx().unwrap(), b.rx().unwrap());
    a.start().unwrap();
    b.start().unwrap();
    let mut numbers: [_; 2] = [0, 1].map(|i| (i..COUNT).step_by(2));
    let mut there = vec![Vec::new(); 4];
    let (mut batch, mut echo, mut back) = (Batch::new(32), Batch::new(256), Vec::new());
    while back.len() < COUNT as usize {
        for (tx, numbers) in a_tx.iter_mut().zip(&mut numbers) {
            load(tx, &stream, numbers, &mut batch);
            tx.transmit(&mut batch);
            assert!(batch.is_empty());
        }
        for (rx, tx) in b_rx.iter_mut().zip(&mut b_tx) {
            rx.receive(&mut echo);
            for frame in echo.iter_mut() {
                let k = stream.number(frame.data()).unwrap();
                assert_eq!((frame.queue(), frame.class()), (rx.queue(), Class::Rx));
                assert_eq!(frame.queue(), Some(stream.packet(k).queue), "packet {k}");
                there[usize::from(frame.queue().unwrap())].push(k);
                ethernet::swap_addresses(frame.data_mut()).unwrap();
            }
            tx.transmit(&mut echo);
        }
        for rx in &mut a_rx {
            rx.receive(&mut echo);
            back.extend(echo.iter().map(|frame| stream.number(frame.data()).unwrap()));
            echo.clear();
        }
    }
    back.sort_unstable();
    assert!(back.into_iter().eq(0..COUNT));
    assert_eq!(there.iter().map(Vec::len).sum::<usize>(), COUNT as usize);
    for rx in a_rx.iter().chain(&b_rx) {
        assert_eq!(rx.counters().ring_full.value(), 0);
    }
    a_tx.iter_mut().chain(&mut b_tx).for_each(|tx| tx.flush().unwrap());
    for sim in [&a, &b] {
        assert_eq!((sim.frames().free, sim.frames().tx), (sim.frames().pool, 0));
    }
    // When the transmitting ends are dropped, the receiving ends at the other side end.
    drop(a_tx);
    for rx in &mut b_rx {
        assert_eq!(rx.receive(&mut echo), 0);
        assert!(matches!(rx.readiness().unwrap(), Readiness::End));
    }
}

#[test]
fn a_full_cable_loses_and_counts_at_the_receiver() {
    let stream = Stream::new(&spec("sim:1")).unwrap();
    let (mut a, mut b) = plugged("sim:1?frames=100", "sim:1?ring=16");
    let (mut tx, mut rx) = (a.tx().unwrap().remove(0), b.rx().unwrap().remove(0));
    let mut batch = Batch::new(100);
    load(&mut tx, &stream, &mut (0..100), &mut batch);
    assert_eq!(batch.len(), 100);
    assert_eq!(tx.transmit(&mut batch), 0, "there is no link before the far port starts");
    b.start().unwrap();
    assert_eq!(tx.transmit(&mut batch), 100);
    tx.flush().unwrap();
    let frames = a.frames();
    assert_eq!((frames.pool, frames.free, frames.tx, frames.held()), (100, 84, 16, 0));
    assert_eq!(rx.receive(&mut batch), 16);
    assert_eq!(rx.counters().ring_full.value(), 84);
    assert_eq!((a.frames().held(), tx.counters().packets.value()), (16, 100));
    b.control().stop();
    assert_eq!(tx.transmit(&mut batch), 16);
    assert_eq!(tx.counters().errors.value(), 16);
    tx.flush().unwrap();
    assert_eq!(a.frames().free, 100);
}

#[test]
fn a_mask_at_a_cable() {
    let stream = Stream::new(&spec("sim:2")).unwrap();
    let (mut a, mut b) = plugged("sim:1", "sim:2");
    let (mut tx, mut rx) = (a.tx().unwrap().remove(0), b.rx().unwrap());
    let mask = QueueMask { rx: "1".parse().unwrap(), ..QueueMask::ALL };
    b.control().set_mask(mask).unwrap();
    b.start().unwrap();
    let mut batch = Batch::new(100);
    load(&mut tx, &stream, &mut (0..100), &mut batch);
    tx.transmit(&mut batch);
    assert_eq!(rx[0].receive(&mut batch), 0);
    let expected = (0..100).filter(|k| stream.packet(*k).queue == 1).count();
    assert_eq!(rx[1].receive(&mut batch), expected);
    batch.clear();
    tx.flush().unwrap();
    assert_eq!(a.frames().free, a.frames().pool);
}

#[test]
fn cables_of_two_threads() {
    const COUNT: u64 = 100_000;
    let stream = Stream::new(&spec("sim:2")).unwrap();
    let (mut a, mut b) = plugged("sim:1", "sim:2?ring=4096");
    let (mut tx, mut ends) = (a.tx().unwrap().remove(0), b.rx().unwrap());
    b.start().unwrap();
    let sender = std::thread::spawn(move || {
        let (mut batch, mut numbers) = (Batch::default(), 0..COUNT);
        while !numbers.is_empty() {
            load(&mut tx, &stream, &mut numbers, &mut batch);
            tx.transmit(&mut batch);
        }
        tx
    });
    let seen = drain_cable(&mut ends, || sender.is_finished());
    let mut tx = sender.join().unwrap();
    let lost: u64 = ends.iter().map(|rx| rx.counters().ring_full.value()).sum();
    assert_eq!((seen + lost, tx.counters().packets.value()), (COUNT, COUNT));
    tx.flush().unwrap();
    assert_eq!(a.frames().free, a.frames().pool);
}

/// Receives until the sender is done and no frame is left. Returns the number of frames received.
fn drain_cable(ends: &mut [Rx], is_done: impl Fn() -> bool) -> u64 {
    let (mut batch, mut seen) = (Batch::default(), 0);
    loop {
        let (was_done, before) = (is_done(), seen);
        for rx in ends.iter_mut() {
            seen += rx.receive(&mut batch) as u64;
            batch.clear();
        }
        if was_done && seen == before {
            return seen;
        }
    }
}

#[test]
fn what_cannot_be_a_cable_is_refused() {
    let (good, options) = (spec("sim:1"), OpenOptions::default());
    for text in ["sim:9", "sim:2@0", "sim:1?rate=max", "sim:1?ring=0", "sim:0"] {
        let error = cable((&good, &options), (&spec(text), &options)).err().expect(text);
        assert_eq!(error.kind(), wirelane::ErrorKind::Usage, "{text}");
    }
}

#[test]
fn wireshark_finds_nothing_wrong_with_the_packets() {
    if !tools::require("tshark") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("sim.pcapng");
    let source = Source::new("sim", Class::Rx, Some(0));
    let mut writer =
        CaptureWriter::create(&path, &[source], WriterOptions::of_path(&path), 0).unwrap();
    let mut packets = 0;
    for text in [
        "sim:1?proto=mix&ip=mix&flows=4096&seed=3",
        "sim:1?proto=mix&ip=mix&size=imix&vlan=100",
        "sim:1?proto=mix&ip=mix&size=9000&flows=5",
    ] {
        let stream = Stream::new(&spec(text)).unwrap();
        for k in (0..3000).chain([u64::MAX / 2, (1 << 48) - 1]) {
            let packet = stream.packet(k);
            writer
                .write(&Record {
                    interface: 0,
                    timestamp: packets,
                    original_len: packet.bytes.len() as u32,
                    direction: Direction::Unknown,
                    data: &packet.bytes,
                })
                .unwrap();
            packets += 1;
        }
    }
    writer.finish(&[]).unwrap();
    assert_eq!(tshark::check_clean_with_checksums(&path), packets);
}

#[test]
fn what_passed_while_a_paced_queue_was_deselected_is_gone_and_not_counted() {
    let text = "sim:1?rate=1Mpps&count=50000";
    let stream = Stream::new(&spec(text)).unwrap();
    let mask = QueueMask::NONE;
    let (ends, seen) = loop {
        let options = OpenOptions::default().mask(mask.clone());
        let mut sim = sim::open(&spec(text), &options).unwrap();
        let mut ends = sim.rx().unwrap();
        let start = Instant::now();
        sim.start().unwrap();
        std::thread::sleep(Duration::from_millis(5));
        assert_eq!(ends[0].receive(&mut Batch::default()), 0);
        sim.control().set_mask(QueueMask { enabled: false, ..QueueMask::NONE }).unwrap();
        // On a busy machine, all packets may have ended before the mask is set; try again.
        let is_late = start.elapsed() >= Duration::from_millis(50);
        let seen = drain(&mut ends, 64);
        if !is_late {
            break (ends, seen);
        }
    };
    let counters = ends[0].counters();
    let first = stream.number(&seen[0].3).unwrap();
    assert!((5000..50_000).contains(&first), "{first}");
    assert_eq!(counters.packets.value(), seen.len() as u64);
    assert!(counters.packets.value() + counters.ring_full.value() <= 50_000 - 5000);
}
