//! Filters in the XDP program: packets that do not match reach the host, and each packet is matched
//! by the old filter or the new one.

use wirelane::filter::Filter;
use wirelane_os::xdp::wait_for_receivers;
use wirelane_testkit::privileged;

use super::*;

fn filter(text: &str) -> Filter {
    text.parse().unwrap()
}

#[test]
fn privileged_a_filter_changes_while_packets_come() {
    if !privileged::require() {
        return;
    }
    stay();
    for mode in MODES {
        let bench = Bench::new(1, 1500);
        let query = format!("?mode={mode}");
        let options = receiving().filter(filter("udp"));
        let mut receiver = bench.far(&query, &options);
        let mut sender = bench.near(&query, &sending());
        let (mut ends, mut senders) = (receiver.rx().unwrap(), sender.tx().unwrap());
        let control = receiver.control();
        receiver.start().unwrap();
        let (mut got, mut expected) = (Vec::new(), Vec::new());
        for round in 0..40u64 {
            let is_udp = round % 2 == 0;
            control.set_filter(Some(&filter(if is_udp { "udp" } else { "tcp" }))).unwrap();
            let numbers = round * 20..(round + 1) * 20;
            expected.extend(numbers.clone().filter(|n| (n % 2 == 0) == is_udp));
            let frame = |n: u64| match n % 2 {
                0 => packets::udp4(n).build(),
                _ => packets::tcp4(n).build(),
            };
            send(&mut senders[0], numbers.map(frame), || {
                take(&mut ends[0], &mut got);
            });
            // These packets must pass this filter before the next one is set.
            assert!(eventually(|| {
                take(&mut ends[0], &mut got);
                got.len() >= expected.len()
            }));
            wait_for_receivers();
        }
        // An invalid filter changes nothing.
        assert!(control.set_filter(Some(&filter("udp udp"))).is_err());
        got.extend(finish(&*control, &mut ends));
        let sequences: Vec<u64> = got.iter().map(|got| got.sequence.unwrap()).collect();
        assert_eq!(sequences, expected, "{mode}");
    }
}

#[test]
fn privileged_the_last_filter_stays_where_all_was_not_asked_for() {
    if !privileged::require() {
        return;
    }
    let bench = Bench::new(1, 1500);
    let options = OpenOptions::default().filter(filter("udp")).take(Take::Matching);
    let receiver = bench.far("?mode=native", &options);
    let refused = receiver.control().set_filter(None).unwrap_err();
    assert!(refused.to_string().contains("every packet"), "{refused}");
    let all = bench.near("?mode=native", &receiving());
    all.control().set_filter(None).unwrap();
}

#[test]
fn privileged_the_first_filter_can_go_where_all_was_asked_for() {
    if !privileged::require() {
        return;
    }
    let bench = Bench::new(1, 1500);
    let spec: Spec = format!("xdp:{}?mode=native", bench.pair.b.interface).parse().unwrap();
    let frames = || (0..20).map(|n| packets::tcp4(n).build()).chain([packets::udp4(20).build()]);
    for all in [true, false] {
        let taken = if all { Take::All } else { Take::Matching };
        let options = OpenOptions::default().filter(filter("udp")).take(taken);
        let mut receiver = bench.far.inside(|| wirelane::port::open(&spec, &options)).unwrap();
        let mut ends = receiver.rx().unwrap();
        let control = receiver.control();
        receiver.start().unwrap();
        let mut sender = bench.near("?mode=native", &sending());
        let mut tx = sender.tx().unwrap().remove(0);
        let mut got = Vec::new();
        send(&mut tx, frames(), || {
            take_all(&mut ends, &mut got);
        });
        // These packets must pass this filter before the next one is set.
        assert!(eventually(|| {
            take_all(&mut ends, &mut got);
            !got.is_empty()
        }));
        match control.set_filter(None) {
            Ok(()) => assert!(all),
            Err(error) => assert!(!all && error.to_string().contains("every packet"), "{error}"),
        }
        send(&mut tx, frames(), || {
            take_all(&mut ends, &mut got);
        });
        let expected: Vec<u64> =
            if all { [20].into_iter().chain(0..=20).collect() } else { vec![20, 20] };
        finish_after(&*control, &mut ends, &mut got, expected.len());
        assert_eq!(got.iter().filter_map(|got| got.sequence).collect::<Vec<_>>(), expected);
    }
}

fn take_all(ends: &mut [Rx], got: &mut Vec<Got>) {
    ends.iter_mut().for_each(|rx| {
        take(rx, got);
    });
}
