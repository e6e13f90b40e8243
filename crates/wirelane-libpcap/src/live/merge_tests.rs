use std::time::Duration;

use proptest::prelude::*;
use wirelane::internal::clock;
use wirelane::port::{self, OpenOptions};

use super::*;
use crate::live::script::{Script, Scripted};

const BOUNDS: WaitLimits = WaitLimits {
    ring: 1 << 30,
    wait: Duration::MAX,
    nap: Duration::from_millis(8),
    disorder: WaitLimits::DISORDER,
    sleeps: true,
};

#[derive(Debug, PartialEq, Eq)]
enum Got {
    Nothing,
    End,
    Failed,
}

/// The times of all frames that may leave now.
fn take(merge: &mut RxMerger) -> (Vec<u64>, Got) {
    let mut times = Vec::new();
    loop {
        let taken = match merge.next() {
            MergeStep::Frames(frames, until) => {
                let may = |(at, frame): &(usize, &Frame)| *at == 0 || frame.timestamp() <= until;
                let leaving: Vec<_> = frames.iter().enumerate().take_while(may).collect();
                times.extend(leaving.iter().map(|(_, frame)| frame.timestamp()));
                leaving.len()
            }
            MergeStep::Nothing => return (times, Got::Nothing),
            MergeStep::End => return (times, Got::End),
            MergeStep::Failed(_) => return (times, Got::Failed),
        };
        merge.left(taken);
    }
}

#[test]
fn frames_of_several_ends_leave_in_order_of_time() {
    let (_, ends) = Scripted::all(&[&[3, 5, 8], &[4], &[], &[1, 2, 9, 10]]);
    let mut merge = RxMerger::new(ends, BOUNDS);
    assert_eq!(take(&mut merge), (vec![1, 2, 3, 4, 5, 8, 9, 10], Got::End));
    assert_eq!((take(&mut merge), merge.late()), ((vec![], Got::End), 0));
}

#[test]
fn without_ends_nothing_comes() {
    assert_eq!(take(&mut RxMerger::new(Vec::new(), BOUNDS)), (vec![], Got::End));
}

#[test]
fn one_end_waits_for_nothing_and_keeps_its_order() {
    let (_, ends) = Scripted::all(&[&[5, 3, 9]]);
    let mut merge = RxMerger::new(ends, BOUNDS);
    assert_eq!(take(&mut merge), (vec![5, 3, 9], Got::End));
}

#[test]
fn an_end_without_frames_is_asked_once_in_a_look() {
    let (scripts, ends) = Scripted::all(&[&[1, 2, 3], &[]]);
    scripts[1].set().ends = false;
    let mut merge = RxMerger::new(ends, BOUNDS);
    assert_eq!(take(&mut merge), (vec![], Got::Nothing));
    assert_eq!(scripts[1].set().asked, 1);
    assert!(merge.pause().unwrap() > Duration::ZERO);
    assert_eq!(scripts[1].set().asked, 1);
    scripts[1].set().watermark = 2;
    assert_eq!(take(&mut merge), (vec![1, 2], Got::Nothing));
    assert_eq!(scripts[1].set().asked, 2);
}

#[test]
fn a_frame_leaves_once_silent_ends_were_empty_later() {
    let millisecond = 1_000_000;
    let (scripts, ends) = Scripted::all(&[&[10 * millisecond], &[]]);
    scripts[1].set().ends = false;
    let mut merge = RxMerger::new(ends, BOUNDS);
    scripts[1].set().empty_at = 11 * millisecond - 1;
    assert_eq!(take(&mut merge), (vec![], Got::Nothing));
    scripts[1].set().empty_at = 11 * millisecond;
    assert_eq!(take(&mut merge), (vec![10 * millisecond], Got::Nothing));
}

#[test]
fn a_pause_waits_for_the_silent_and_grows_while_frames_wait() {
    let (scripts, ends) = Scripted::all(&[&[1], &[]]);
    scripts.iter().for_each(|script| script.set().ends = false);
    let mut merge = RxMerger::new(ends, BOUNDS);
    let mut pause = || {
        assert_eq!(take(&mut merge), (vec![], Got::Nothing));
        let pause = merge.pause();
        let waited: Vec<_> = merge.descriptors().map(|(position, _)| position).collect();
        assert_eq!(waited, [1], "the other one's stays readable");
        pause.unwrap().as_millis()
    };
    let pauses: Vec<_> = (0..5).map(|_| pause()).collect();
    assert_eq!(pauses, [2, 4, 8, 8, 8]);
    scripts[1].set().watermark = 1;
    assert_eq!(take(&mut merge), (vec![1], Got::Nothing));
    assert_eq!(merge.pause(), Some(LONGEST));
    assert_eq!(merge.descriptors().count(), 2);
}

#[test]
fn nobody_waits_for_ever() {
    let (scripts, ends) = Scripted::all(&[&[], &[]]);
    scripts.iter().for_each(|script| script.set().ends = false);
    let mut merge = RxMerger::new(ends, WaitLimits { wait: Duration::from_secs(1), ..BOUNDS });
    let now = clock::realtime_ns();
    scripts[0].set().ready.push_back(now);
    assert_eq!(take(&mut merge), (vec![], Got::Nothing));
    assert_ne!(merge.pause(), Some(Duration::ZERO));
    std::thread::sleep(Duration::from_millis(1001));
    assert_eq!(merge.pause(), Some(Duration::ZERO));
    assert_eq!(take(&mut merge), (vec![now], Got::Nothing));
    // This packet is late.
    scripts[1].set().ready.push_back(now - 5);
    assert_eq!((take(&mut merge), merge.late()), ((vec![now - 5], Got::Nothing), 1));
}

