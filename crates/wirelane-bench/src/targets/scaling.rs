//! The targets of more queues.

use super::book::{Book, TargetLimit};
use super::capture::PLACES;

const SUITE: &str = "scaling";

pub(super) fn targets(book: &mut Book<'_>) {
    let (rows, limit) = (book.rows, TargetLimit::AtLeast(1.9));
    for port in ["sim", "packet", "xdp"] {
        let of = |queues| {
            let at = [("port", port), ("queues", queues)];
            rows.samples([SUITE, "rx"], None, &at, "packets_per_s")
        };
        let what = format!("Two queues of {port}:, each with a thread and a CPU, beside one");
        book.ratio(SUITE, what, limit, [of("2"), of("1")], &["rx-projected", port]);
    }
    for (target, words) in PLACES {
        for size in ["64", "1500"] {
            let of = |queues| {
                let at = [("target", target), ("size", size), ("queues", queues)];
                rows.samples([SUITE, "capture"], None, &at, "packets_per_s")
            };
            let what = format!(
                "`wirelane capture` with two queues on two CPUs beside one, {words}, {size} bytes"
            );
            book.ratio(SUITE, what, limit, [of("2"), of("1")], &["capture", target]);
        }
    }
}
