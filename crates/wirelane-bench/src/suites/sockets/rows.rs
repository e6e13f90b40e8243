//! From samples to rows.

use super::sample::{Lost, PortSample, Threads};
use super::subject::{PortSeries, SUITE, XDP_DROP, XDP_REDIRECT};
use crate::published::{self, Published, ns_per_packet};
use crate::row::{Param, Params, Row};
use crate::task::Task;

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
pub(super) fn rows(series: &PortSeries) -> Vec<Row> {
    let Some(nature) = series.nature.as_ref().filter(|_| !series.samples.is_empty()) else {
        return Vec::new();
    };
    let case = series.case();
    let mut params = vec![
        ("port", Param::Text(nature.backend)),
        ("mode", Param::Name(nature.mode.clone())),
        ("size", Param::Number(series.size as u64)),
        ("queues", Param::Number(nature.queues)),
    ];
    let name = |name: &String| Param::Name(name.clone());
    params.extend(nature.interface.as_ref().map(|of| ("interface", name(of))));
    params.extend(nature.load.as_ref().map(|of| ("load", name(of))));
    let to = nature.to.as_ref().filter(|_| case == Task::L2fwd.as_str());
    params
        .extend(to.into_iter().flat_map(|[to, mode]| [("to", name(to)), ("to_mode", name(mode))]));
    params.extend(series.paced.map(|rate| ("offered", Param::Number(rate))));
    let params = Params(params);
    let is_ours = !series.is_peer();
    let row = |metric, unit, samples: Vec<f64>, source| Row {
        suite: SUITE,
        case,
        peer: (!is_ours).then_some(series.label),
        params: params.clone(),
        metric,
        unit,
        samples,
        source,
    };
    let each = |of: &dyn Fn(&PortSample) -> f64| series.samples.iter().map(of).collect::<Vec<_>>();
    let some = |of: &dyn Fn(&PortSample) -> Option<f64>| {
        series.samples.iter().filter_map(of).collect::<Vec<_>>()
    };
    let threads = |metric, unit, of: fn(&Threads) -> Option<f64>| {
        row(metric, unit, some(&|sample| sample.threads.as_ref().and_then(of)), None)
    };
    let published = (is_ours && nature.backend == "xdp" && nature.queues == 1)
        .then(|| published(case, &nature.mode, series.size))
        .flatten();
    let mpps = published.map(|mpps| mpps.source());
    let ns = published.map(|mpps| ns_per_packet(mpps).source());
    let mut rows = vec![
        row("packets_per_s", "1/s", each(&|sample| sample.packets_per_s), mpps),
        row("ns_per_packet", "ns", each(&|sample| 1e9 / sample.packets_per_s), ns),
        row("cpu_ns_per_packet", "ns", some(&|sample| sample.cpu_ns()), None),
        threads("user_ns_per_packet", "ns", |threads| Some(threads.user_ns)),
        threads("system_ns_per_packet", "ns", |threads| Some(threads.system_ns)),
        row("packets", "1", each(&|sample| sample.packets as f64), None),
        threads("packets_per_system_call", "1", |threads| threads.packets_per_call),
        threads("packets_per_batch", "1", |threads| Some(threads.batch)),
        row("offered_per_s", "1/s", some(&|sample| sample.offered_per_s), None),
        row("sender_cpu_ns_per_packet", "ns", some(&|sample| sample.sender_ns), None),
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
        let share = |sample: &PortSample| sample.threads.as_ref()?.batches.get(i).copied();
        row(metric, "1", some(&share), None)
    }));
    // A rate of nothing per second has no time per packet.
    rows.retain(|row| !row.samples.is_empty() && row.samples.iter().all(|value| value.is_finite()));
    rows
}