#[test]
fn half_a_ring_may_wait() {
    let times: Vec<u64> = (1..=200).collect();
    let (scripts, ends) = Scripted::all(&[&times, &[]]);
    scripts.iter().for_each(|script| script.set().ends = false);
    // Each frame takes 128 bytes and a bit.
    let bounds = WaitLimits { ring: 300 * 240, ..BOUNDS };
    let mut merge = RxMerger::new(ends, bounds);
    assert_eq!(take(&mut merge), (vec![], Got::Nothing));
    assert_eq!(merge.pause(), Some(Duration::ZERO));
    let (taken, got) = take(&mut merge);
    assert_eq!((taken.as_slice(), got), (&times[..101], Got::Nothing));
    // The rest fits.
    assert_ne!(merge.pause(), Some(Duration::ZERO));
    scripts[1].set().watermark = 1000;
    assert_eq!(take(&mut merge).0, &times[101..]);
}

#[test]
fn a_failure_comes_behind_the_frames_and_stays() {
    let (scripts, ends) = Scripted::all(&[&[7], &[3], &[]]);
    scripts.iter().for_each(|script| script.set().ends = false);
    let mut merge = RxMerger::new(ends, BOUNDS);
    assert_eq!(take(&mut merge), (vec![], Got::Nothing));
    scripts[1].set().fails = true;
    scripts[2].set().watermark = 5;
    assert_eq!(take(&mut merge), (vec![3, 7], Got::Failed));
    assert_eq!(merge.pause(), Some(Duration::ZERO));
    assert_eq!(take(&mut merge), (vec![], Got::Failed));
}

#[test]
fn more_frames_than_a_batch_wait_and_leave() {
    let mut scripts = Vec::new();
    let mut ends = Vec::new();
    for first in [1, 2] {
        let ready = (0..5000).map(|n| 2 * n + first).collect();
        let (script, end) = Scripted::new(Script { ready, ..Script::default() });
        scripts.push(script);
        ends.push(end);
    }
    let (silent, end) = Scripted::new(Script::default());
    ends.push(end);
    let mut merge = RxMerger::new(ends, BOUNDS);
    assert_eq!(take(&mut merge), (vec![], Got::Nothing));
    merge.pause();
    assert!(
        scripts.iter().all(|script| script.set().ready.is_empty()),
        "they are out of the rings"
    );
    scripts.iter().chain([&silent]).for_each(|script| script.set().ends = true);
    let (times, _) = take(&mut merge);
    assert!(times.iter().copied().eq(1..=10_000), "{} frames", times.len());
}

#[test]
fn queues_of_a_port_are_merged() {
    let spec = "sim:4?count=20000&rate=1M".parse().unwrap();
    let mut port = port::open(&spec, &OpenOptions::default()).unwrap();
    let ends = port.rx().unwrap();
    port.start().unwrap();
    let mut merge = RxMerger::new(ends, BOUNDS);
    let mut times = Vec::new();
    loop {
        let (more, got) = take(&mut merge);
        times.extend(more);
        match got {
            Got::End => break,
            _ => std::thread::sleep(merge.pause().unwrap_or_default()),
        }
    }
    let lost: u64 = 20_000 - times.len() as u64;
    assert!(times.is_sorted() && lost < 20_000, "{lost} lost");
    assert_eq!(merge.late(), 0);
}

proptest! {
    /// All frames leave in order of time if ends keep their promises, in whatever order they
    /// arrive.
    #[test]
    fn sorted_and_complete(
        queues in proptest::collection::vec(proptest::collection::vec(0u64..200, 0..60), 1..9),
        portion in 1usize..70,
        steps in proptest::collection::vec((0usize..8, 1usize..30), 0..40),
    ) {
        let mut queues = queues;
        queues.iter_mut().for_each(|times| times.sort_unstable());
        let mut expected: Vec<u64> = queues.iter().flatten().copied().collect();
        expected.sort_unstable();
        let script = || Scripted::new(Script { portion, ..Script::default() });
        let (scripts, ends): (Vec<_>, Vec<_>) = queues.iter().map(|_| script()).unzip();
        let mut merge = RxMerger::new(ends, BOUNDS);
        let mut out = Vec::new();
        for (queue, count) in steps {
            let queue = queue % queues.len();
            let times = &mut queues[queue];
            let mut script = scripts[queue].set();
            script.ready.extend(times.drain(..count.min(times.len())));
            script.watermark = times.first().copied().unwrap_or(u64::MAX);
            drop(script);
            out.extend(take(&mut merge).0);
            merge.pause();
        }
        for (times, script) in queues.iter_mut().zip(&scripts) {
            let mut script = script.set();
            script.ready.extend(times.drain(..));
            script.ends = true;
        }
        let (rest, got) = take(&mut merge);
        out.extend(rest);
        prop_assert_eq!(got, Got::End);
        prop_assert_eq!(merge.late(), 0);
        prop_assert_eq!(out, expected);
    }
}
