//! Transmit timestamps: sent packets are returned with their time.

use wirelane::frame::{Offload, PartialChecksum};
use wirelane_os::clock;
use wirelane_testkit::privileged;
use wirelane_wire::checksum::Sum;

use super::*;

const COUNT: u64 = 600;

fn frame(n: u64) -> Vec<u8> {
    packets::udp4(n).length((60 + n * 7 % 1455) as usize).build()
}

#[test]
fn privileged_packets_that_left_come_back_with_the_time() {
    if !privileged::require() {
        return;
    }
    for query in ["?tx_timestamps=on", "?tx_timestamps=on&frame=3000"] {
        let bench = Bench::new(1, 1500);
        let mut receiver = bench.far("?mode=native", &receiving());
        let mut port = bench.near(query, &sending());
        let (mut ends, mut tx) = (receiver.rx().unwrap(), port.tx().unwrap().remove(0));
        receiver.start().unwrap();
        let (mut back, mut batch, mut got) = (Vec::new(), Batch::new(16), Vec::new());
        for n in 0..COUNT {
            let before = clock::realtime_ns();
            send(&mut tx, [frame(n)], || {
                take(&mut ends[0], &mut got);
            });
            let after = clock::realtime_ns();
            // Take a few at a time, as a program would.
            if n % 10 == 9 || n + 1 == COUNT {
                while tx.sent(&mut batch) > 0 {
                    back.extend(
                        batch.iter().map(|frame| (frame.timestamp(), frame.data().to_vec())),
                    );
                    batch.clear();
                }
                let (last, _) = back.last().unwrap();
                assert!((before..=after).contains(last), "{before} {last} {after}");
            }
        }
        finish_after(&*receiver.control(), &mut ends, &mut got, COUNT as usize);
        assert_eq!(got.len() as u64, COUNT);
        assert!(back.iter().map(|(_, bytes)| bytes.clone()).eq((0..COUNT).map(frame)));
        assert!(back.is_sorted_by_key(|(time, _)| *time));
        assert_eq!(tx.counters().packets.value(), COUNT);
        drop(tx);
        assert_conserved(&port);
    }
}

#[test]
fn privileged_what_nobody_asks_for_goes_back_to_its_pool() {
    if !privileged::require() {
        return;
    }
    let bench = Bench::new(1, 1500);
    let mut port = bench.near("?tx_timestamps=on", &sending());
    // A note says how many frames stay with sent packets until a program takes them.
    let notes = &port.info().notes;
    assert!(notes.iter().any(|note| note.contains("a quarter of the frames")), "{notes:?}");
    let mut tx = port.tx().unwrap().remove(0);
    // Send more packets than there are frames.
    send(&mut tx, (0..3000).map(frame), || {});
    drop(tx);
    assert_eq!(port.frames().held(), 0);
    let notes = port.diagnostics();
    assert!(notes.iter().any(|note| note.contains("nobody asked for")), "{notes:?}");
    drop(port);
    // Without the option, or if packets have several pieces, sent packets are not returned.
    let mut port = bench.near("", &sending());
    let mut tx = port.tx().unwrap().remove(0);
    send(&mut tx, [frame(1)], || {});
    assert_eq!(tx.sent(&mut Batch::new(1)), 0);
    let long = Bench::new(1, 9000);
    let spec = format!("xdp:{}?mode=native&tx_timestamps=on", long.pair.a.interface);
    let error = open(&long.near, &spec, &sending()).err().unwrap();
    assert!(error.to_string().contains("tx_timestamps=on not available"), "{error}");
}

#[test]
fn privileged_launch_times_take_a_device_that_has_them() {
    if !privileged::require() {
        return;
    }
    let bench = Bench::new(1, 1500);
    for mode in ["", "&mode=native", "&mode=generic"] {
        let spec = format!("xdp:{}?launch_time=on{mode}", bench.pair.a.interface);
        let error = open(&bench.near, &spec, &sending()).err().unwrap().to_string();
        assert!(error.contains("launch_time=on not available: it takes zero copy"), "{error}");
    }
    // A port that only receives ignores the option.
    bench.near("?launch_time=on", &receiving());
}

#[test]
fn privileged_time_and_checksum_of_one_packet() {
    if !privileged::require() {
        return;
    }
    let bench = Bench::new(1, 1500);
    bench.pair.a.ethtool(&["-K", &bench.pair.a.interface, "tx", "off"]);
    let mut receiver = bench.far("?mode=native", &receiving());
    let mut port = bench.near("?tx_timestamps=on&checksum=on", &sending());
    let (mut ends, mut tx) = (receiver.rx().unwrap(), port.tx().unwrap().remove(0));
    receiver.start().unwrap();
    let mut batch = Batch::new(1);
    tx.allocate(&mut batch, 1);
    let mut partial = frame(1);
    // The kernel adds the value of the field even if it is not the sum of a pseudo-header.
    partial[40..42].fill(0);
    let checksum = Some(PartialChecksum { start: 34, offset: 6 });
    assert!(batch[0].fill(&partial));
    assert!(batch[0].set_offload(Offload { checksum, ..Offload::default() }));
    tx.transmit(&mut batch);
    tx.flush().unwrap();
    assert!(eventually(|| tx.sent(&mut batch) == 1));
    assert!(batch[0].timestamp() > 0);
    let mut got = Vec::new();
    finish_after(&*receiver.control(), &mut ends, &mut got, 1);
    assert_eq!(got.len(), 1);
    let sum = Sum::of(&partial[34..]).checksum_nonzero();
    partial[40..42].copy_from_slice(&sum.to_be_bytes());
    assert_eq!(got[0].bytes, partial);
}
