//! Makes rows of samples.

use super::sample::{Nature, PortSample};
use super::subject::{SocketsMeasurement, XDP_DROP, XDP_REDIRECT};
use crate::job::{Sample, SampleFigure};
use crate::published::{self, Published, ns_per_packet};
use crate::row::{FigureRow, params};
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

/// The figures of a measurement.
pub(super) fn sample(one: &SocketsMeasurement, nature: &Nature, sample: &PortSample) -> Sample {
    let Nature { backend, mode, queues, interface, load, to } = nature.clone();
    let case = one.case();
    let published = (!one.is_peer() && backend == "xdp" && queues == 1)
        .then(|| published(case, &mode, one.size))
        .flatten();
    let mut params = params![port = backend, mode = mode, size = one.size, queues = queues];
    params = params.and(interface.map(|of| ("interface", of.into())));
    params = params.and(load.map(|of| ("load", of.into())));
    if let Some([to, mode]) = to.filter(|_| case == Task::L2fwd.as_str()) {
        params = params.and(params![to = to, to_mode = mode].0);
    }
    params = params.and(one.paced.map(|rate| ("offered", rate.into())));
    let rate = sample.packets_per_s;
    let mpps = published.map(|mpps| mpps.source());
    let ns = published.map(|mpps| ns_per_packet(mpps).source());
    let mut figures = vec![
        SampleFigure::new("packets_per_s", rate).with_source(mpps),
        SampleFigure::new("ns_per_packet", 1e9 / rate).with_source(ns),
    ];
    let mut add = |metric, value: Option<f64>| {
        figures.extend(value.map(|value| SampleFigure::new(metric, value)));
    };
    let threads = sample.threads.as_ref();
    add("cpu_ns_per_packet", sample.cpu_ns());
    add("user_ns_per_packet", threads.map(|threads| threads.user_ns));
    add("system_ns_per_packet", threads.map(|threads| threads.system_ns));
    add("packets", Some(sample.packets as f64));
    add("packets_per_system_call", threads.and_then(|threads| threads.packets_per_call));
    add("packets_per_batch", threads.map(|threads| threads.batch));
    add("offered_per_s", sample.offered_per_s);
    add("sender_cpu_ns_per_packet", sample.sender_ns);
    add("lost_share", sample.lost.map(|lost| lost.total()));
    add("lost_interface_share", sample.lost.map(|lost| lost.interface));
    add("lost_kernel_share", sample.lost.map(|lost| lost.kernel));
    add("lost_ring_full_share", sample.lost.map(|lost| lost.ring_full));
    add("lost_tx_full_share", sample.lost.map(|lost| lost.tx_full));
    for (i, metric) in BATCHES.into_iter().enumerate() {
        add(metric, threads.and_then(|threads| threads.batches.get(i).copied()));
    }
    Sample { figures, params: Some(params) }
}

/// Removes rows without information, and adds rows computed from two others.
pub(super) fn finished(mut rows: Vec<FigureRow>) -> Vec<FigureRow> {
    rows.retain(|row| {
        // Causes without a loss are left out.
        let is_reason = row.metric.starts_with("lost_") && row.metric != "lost_share";
        let happened = row.samples.iter().any(|value| *value > 0.0);
        // A rate of zero has no time per packet.
        row.samples.iter().all(|value| value.is_finite()) && (happened || !is_reason)
    });
    let over: Vec<_> = rows.iter().filter_map(|row| over_drop(row, &rows)).collect();
    rows.extend(over);
    rows
}

/// The cost of a port compared with dropping in the kernel: for cases that receive, with packets of
/// the same size, in the same mode if the XDP drop has it, and in the same round.
fn over_drop(own: &FigureRow, all: &[FigureRow]) -> Option<FigureRow> {
    let is_compared = own.metric == "packets_per_s"
        && own.peer.is_none()
        && matches!(own.case, "rxdrop" | "l2fwd" | XDP_REDIRECT)
        && !own.params.has(("port", "sim"));
    let mode = if own.params.has(("mode", "generic")) { "generic" } else { "native" };
    let drop = all.iter().filter(|_| is_compared).find(|drop| {
        let is_like =
            drop.params.has(("mode", mode)) && drop.params.get("size") == own.params.get("size");
        drop.case == XDP_DROP && drop.metric == own.metric && is_like
    })?;
    let pairs = own.samples.iter().zip(&drop.samples);
    let pairs = pairs.filter(|(own, drop)| **own > 0.0 && **drop > 0.0);
    let samples: Vec<_> = pairs.map(|(own, drop)| 1e9 / own - 1e9 / drop).collect();
    let (metric, unit, source) = ("ns_over_xdp_drop", "ns", None);
    (!samples.is_empty()).then(|| FigureRow { metric, unit, samples, source, ..own.clone() })
}

/// The figure of the 2018 AF_XDP zero-copy paper, in millions of packets per second: i40e 40
/// Gbit/s, one queue.
fn published(case: &str, mode: &str, size: usize) -> Option<Published> {
    let mode = ["generic", "native", "zerocopy"].iter().position(|name| mode.contains(name))?;
    published::sockets(case, size).get(mode).copied().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::RowSubject;

    #[test]
    fn what_is_above_dropping_is_of_one_round_and_mode() {
        let row = |case, mode: &'static str, rates: &[f64]| {
            let params = params![port = "xdp", mode = mode, size = 64_usize, queues = 1_usize];
            let subject = RowSubject { suite: "sockets", case, peer: None, params };
            subject.row("packets_per_s", rates.to_vec())
        };
        let all = vec![
            row("rxdrop", "native", &[5e6, 4e6, 0.0]),
            row("l2fwd", "generic", &[2e6]),
            row("txpush", "copy", &[2e6]),
            row(XDP_REDIRECT, "native", &[8e6]),
            row(XDP_DROP, "native", &[10e6, 10e6, 10e6]),
            row(XDP_DROP, "generic", &[4e6]),
        ];
        let rows = finished(all).into_iter().filter(|row| row.metric == "ns_over_xdp_drop");
        let rows: Vec<_> = rows.map(|row| (row.case, row.samples)).collect();
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
