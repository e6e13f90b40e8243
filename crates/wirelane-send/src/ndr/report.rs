//! The report of a campaign, as the command prints it (schema `wirelane.ndr/1`).

use serde::Serialize;

use super::search::{GoalResult, Method};
use super::tester::{Passage, StreamResult};
use crate::measure::Latency;

/// The report of a campaign.
#[derive(Clone, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct NdrReport {
    /// The directions, which are measured at the same time.
    pub directions: Vec<String>,
    /// The search method.
    pub method: Option<Method>,
    /// The number of trials.
    pub trials: u64,
    /// Whether the campaign was stopped before its end.
    pub interrupted: bool,
    /// Results by frame size.
    pub sizes: Vec<SizeReport>,
}

/// The results for one frame size.
#[derive(Clone, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct SizeReport {
    /// Bytes of a frame including its check sequence, as in RFC 2544. `None` for the sizes of the
    /// traffic.
    pub frame: Option<usize>,
    /// Bytes without the check sequence, as everywhere else in Wirelane.
    pub length: Option<usize>,
    /// The highest packets per second of the sender, in the slowest direction.
    pub sender_max_pps: Option<f64>,
    /// The highest rates that passed (RFC 2544, section 26.1), one for each loss ratio.
    pub throughput: Vec<Throughput>,
    /// Trials with latencies, at shares of the first throughput or at a given rate (section 26.2).
    pub loads: Vec<TrialSummary>,
    /// The frame loss rate by load (section 26.3).
    pub loss_curve: Vec<LossPoint>,
    /// The longest burst without loss (section 26.4).
    pub back_to_back: Option<BackToBack>,
}

/// The highest passing rate.
#[derive(Clone, Copy, Debug, Serialize)]
#[non_exhaustive]
pub struct Throughput {
    /// The acceptable share of lost packets.
    pub loss_ratio: f64,
    /// Sent packets per second in each direction; 0 if no rate passed.
    pub pps: f64,
    /// Bits per second in each direction, without frame check sequences; `None` for the sizes of
    /// the traffic.
    pub bps: Option<f64>,
    /// Received packets per second at that rate.
    pub forwarded_pps: f64,
    /// The lowest failing rate above it.
    pub failed_pps: Option<f64>,
    /// The highest rate of the sender passed: the sender or its interface limits the result.
    pub sender_bound: bool,
    /// The requested highest rate ([`Campaign::max_rate`]) passed: the sender and the device under
    /// test may be faster.
    ///
    /// [`Campaign::max_rate`]: super::Campaign::max_rate
    pub at_max_rate: bool,
    /// Trials of this search, over all loss ratios, in which the sender did not reach the rate.
    /// They were repeated, up to twice per rate.
    pub void_trials: u64,
    /// The sender never reached the failing rate: it may limit the result instead of the device
    /// under test.
    pub sender_late: bool,
    /// Whether the result has the requested precision.
    pub complete: bool,
}

impl Throughput {
    /// `limit` is the requested highest rate, if the sender reached it.
    pub(super) fn new(
        found: GoalResult,
        loss_ratio: f64,
        length: Option<usize>,
        limit: Option<f64>,
    ) -> Self {
        // If the sender did not reach the limit, the sender limits the result.
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

/// The result of one trial.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct TrialSummary {
    /// The load in percent of the throughput; `None` for a given rate.
    pub percent: Option<f64>,
    /// Requested packets per second in each direction; `None` for as fast as possible.
    pub asked_pps: Option<f64>,
    /// The sending time in seconds.
    pub duration_s: f64,
    /// Results by direction.
    pub directions: Vec<DirectionReport>,
}

impl TrialSummary {
    pub(super) fn new(percent: Option<f64>, passages: &[Passage]) -> Self {
        let load = passages.first().map(|passage| passage.load);
        Self {
            percent,
            asked_pps: load.map(|load| load.rate).filter(|rate| rate.is_finite()),
            duration_s: load.map_or(0.0, |load| load.duration.as_secs_f64()),
            directions: passages.iter().map(DirectionReport::new).collect(),
        }
    }
}

/// One direction of a trial.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct DirectionReport {
    /// The name of the direction.
    pub name: String,
    /// Packets sent.
    pub sent: u64,
    /// Packets that the sender generated but could not send.
    pub unsent: u64,
    /// Sent packets per second.
    pub sent_pps: f64,
    /// Packets received, without copies.
    pub received: u64,
    /// Packets sent but not received.
    pub lost: u64,
    /// The share of lost packets.
    pub loss_ratio: f64,
    /// Copies received.
    pub duplicated: u64,
    /// Packets that arrived after one with a higher number (RFC 4737).
    pub reordered: u64,
    /// The share of reordered packets among the received ones (RFC 4737, section 4.1).
    pub reordered_ratio: f64,
    /// The largest number of arrivals since the first packet with a higher number (section 4.2).
    pub reordering_extent: u64,
    /// Received packets beyond the expected number, which may include copies.
    pub beyond_window: u64,
    /// Packets without a valid signature.
    pub other: u64,
    /// Packets of the previous trial.
    pub stale: u64,
    /// Packets dropped because the receive rings of this program were full; `null` if unknown.
    pub receiver_dropped: Option<u64>,
    /// The number of RX queues that received packets.
    pub queues: u32,
    /// Latencies; `null` without packets.
    pub latency: Option<LatencySummary>,
    /// Results by stream.
    pub flows: Vec<StreamReport>,
}

