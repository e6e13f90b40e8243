//! Transfers in both directions while all switches change at random.
//!
//! In the usual tests it takes seconds.
//! `WIRELANE_SOAK_MINUTES=10 cargo test --release -p wirelane --test offload -- --ignored --nocapture soak_`
//! takes as long as it says; `WIRELANE_SOAK_SEED` repeats the switching.
#![allow(clippy::print_stdout, reason = "figures for whoever runs it")]

use std::env;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use wirelane_testkit::oracle::Random;
use wirelane_testkit::privileged;

use super::transfer::transfer;
use super::*;

/// Changes a random switch of a port.
fn turn(switches: &wirelane::internal::session::PortSwitches, dice: &mut Random) {
    let protocols = Protocols { tcp: dice.below(2) == 0, udp: dice.below(2) == 0 };
    match dice.below(5) {
        0 | 1 => switches.set_gso(protocols).unwrap(),
        2 | 3 => switches.set_gro(protocols).unwrap(),
        _ => switches.set_max_burst(dice.below(1 << 16) as u32).unwrap(),
    }
}

/// Sends files in both directions over IPv4 and IPv6 for `time`, while switches change.
fn disturb(backend: &str, queues: u32, time: Duration) {
    let named = env::var("WIRELANE_SOAK_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = named.unwrap_or_else(|| wirelane_os::clock::realtime_ns() | 1);
    println!("{backend}, {queues} queues, seed {seed}");
    let world = World::new(backend, queues);
    let switches: Vec<_> = world.forward.switches().into_iter().flatten().collect();
    let (files, bytes, ended) = (AtomicU64::new(0), AtomicU64::new(0), AtomicBool::new(false));
    let until = Instant::now() + time;
    let mut turns = 0;
    let send = |from, to, address, number: u64| {
        let mut dice = Random::new(seed ^ number);
        loop {
            let length = 1 + dice.below(4 << 20);
            transfer(from, to, address, length, dice.below(u64::MAX));
            files.fetch_add(1, Ordering::Relaxed);
            bytes.fetch_add(length, Ordering::Relaxed);
            if Instant::now() >= until {
                return;
            }
        }
    };
    thread::scope(|scope| {
        let (send, left, right) = (&send, &world.left, &world.right);
        let mut senders = Vec::new();
        for family in 0..2 {
            let number = 2 + 2 * family as u64;
            senders.push(scope.spawn(move || send(left, right, RIGHT[family], number)));
            senders.push(scope.spawn(move || send(right, left, LEFT[family], number + 1)));
        }
        let turner = scope.spawn(|| {
            let mut dice = Random::new(seed);
            let mut turns = 0;
            while !ended.load(Ordering::Relaxed) {
                turn(&switches[dice.below(2) as usize], &mut dice);
                turns += 1;
                thread::sleep(Duration::from_micros(dice.below(20_000)));
            }
            turns
        });
        let ends: Vec<_> = senders.into_iter().map(|sender| sender.join()).collect();
        ended.store(true, Ordering::Relaxed);
        turns = turner.join().unwrap();
        for end in ends {
            end.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        }
    });
    let (cut, merged) = world.cut_and_merged();
    let outcome = world.finish();
    let errors: u64 = outcome.tx.iter().map(|tx| tx.errors).sum();
    let refused: Vec<_> = outcome.gso.iter().flat_map(|(.., stats)| &stats.refused).collect();
    assert!(cut > 0 && merged > 0 && turns > 0, "{cut} cut, {merged} merged, {turns} turns");
    assert_eq!(errors, 0, "refused: {refused:?}");
    println!(
        "{} files, {} bytes, {turns} turns of switches: {cut} long frames cut, {merged} packets merged",
        files.into_inner(),
        bytes.into_inner()
    );
}

#[test]
fn privileged_files_come_whole_while_switches_turn() {
    if privileged::require() {
        disturb("packet", 2, Duration::from_secs(4));
        disturb("xdp", 1, Duration::from_secs(4));
    }
}

#[test]
#[ignore = "takes as long as WIRELANE_SOAK_MINUTES says"]
fn soak_switches() {
    let minutes = env::var("WIRELANE_SOAK_MINUTES").ok().and_then(|text| text.parse().ok());
    let half = Duration::from_secs(30 * minutes.unwrap_or(10));
    disturb("packet", 2, half);
    disturb("xdp", 1, half);
}
