//! What a campaign found, as the command prints it (schema `wirelane.ndr/1`).

use serde::Serialize;

use super::search::{Found, Method};
use super::tester::{Passage, Stream};
use crate::measure::Latency;

/// Everything that was found.
#[derive(Clone, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct Report {
    /// The directions, all measured at once.
    pub directions: Vec<String>,
    /// How throughput was searched for.
    pub method: Option<Method>,
    /// Trials made.
    pub trials: u64,
    /// The end was requested before everything was measured.
    pub interrupted: bool,
    /// By size.
    pub sizes: Vec<SizeReport>,
}

/// What was found for one size.
#[derive(Clone, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct SizeReport {
    /// Bytes of a frame with its check sequence, as RFC 2544 counts them. `None` if the traffic has
    /// sizes of its own.
    pub frame: Option<usize>,
    /// Bytes without it, as everywhere else in Wirelane.
    pub length: Option<usize>,
    /// Packets per second that each direction can send at most.
    pub sender_max_pps: Option<f64>,
    /// The highest rates that passed (RFC 2544, section 26.1), one for each loss ratio.
    pub throughput: Vec<Throughput>,
    /// Trials at shares of the first of these rates, or at a given rate, with latencies (section
    /// 26.2).
    pub loads: Vec<Summary>,
    /// The frame loss rate by load (section 26.3).
    pub loss_curve: Vec<LossPoint>,
    /// The longest burst without loss (section 26.4).
    pub back_to_back: Option<BackToBack>,
}

/// The highest rate that passed.
#[derive(Clone, Copy, Debug, Serialize)]
#[non_exhaustive]
pub struct Throughput {
    /// The share of packets that may be lost.
    pub loss_ratio: f64,
    /// Packets per second in each direction, as sent; 0 if none passed.
    pub pps: f64,
    /// Bits per second in each direction, without frame check sequences; `None` where sizes differ.
    pub bps: Option<f64>,
    /// What arrived at that rate, in packets per second.
    pub forwarded_pps: f64,
    /// The lowest rate above it that failed.
    pub failed_pps: Option<f64>,
    /// The highest rate of the sender passed: the result measures the sender, or the device that it
    /// sends through.
    pub sender_bound: bool,
    /// The requested highest rate ([`Campaign::max_rate`]) passed: the sender and the path may both
    /// be faster.
    ///
    /// [`Campaign::max_rate`]: super::Campaign::max_rate
    pub at_max_rate: bool,
    /// Trials of this search, for all loss ratios, in which the sender did not reach the rate. Each
    /// was made again, up to twice at a rate.
    pub void_trials: u64,
    /// Nor did it at last at the rate that failed: the limit may be the sender's, and not that of
    /// what lies between.
    pub sender_late: bool,
    /// As exact as was asked for.
    pub complete: bool,
}

impl Throughput {
    /// `limit` is the requested highest rate, if the sender could have sent more.
    pub(super) fn new(
        found: Found,
        loss_ratio: f64,
        length: Option<usize>,
        limit: Option<f64>,
    ) -> Self {
        // If the sender did not reach the limit, the result measures the sender.
        let at_max_rate = found.sender_bound && limit.is_some_and(|limit| found.asked >= limit);
        Self {
            loss_ratio,
            pps: found.rate,
            bps: length.map(|length| found.rate * length as f64 * 8.0),
            forwarded_pps: found.forwarded,
            failed_pps: found.failed,
            sender_bound: found.sender_bound && !at_max_rate,
            at_max_rate,
            void_trials: found.void_trials,
            sender_late: found.sender_late,
            complete: found.complete,
        }
    }
}

/// One trial in full.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Summary {
    /// The share of the throughput, in percent; `None` at a given rate.
    pub percent: Option<f64>,
    /// Packets per second asked for in each direction; `None` for as fast as possible.
    pub asked_pps: Option<f64>,
    /// Seconds.
    pub duration_s: f64,
    /// By direction.
    pub directions: Vec<Way>,
}

impl Summary {
    pub(super) fn new(percent: Option<f64>, passages: &[Passage]) -> Self {
        let load = passages.first().map(|passage| passage.load);
        Self {
            percent,
            asked_pps: load.map(|load| load.rate).filter(|rate| rate.is_finite()),
            duration_s: load.map_or(0.0, |load| load.duration.as_secs_f64()),
            directions: passages.iter().map(Way::new).collect(),
        }
    }
}

/// One direction of a trial.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Way {
    /// Which.
    pub name: String,
    /// Packets sent.
    pub sent: u64,
    /// Packets that could not be sent.
    pub unsent: u64,
    /// Packets per second sent.
    pub sent_pps: f64,
    /// Packets received, each once.
    pub received: u64,
    /// Sent, and not received.
    pub lost: u64,
    /// The share of them.
    pub loss_ratio: f64,
    /// Copies.
    pub duplicated: u64,
    /// Packets that came after one of a higher number (RFC 4737).
    pub reordered: u64,
    /// The share of them among those received (RFC 4737, section 4.1).
    pub reordered_ratio: f64,
    /// How many packets came since the first one of a higher number, at most (section 4.2).
    pub reordering_extent: u64,
    /// Received packets of which nobody knows whether they are copies.
    pub beyond_window: u64,
    /// Packets without a signature.
    pub other: u64,
    /// Packets of an earlier trial.
    pub stale: u64,
    /// Lost for want of room in this program's own rings; `null` if the system does not say.
    pub receiver_dropped: Option<u64>,
    /// RX queues by which they came.
    pub queues: u32,
    /// `null` without packets.
    pub latency: Option<Delay>,
    /// By stream.
    pub flows: Vec<Flow>,
}

