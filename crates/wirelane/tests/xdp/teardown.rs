//! Masks, threads and closing: the counters always add up.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use wirelane_os::bpf;
use wirelane_testkit::privileged;

use super::*;

/// Sends from the near end in the calling thread until `stop`. Returns the number of frames sent
/// per queue. `turns` counts the rounds over all queues. No frame is lost in flight: there is room
/// for all frames that were sent and not received.
fn load(bench: &Bench, stop: &AtomicBool, turns: &AtomicU64) -> Vec<u64> {
    let mut port = bench.near("", &sending());
    let mut senders = port.tx().unwrap();
    let mut batch = Batch::new(64);
    let mut number = 0;
    while !stop.load(Ordering::Relaxed) {
        for tx in &mut senders {
            let room = batch.room();
            tx.allocate(&mut batch, room);
            for frame in batch.iter_mut() {
                assert!(frame.fill(&packets::raw(number)));
                number += 1;
            }
            tx.transmit(&mut batch);
            batch.clear();
            tx.flush().unwrap();
        }
        turns.fetch_add(1, Ordering::Relaxed);
        std::thread::sleep(Duration::from_micros(100));
        eventually(|| {
            senders.iter_mut().for_each(|tx| tx.flush().unwrap());
            senders.iter().all(|tx| tx.pending() == 0)
        });
    }
    assert_eq!(port.frames().tx, 0);
    senders.iter().map(|tx| tx.counters().packets.value()).collect()
}

#[test]
fn privileged_ends_under_load_lose_nothing_and_leave_nothing() {
    if !privileged::require() {
        return;
    }
    let bench = Bench::new(2, 1500);
    let index = bench.far.inside(|| wirelane_os::iface::index(&bench.pair.b.interface).unwrap());
    let (stop, turns) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let loader = scope.spawn(|| load(&bench, &stop, &turns));
        for round in 0..20 {
            let query = format!("?mode={}", MODES[round % 2]);
            let mut port = bench.far(&query, &both());
            let (mut ends, mut senders) = (port.rx().unwrap(), port.tx().unwrap());
            port.start().unwrap();
            let mut batch = Batch::new(64);
            let until = Instant::now() + Duration::from_millis(20);
            let mut kept = Batch::new(10);
            while Instant::now() < until {
                for (rx, tx) in ends.iter_mut().zip(&mut senders) {
                    rx.receive(&mut batch);
                    rx.readiness().unwrap();
                    kept.append(&mut batch);
                    tx.transmit(&mut batch);
                    batch.clear();
                    tx.flush().unwrap();
                }
            }
            let counts = port.frames();
            match round % 4 {
                // Close during traffic, in different orders.
                0 => drop((ends, senders)),
                1 => drop(port.control()),
                2 => {
                    finish(&*port.control(), &mut ends);
                    drop(senders);
                }
                _ => drop(ends),
            }
            assert!(counts.held() >= kept.len() as u64, "{counts:?}");
            kept.clear();
            drop(port);
            let left = bench.far.inside(|| bpf::attached(index).unwrap());
            assert!(left.is_none(), "{left:?}");
        }
        stop.store(true, Ordering::Relaxed);
        assert!(loader.join().unwrap().iter().sum::<u64>() > 0);
    });
    // All frames have returned when all ends are closed, including frames that the kernel had.
    let mut port = bench.far("", &both());
    let (ends, senders) = (port.rx().unwrap(), port.tx().unwrap());
    port.start().unwrap();
    drop((ends, senders));
    port.control().stop();
    let counts = port.frames();
    assert_eq!(counts.held(), 0, "{counts:?}");
    assert_eq!(counts.tx + counts.completion, 0, "{counts:?}");
}

#[test]
fn privileged_frames_outlive_the_port() {
    if !privileged::require() {
        return;
    }
    let bench = Bench::new(1, 1500);
    let mut kept = Batch::new(64);
    {
        let mut port = bench.far("", &receiving());
        let mut sender = bench.near("", &sending());
        let mut ends = port.rx().unwrap();
        port.start().unwrap();
        send(&mut sender.tx().unwrap()[0], (0..64).map(packets::raw), || {
            ends[0].receive(&mut kept);
        });
        let patience = Instant::now() + PATIENCE;
        while kept.len() < 64 && Instant::now() < patience {
            ends[0].receive(&mut kept);
        }
        assert_eq!(port.frames().held(), 64);
    }
    // The interface can be opened again, and the frames are intact.
    let mut port = bench.far("", &receiving());
    port.start().unwrap();
    let numbers: Vec<_> = kept.iter().filter_map(|f| packets::sequence(f.data())).collect();
    assert_eq!(numbers, (0..64).collect::<Vec<_>>());
}

