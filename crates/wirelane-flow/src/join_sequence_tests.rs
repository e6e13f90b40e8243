//! Retransmitted and late segments of a direction that several queues receive.

use proptest::prelude::*;

use super::*;

/// Bytes of each segment.
const LEN: u32 = 10;

/// Segments of the client with these numbers and queues, a millisecond apart.
fn segments(of: &[(u32, usize)]) -> Vec<Sent> {
    let first = 0xffff_ff00_u32;
    let segment = |(at, &(number, queue)): (usize, &(u32, usize))| Sent {
        sequence: (first.wrapping_add(number * LEN), LEN as usize),
        ..Sent::tcp(queue, SECOND + at as u64 * 1_000_000, true, ACK)
    };
    of.iter().enumerate().map(segment).collect()
}

#[track_caller]
fn counts(of: &[(u32, usize)]) -> (u32, u32) {
    let flows = check(&segments(of), 3);
    let half = &flows[0].forward;
    (half.retransmissions, half.out_of_order)
}

#[test]
fn what_came_again_or_late_does_not_depend_on_the_queue() {
    // Retransmissions in another queue: of one segment, a late one, all of them.
    assert_eq!(counts(&[(0, 0), (0, 1)]), (1, 0));
    assert_eq!(counts(&[(0, 0), (1, 1), (2, 0), (1, 2), (3, 1)]), (1, 0));
    assert_eq!(counts(&[(0, 0), (2, 0), (1, 1), (1, 2)]), (1, 1));
    assert_eq!(counts(&[(0, 0), (1, 0), (2, 0), (0, 1), (1, 1), (2, 1)]), (3, 0));
    // Segments in order, in alternating queues.
    assert_eq!(counts(&[(0, 0), (1, 1), (2, 2), (3, 0), (4, 1), (5, 2)]), (0, 0));
    // The queue of a late segment has no later segment.
    assert_eq!(counts(&[(0, 0), (2, 1), (1, 0), (3, 1), (4, 0)]), (0, 1));
    // Another queue continues, then the first one again.
    assert_eq!(counts(&[(0, 0), (1, 0), (2, 1), (3, 1), (4, 0), (3, 0), (5, 0)]), (1, 0));
}

#[test]
fn keep_alives_and_acknowledgments_are_no_retransmissions() {
    let mut sent = segments(&[(0, 0), (1, 1), (1, 0), (2, 2), (1, 0)]);
    // An acknowledgment, and a keep-alive that repeats the last byte.
    let next = sent[1].sequence.0.wrapping_add(LEN);
    sent[2].sequence = (next, 0);
    sent[4].sequence = (next.wrapping_add(LEN - 1), 1);
    let flows = check(&sent, 3);
    assert_eq!((flows[0].forward.retransmissions, flows[0].forward.out_of_order), (0, 0));
}

/// The second record continues the sequence numbers of the first.
#[test]
fn an_active_timeout_forgets_no_sequence_numbers() {
    let of: Vec<_> = (0..40).map(|at| (at, [0, 1, 1, 2][at as usize % 4])).collect();
    let mut sent = segments(&of);
    sent[35].sequence = sent[3].sequence;
    sent.iter_mut().enumerate().for_each(|(at, sent)| sent.time = SECOND + at as u64 * 3 * SECOND);
    let flows = check(&sent, 3);
    let told: Vec<_> = flows.iter().map(|flow| flow.forward.retransmissions).collect();
    assert_eq!(told, [0, 1]);
}

/// A table without room for more runs continues to count by itself.
#[test]
fn many_runs_need_bounded_memory() {
    let of: Vec<_> = (0..9000).map(|at| (at, at as usize % 3)).collect();
    let mut sent = segments(&of);
    sent[20].sequence = sent[10].sequence;
    let [ours, theirs] = both(&sent, 3, config());
    assert_eq!((ours.len(), theirs.len()), (1, 1));
    assert_eq!(theirs[0].forward.retransmissions, 1);
    // The segment that was missing as number 20.
    assert_eq!(ours[0].forward.retransmissions, 1);
}

proptest! {
    /// Segments are lost and retransmitted, some immediately, some later.
    #[test]
    fn retransmissions_do_not_depend_on_the_queues(
        events in prop::collection::vec((0_u8..10, 0_usize..3, 0_u32..12), 1..60),
    ) {
        let mut next = 0;
        let of: Vec<_> = events.into_iter().map(|(kind, queue, back)| {
            let number = match kind {
                // A retransmission.
                0 | 1 if next > back => next - 1 - back,
                // One or two segments are missing.
                2 => next + 1,
                3 => next + 2,
                _ => next,
            };
            next = next.max(number + 1);
            (number, queue)
        }).collect();
        let [ours, theirs] = both(&segments(&of), 3, config());
        let told = |flows: &[Flow]| -> Vec<u32> {
            flows.iter().map(|flow| flow.forward.retransmissions).collect()
        };
        prop_assert_eq!(told(&ours), told(&theirs));
        let late = |flows: &[Flow]| flows.iter().map(|flow| flow.forward.out_of_order).sum::<u32>();
        prop_assert!(late(&ours) <= late(&theirs));
    }
}