/// What a port costs above dropping in the kernel, of each case that receives, with packets as
/// long, in the same mode if dropping has it, and in the same round.
pub(super) fn over_drop(all: &[PortSeries]) -> Vec<Row> {
    let of = |one: &PortSeries| -> Option<Row> {
        let nature = one.nature.as_ref()?;
        let is_compared = one.in_lab
            && one.paced.is_none()
            && !one.is_peer()
            && matches!(one.case(), "rxdrop" | "l2fwd" | XDP_REDIRECT);
        let mode = if nature.mode == "generic" { "generic" } else { "native" };
        let drop = all.iter().filter(|_| is_compared).find(|drop| {
            let has_mode = drop.nature.as_ref().is_some_and(|nature| nature.mode == mode);
            drop.case() == XDP_DROP && drop.size == one.size && has_mode
        })?;
        let pairs = one.samples.iter().zip(&drop.samples);
        let pairs = pairs.filter(|(own, drop)| own.packets_per_s > 0.0 && drop.packets_per_s > 0.0);
        let over = |(own, drop): (&PortSample, &PortSample)| {
            1e9 / own.packets_per_s - 1e9 / drop.packets_per_s
        };
        let samples: Vec<_> = pairs.map(over).collect();
        let like = rows(one).into_iter().next()?;
        (!samples.is_empty()).then_some(Row {
            metric: "ns_over_xdp_drop",
            unit: "ns",
            samples,
            source: None,
            ..like
        })
    };
    all.iter().filter_map(of).collect()
}

/// The 2018 AF_XDP zero-copy paper, in millions of packets per second: i40e 40 Gbit/s, one queue.
fn published(case: &str, mode: &str, size: usize) -> Option<Published> {
    let mode = ["generic", "native", "zerocopy"].iter().position(|name| mode.contains(name))?;
    published::sockets(case, size).get(mode).copied().flatten()
}

#[cfg(test)]
mod tests {
    use super::super::sample::Nature;
    use super::super::subject::Subject;
    use super::*;
    use wirelane_os::bpf::XdpMode;

    #[test]
    fn what_is_above_dropping_is_of_one_round_and_mode() {
        let series = |subject, mode: &str, rates: &[f64]| {
            let mut one = PortSeries::new(subject, "xdp", 64, true);
            let sample = |rate: &f64| PortSample { packets_per_s: *rate, ..PortSample::default() };
            one.samples = rates.iter().map(sample).collect();
            one.nature = Some(Nature {
                backend: "xdp",
                mode: mode.to_owned(),
                queues: 1,
                ..Nature::default()
            });
            one
        };
        let port = |task| Subject::Port("sim:1".parse().unwrap(), task);
        let all = [
            series(port(Task::Rxdrop), "native", &[5e6, 4e6, 0.0]),
            series(port(Task::L2fwd), "generic", &[2e6]),
            series(port(Task::Txpush), "copy", &[2e6]),
            series(Subject::XdpRedirect(XdpMode::Native), "native", &[8e6]),
            series(Subject::XdpDrop(XdpMode::Native), "native", &[10e6, 10e6, 10e6]),
            series(Subject::XdpDrop(XdpMode::Generic), "generic", &[4e6]),
        ];
        let rows: Vec<_> = over_drop(&all).into_iter().map(|row| (row.case, row.samples)).collect();
        let expected =
            [("rxdrop", vec![100.0, 150.0]), ("l2fwd", vec![250.0]), (XDP_REDIRECT, vec![25.0])];
        assert_eq!(rows, expected);
    }

    #[test]
    fn figures_of_the_source_belong_to_their_mode() {
        let mpps = |case, mode, size| published(case, mode, size).map(|figure| figure.value());
        assert_eq!(mpps("rxdrop", "zerocopy", 64), Some(21.5));
        assert_eq!(mpps("txpush", "native", 64), None);
        assert_eq!(mpps("l2fwd", "generic", 1500), Some(1.4));
        assert_eq!(mpps("xdp-drop", "native", 64), Some(32.3));
        assert_eq!(mpps("l2fwd", "tpacket-v3", 64), None);
        assert_eq!(mpps("l2fwd", "native", 65), None);
    }
}