impl Way {
    fn new(passage: &Passage) -> Self {
        let (heard, total) = (&passage.heard, &passage.heard.total);
        let lost = passage.lost();
        Self {
            name: passage.name.clone(),
            sent: passage.sent,
            unsent: passage.unsent,
            sent_pps: passage.rate,
            received: total.received,
            lost,
            loss_ratio: ratio(lost, passage.sent),
            duplicated: total.duplicated,
            reordered: total.reordered,
            reordered_ratio: ratio(total.reordered, total.received),
            reordering_extent: total.extent,
            beyond_window: total.beyond,
            other: heard.other,
            stale: heard.stale,
            receiver_dropped: heard.dropped,
            queues: total.queues,
            latency: total.latency.as_ref().and_then(Delay::new),
            flows: passage.streams.iter().map(Flow::new).collect(),
        }
    }
}

/// One stream of a trial.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Flow {
    /// Its name.
    pub name: String,
    /// Packets sent.
    pub sent: u64,
    /// Packets received, each once.
    pub received: u64,
    /// Sent, and not received.
    pub lost: u64,
    /// Copies.
    pub duplicated: u64,
    /// Packets that came after one of a higher number.
    pub reordered: u64,
    /// How many packets came since the first one of a higher number, at most.
    pub reordering_extent: u64,
    /// RX queues by which one sending thread's part came. With more than one, reordering between
    /// them is unknown.
    pub queues: u32,
    /// `null` without packets, or with thousands of streams.
    pub latency: Option<Delay>,
}

impl Flow {
    fn new(stream: &Stream) -> Self {
        let arrivals = &stream.arrivals;
        Self {
            name: stream.name.clone(),
            sent: stream.sent,
            received: arrivals.received,
            lost: stream.sent.saturating_sub(arrivals.received),
            duplicated: arrivals.duplicated,
            reordered: arrivals.reordered,
            reordering_extent: arrivals.extent,
            queues: arrivals.queues,
            latency: arrivals.latency.as_ref().and_then(Delay::new),
        }
    }
}

/// Latencies in nanoseconds.
#[derive(Clone, Copy, Debug, Serialize)]
#[non_exhaustive]
pub struct Delay {
    /// The shortest.
    pub min_ns: u64,
    /// The mean.
    pub mean_ns: f64,
    /// The median.
    pub p50_ns: u64,
    /// 90 % took no longer.
    pub p90_ns: u64,
    /// 99 %.
    pub p99_ns: u64,
    /// 99.9 %.
    pub p999_ns: u64,
    /// The longest.
    pub max_ns: u64,
    /// Packet delay variation (RFC 5481): the 99 % percentile less the shortest.
    pub pdv_p99_ns: u64,
    /// Packets whose time is known.
    pub packets: u64,
}

impl Delay {
    fn new(latency: &Latency) -> Option<Self> {
        (latency.packets() > 0).then(|| Self {
            min_ns: latency.min(),
            mean_ns: latency.mean(),
            p50_ns: latency.quantile(0.5),
            p90_ns: latency.quantile(0.9),
            p99_ns: latency.quantile(0.99),
            p999_ns: latency.quantile(0.999),
            max_ns: latency.max(),
            pdv_p99_ns: latency.variation(),
            packets: latency.packets(),
        })
    }
}

/// The loss at one load.
#[derive(Clone, Copy, Debug, Serialize)]
#[non_exhaustive]
pub struct LossPoint {
    /// The share of all that can be sent, in percent.
    pub percent: f64,
    /// Packets per second sent in each direction.
    pub pps: f64,
    /// The share of packets lost, in the worst direction.
    pub loss_ratio: f64,
}

/// The longest burst.
#[derive(Clone, Copy, Debug, Serialize)]
#[non_exhaustive]
pub struct BackToBack {
    /// Packets in each direction, as fast as they can be sent.
    pub packets: u64,
    /// As long as was tried: nothing was lost.
    pub unlimited: bool,
    /// Packets per second within the burst; `None` if its departures have the same time.
    pub pps: Option<f64>,
}

pub(super) fn ratio(part: u64, all: u64) -> f64 {
    if all == 0 { 0.0 } else { part as f64 / all as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_of_the_user_is_not_the_sender() {
        let found = Found { rate: 5e3, asked: 5e3, sender_bound: true, ..Found::default() };
        let bounds = |found, limit| {
            let Throughput { sender_bound, at_max_rate, .. } =
                Throughput::new(found, 0.0, None, limit);
            (sender_bound, at_max_rate)
        };
        assert_eq!(bounds(found, Some(5e3)), (false, true));
        assert_eq!(bounds(found, None), (true, false));
        // The requested rate is 5,000, but the sender reached 4,000 in all trials.
        let late = Found { rate: 4e3, asked: 4e3, ..found };
        assert_eq!(bounds(late, Some(5e3)), (true, false));
        let path = Found { sender_bound: false, rate: 3e3, asked: 3e3, ..found };
        assert_eq!(bounds(path, Some(5e3)), (false, false));
    }
}