/// No packet of a selected queue is lost while masks change; packets of the other queues reach the
/// host.
#[test]
fn privileged_masks_change_under_traffic() {
    if !privileged::require() {
        return;
    }
    let bench = Bench::new(4, 1500);
    let mut port = bench.far("?mode=native", &receiving().mask(rx_mask(&[0, 1])));
    let mut ends = port.rx().unwrap();
    assert_eq!(ends.len(), 4);
    port.start().unwrap();
    let control = port.control();
    let (stop, turns) = (AtomicBool::new(false), AtomicU64::new(0));
    let mut got = Vec::new();
    let sent = std::thread::scope(|scope| {
        let loader = scope.spawn(|| load(&bench, &stop, &turns));
        for round in 0..100 {
            let other = [&[0, 2][..], &[0, 3], &[0], &[0, 1, 2, 3]][round % 4];
            control.set_mask(rx_mask(other)).unwrap();
            assert_eq!(control.mask(), rx_mask(other));
            // Wait until the sender has sent to every queue; on a busy machine this takes some
            // time.
            let enough = turns.load(Ordering::Relaxed) + 2;
            let is_sent = eventually(|| {
                ends.iter_mut().for_each(|rx| {
                    take(rx, &mut got);
                    rx.readiness().unwrap();
                });
                turns.load(Ordering::Relaxed) >= enough
            });
            assert!(is_sent, "round {round}: nothing is sent");
        }
        stop.store(true, Ordering::Relaxed);
        loop {
            let n: usize = ends.iter_mut().map(|rx| take(rx, &mut got)).sum();
            if n == 0 && loader.is_finished() {
                return loader.join().unwrap();
            }
        }
    });
    got.extend(finish(&*control, &mut ends));
    // Every mask selected queue 0.
    let stats = ends[0].counters().snapshot(0);
    assert_eq!(stats.received, Some(sent[0]), "{stats:?}");
    for (queue, sent) in sent.iter().enumerate().skip(1) {
        let received = ends[queue].counters().snapshot(0).received.unwrap();
        assert!(received > 0 && received < *sent, "queue {queue}: {received} of {sent}");
    }
    let order = sequences(&got, 0);
    assert!(order.windows(2).all(|pair| pair[0] < pair[1]));
    assert_conserved(&port);
}

/// The two ends of one queue run in two threads.
#[test]
fn privileged_receiving_and_sending_on_two_threads() {
    if !privileged::require() {
        return;
    }
    const COUNT: u64 = 20_000;
    let bench = Bench::new(1, 1500);
    let (mut near, mut far) = (bench.near("", &both()), bench.far("", &both()));
    let mut all =
        [(near.rx().unwrap(), near.tx().unwrap()), (far.rx().unwrap(), far.tx().unwrap())];
    near.start().unwrap();
    far.start().unwrap();
    let controls = [near.control(), far.control()];
    std::thread::scope(|scope| {
        let mut receivers = Vec::new();
        let mut senders = Vec::new();
        for ((rx, tx), control) in all.iter_mut().zip(controls) {
            senders.push(scope.spawn(move || {
                let pause = || std::thread::sleep(Duration::from_micros(50));
                send(&mut tx[0], (0..COUNT).map(packets::raw), pause);
            }));
            receivers.push(scope.spawn(move || {
                let mut got = Vec::new();
                eventually(|| {
                    take(&mut rx[0], &mut got);
                    rx[0].readiness().unwrap();
                    rx[0].counters().snapshot(0).received >= Some(COUNT)
                });
                got.extend(finish(&*control, rx));
                let stats = rx[0].counters().snapshot(0);
                (sequences(&got, 0), stats)
            }));
        }
        senders.into_iter().for_each(|thread| thread.join().unwrap());
        for thread in receivers {
            let (order, stats) = thread.join().unwrap();
            assert_eq!(stats.received, Some(COUNT), "{stats:?}");
            assert!(order.windows(2).all(|pair| pair[0] < pair[1]));
            assert_eq!(order.len() as u64, stats.packets);
        }
    });
    assert_conserved(&near);
    assert_conserved(&far);
}