impl DirectionReport {
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
            latency: total.latency.as_ref().and_then(LatencySummary::new),
            flows: passage.streams.iter().map(StreamReport::new).collect(),
        }
    }
}

/// One stream of a trial.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct StreamReport {
    /// Its name.
    pub name: String,
    /// Packets sent.
    pub sent: u64,
    /// Packets received, without copies.
    pub received: u64,
    /// Packets sent but not received.
    pub lost: u64,
    /// Copies received.
    pub duplicated: u64,
    /// Packets that arrived after one with a higher number.
    pub reordered: u64,
    /// The largest number of arrivals since the first packet with a higher number.
    pub reordering_extent: u64,
    /// The largest number of RX queues that received the packets of one sending thread. Reordering
    /// between queues is unknown.
    pub queues: u32,
    /// Latencies; `null` without packets, or with more than 4096 flows (streams times sending
    /// threads).
    pub latency: Option<LatencySummary>,
}

impl StreamReport {
    fn new(stream: &StreamResult) -> Self {
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
            latency: arrivals.latency.as_ref().and_then(LatencySummary::new),
        }
    }
}

/// Latencies in nanoseconds.
#[derive(Clone, Copy, Debug, Serialize)]
#[non_exhaustive]
pub struct LatencySummary {
    /// The shortest latency.
    pub min_ns: u64,
    /// The mean.
    pub mean_ns: f64,
    /// The median.
    pub p50_ns: u64,
    /// The 90 % percentile.
    pub p90_ns: u64,
    /// The 99 % percentile.
    pub p99_ns: u64,
    /// The 99.9 % percentile.
    pub p999_ns: u64,
    /// The longest latency.
    pub max_ns: u64,
    /// Packet delay variation (RFC 5481): the 99 % percentile minus the shortest latency.
    pub pdv_p99_ns: u64,
    /// Packets with a latency.
    pub packets: u64,
}

impl LatencySummary {
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
    /// The load in percent of the highest rate.
    pub percent: f64,
    /// Sent packets per second of the worst direction.
    pub pps: f64,
    /// The share of lost packets in the worst direction.
    pub loss_ratio: f64,
}

/// The longest burst.
#[derive(Clone, Copy, Debug, Serialize)]
#[non_exhaustive]
pub struct BackToBack {
    /// Packets in each direction, sent as fast as possible.
    pub packets: u64,
    /// Whether the longest tried burst passed without loss.
    pub unlimited: bool,
    /// Packets per second within the burst; `None` if its departures are too close to measure.
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
        let found =
            GoalResult { rate: 5e3, asked: 5e3, sender_bound: true, ..GoalResult::default() };
        let bounds = |found, limit| {
            let Throughput { sender_bound, at_max_rate, .. } =
                Throughput::new(found, 0.0, None, limit);
            (sender_bound, at_max_rate)
        };
        assert_eq!(bounds(found, Some(5e3)), (false, true));
        assert_eq!(bounds(found, None), (true, false));
        // The requested rate is 5,000, but the sender reached 4,000 in all trials.
        let late = GoalResult { rate: 4e3, asked: 4e3, ..found };
        assert_eq!(bounds(late, Some(5e3)), (true, false));
        let path = GoalResult { sender_bound: false, rate: 3e3, asked: 3e3, ..found };
        assert_eq!(bounds(path, Some(5e3)), (false, false));
    }
}
