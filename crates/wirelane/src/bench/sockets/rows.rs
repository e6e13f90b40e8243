//! From samples to rows.

use super::{Kind, Lost, SUITE, Sample, Series};
use crate::bench::report::{Param, Params, Row, Source};

/// Names of the parts of the histogram: `batch_16_share` is the share of calls that moved 16 to 31
/// packets.
const BATCHES: [&str; super::loops::SIZES] = [
    "batch_1_share",
    "batch_2_share",
    "batch_4_share",
    "batch_8_share",
    "batch_16_share",
    "batch_32_share",
    "batch_64_share",
];

/// The rows of one case; none without samples.
pub(super) fn rows(series: &Series) -> Vec<Row> {
    let Some(info) = series.info.as_ref().filter(|_| !series.samples.is_empty()) else {
        return Vec::new();
    };
    let mode = info.mode.as_str();
    let queues = info.queues.len() as u64;
    let params = Params(vec![
        ("port", Param::Text(info.backend)),
        ("mode", Param::Name(mode.to_owned())),
        ("size", Param::Number(series.size as u64)),
        ("queues", Param::Number(queues)),
    ]);
    let row = |metric, unit, samples: Vec<f64>, source| Row {
        suite: SUITE,
        case: series.kind.as_str(),
        peer: None,
        params: params.clone(),
        metric,
        unit,
        samples,
        source,
    };
    let each = |of: &dyn Fn(&Sample) -> f64| series.samples.iter().map(of).collect::<Vec<_>>();
    let some = |of: &dyn Fn(&Sample) -> Option<f64>| {
        series.samples.iter().filter_map(of).collect::<Vec<_>>()
    };
    let published = (info.backend == "xdp" && queues == 1)
        .then(|| published(series.kind, mode, series.size))
        .flatten();
    let source = |value, unit| Source { document: "001", value, unit };
    let mpps = published.map(|mpps| source(mpps * 1e6, "1/s"));
    let ns = published.map(|mpps| source(1e3 / mpps, "ns"));
    let mut rows = vec![
        row("packets_per_s", "1/s", each(&|sample| sample.packets_per_s), mpps),
        row("ns_per_packet", "ns", each(&|sample| 1e9 / sample.packets_per_s), ns),
        row("cpu_ns_per_packet", "ns", each(&|sample| sample.user_ns + sample.system_ns), None),
        row("user_ns_per_packet", "ns", each(&|sample| sample.user_ns), None),
        row("system_ns_per_packet", "ns", each(&|sample| sample.system_ns), None),
        row("packets_per_system_call", "1", some(&|sample| sample.packets_per_call), None),
        row("packets_per_batch", "1", each(&|sample| sample.batch), None),
        row("offered_per_s", "1/s", some(&|sample| sample.offered_per_s), None),
        row("lost_share", "1", some(&|sample| Some(sample.lost?.total())), None),
    ];
    let reason = |metric, of: fn(&Lost) -> f64| {
        row(metric, "1", some(&|sample| sample.lost.as_ref().map(of)), None)
    };
    let reasons = [
        reason("lost_interface_share", |lost| lost.interface),
        reason("lost_kernel_share", |lost| lost.kernel),
        reason("lost_ring_full_share", |lost| lost.ring_full),
        reason("lost_tx_full_share", |lost| lost.tx_full),
    ];
    // Reasons for which nothing was lost are left out.
    let happened = |row: &Row| row.samples.iter().any(|value| *value > 0.0);
    rows.extend(reasons.into_iter().filter(happened));
    let batches = BATCHES.iter().enumerate();
    rows.extend(batches.map(|(i, metric)| {
        row(metric, "1", each(&|sample| sample.batches.get(i).copied().unwrap_or(0.0)), None)
    }));
    // A rate of nothing per second has no time per packet.
    rows.retain(|row| !row.samples.is_empty() && row.samples.iter().all(|value| value.is_finite()));
    rows
}

/// Source 001, in millions of packets per second: i40e 40 Gbit/s, one queue.
fn published(kind: Kind, mode: &str, size: usize) -> Option<f64> {
    let mode = ["zerocopy", "native", "generic"].iter().position(|name| mode.contains(name))?;
    let of = |figures: [Option<f64>; 3]| figures.get(mode).copied().flatten();
    match (kind, size) {
        (Kind::Rxdrop, 64) => of([Some(21.5), Some(9.6), Some(2.9)]),
        (Kind::Txpush, 64) => of([Some(21.6), None, Some(2.6)]),
        (Kind::L2fwd, 64) => of([Some(15.0), Some(2.5), Some(1.9)]),
        (Kind::Rxdrop, 1500) => of([Some(3.3), Some(3.3), Some(2.1)]),
        (Kind::L2fwd, 1500) => of([Some(3.1), Some(1.8), Some(1.4)]),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_of_the_source_belong_to_their_mode() {
        assert_eq!(published(Kind::Rxdrop, "zerocopy", 64), Some(21.5));
        assert_eq!(published(Kind::Txpush, "native", 64), None);
        assert_eq!(published(Kind::L2fwd, "generic", 1500), Some(1.4));
        assert_eq!(published(Kind::L2fwd, "tpacket-v3", 64), None);
        assert_eq!(published(Kind::L2fwd, "native", 65), None);
    }
}