/// The kernel counts packets that find no room; together with the received packets they are all
/// packets sent.
#[test]
fn privileged_received_and_dropped_are_what_was_sent() {
    if !privileged::require() {
        return;
    }
    const COUNT: u64 = 5000;
    let bench = Bench::new(1, 1500);
    for (mode, shape) in [
        ("native", "ring=64&frames=4096"),
        ("generic", "ring=64&frames=4096"),
        ("native", "ring=1024&frames=100"),
        ("generic", "ring=1024&frames=100"),
    ] {
        let mut port = bench.far(&format!("?mode={mode}&{shape}"), &receiving());
        let mut sender = bench.near("", &sending());
        let mut ends = port.rx().unwrap();
        port.start().unwrap();
        send(&mut sender.tx().unwrap()[0], (0..COUNT).map(packets::raw), || {});
        let got = finish(&*port.control(), &mut ends);
        let stats = ends[0].counters().snapshot(0);
        assert_eq!(stats.packets, got.len() as u64);
        assert_eq!(stats.received, Some(COUNT), "{mode} {shape}: {stats:?}");
        assert!(stats.dropped.ring_full.unwrap() > 0, "{mode} {shape}: {stats:?}");
        assert_conserved(&port);
    }
}

#[test]
fn privileged_an_interface_that_goes_away_is_an_error_and_an_end() {
    if !privileged::require() {
        return;
    }
    let bench = Bench::new(1, 1500);
    let mut port = bench.far("", &both());
    let (mut ends, mut senders) = (port.rx().unwrap(), port.tx().unwrap());
    port.start().unwrap();
    bench.far.run("ip", ["link", "del", &bench.pair.b.interface]);
    let patience = Instant::now() + PATIENCE;
    let error = loop {
        assert!(Instant::now() < patience, "nothing was noticed");
        match ends[0].readiness() {
            Ok(_) => std::thread::sleep(Duration::from_millis(5)),
            Err(error) => break error,
        }
    };
    assert!(error.to_string().contains("removed"), "{error}");
    assert!(matches!(ends[0].readiness().unwrap(), Readiness::End));
    let mut batch = Batch::new(1);
    senders[0].allocate(&mut batch, 1);
    assert!(batch[0].fill(&packets::raw(0)));
    senders[0].transmit(&mut batch);
    let error = senders[0].flush().unwrap_err();
    assert!(error.to_string().contains("removed"), "{error}");
    drop((ends, senders));
    let counts = port.frames();
    assert_eq!((counts.held(), counts.tx), (0, 0), "{counts:?}");
}

#[test]
fn privileged_a_link_that_goes_down_comes_back() {
    if !privileged::require() {
        return;
    }
    stay();
    let bench = Bench::new(1, 1500);
    for mode in MODES {
        let query = format!("?mode={mode}");
        let (mut near, mut far) = (bench.near(&query, &both()), bench.far(&query, &receiving()));
        let (mut senders, mut ends) = (near.tx().unwrap(), far.rx().unwrap());
        far.start().unwrap();
        let mut got = Vec::new();
        let link = |state| bench.near.run("ip", ["link", "set", &bench.pair.a.interface, state]);
        for round in 0..3 {
            let first = round * 100;
            let mut batch = Batch::new(100);
            link("down");
            senders[0].allocate(&mut batch, 100);
            for (number, frame) in (first..).zip(batch.iter_mut()) {
                assert!(frame.fill(&packets::raw(number)));
            }
            assert_eq!(senders[0].transmit(&mut batch), 100);
            senders[0].flush().unwrap();
            assert_eq!(senders[0].pending(), 100);
            link("up");
            let patience = Instant::now() + PATIENCE;
            while got.len() < first as usize + 100 && Instant::now() < patience {
                senders[0].flush().unwrap();
                take(&mut ends[0], &mut got);
                ends[0].readiness().unwrap();
            }
        }
        assert_eq!(sequences(&got, 0), (0..300).collect::<Vec<_>>(), "{mode}");
    }
}
