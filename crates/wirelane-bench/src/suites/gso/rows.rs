//! Makes rows of samples.

use super::case::{GsoCase, SHARES, SUITE, SegmentationPlace, TransferDirection, TransferProtocol};
use super::sample::{GsoSample, GsoSeries};
use crate::published::{self, Published, Segmentation};
use crate::report::BenchReport;
use crate::row::{FigureRow, RowSubject, params};
use crate::suites::gso::account::Account;
use crate::suites::gso::iperf::PROGRAM;

/// The rows of all cases.
pub(super) fn rows(series: &[GsoSeries], port: &'static str, report: &mut BenchReport) {
    for one in series.iter().filter(|one| !one.samples.is_empty()) {
        let offloading = one.case.offloading;
        let is_ours = offloading == SegmentationPlace::Wirelane || offloading.is_handed_on();
        let beside = |offloading| {
            let case = GsoCase { offloading, ..one.case };
            series.iter().find(|other| other.case == case).filter(|_| is_ours)
        };
        let [none, stack] = [SegmentationPlace::None, SegmentationPlace::Stack].map(beside);
        report.rows.extend(case_rows(one, port, none, stack));
        report.rows.extend(iperf_rows(one, port, none));
    }
}

/// The rows of iperf3: its rate and its speed-up.
fn iperf_rows(one: &GsoSeries, port: &'static str, none: Option<&GsoSeries>) -> Vec<FigureRow> {
    let faster = over(&one.theirs, none.map(|none| none.theirs.as_slice()), faster);
    let rates = one.theirs.iter().map(rate).collect();
    let subject = subject(&one.case, Some(PROGRAM), port);
    let mut rows = vec![subject.row("bits_per_s", rates), subject.row("speedup", faster)];
    rows.retain(|row| !row.samples.is_empty());
    rows
}

/// A case under its conditions.
fn subject(case: &GsoCase, peer: Option<&'static str>, port: &'static str) -> RowSubject {
    let params = params![
        offload = case.offloading.as_str(),
        cpu = case.cpu,
        flows = u64::from(case.flows),
        port = if case.way == TransferDirection::Between { "tap" } else { port },
    ];
    RowSubject { suite: SUITE, case: case.name(), peer, params }
}

/// Bits of payload per second.
fn rate(sample: &GsoSample) -> f64 {
    sample.bytes as f64 * 8.0 / sample.elapsed.as_secs_f64()
}

/// Reads a part of an account, in nanoseconds.
type Part = fn(&Account) -> u64;

/// Seconds of CPU time per gigabyte (10⁹ bytes) of payload.
fn cost(sample: &GsoSample, of: Part) -> Option<f64> {
    (sample.bytes > 0).then_some(())?;
    Some(of(sample.account.as_ref()?) as f64 / sample.bytes as f64)
}

/// `of` two samples of the same round, for each round.
fn over(
    own: &[GsoSample],
    others: Option<&[GsoSample]>,
    of: fn(&GsoSample, &GsoSample) -> Option<f64>,
) -> Vec<f64> {
    let pairs = own.iter().zip(others.unwrap_or_default());
    pairs.filter_map(|(own, other)| of(own, other)).collect()
}

/// The ratio of the rates. `None` if the other sample has no bytes.
fn faster(own: &GsoSample, other: &GsoSample) -> Option<f64> {
    (other.bytes > 0).then(|| rate(own) / rate(other))
}

/// The ratio of the bytes per CPU time.
fn cheaper(own: &GsoSample, other: &GsoSample) -> Option<f64> {
    let total: Part = |account| account.total();
    Some(cost(other, total)? / cost(own, total)?)
}

fn case_rows(
    one: &GsoSeries,
    port: &'static str,
    none: Option<&GsoSeries>,
    stack: Option<&GsoSeries>,
) -> Vec<FigureRow> {
    let GsoSeries { case, samples, .. } = one;
    let subject = subject(case, None, port);
    let rates = subject.row("bits_per_s", samples.iter().map(rate).collect());
    let mut rows = vec![rates.with_source(published(case).map(|mbits| mbits.source()))];
    let parts: [(_, Part); 5] = [
        ("cpu_s_per_gb", |account| account.total()),
        ("cpu_s_per_gb_sender", |account| account.sender),
        ("cpu_s_per_gb_forwarder", |account| account.forwarder),
        ("cpu_s_per_gb_receiver", |account| account.receiver),
        ("cpu_s_per_gb_softirqd", |account| account.softirqd),
    ];
    for (metric, of) in parts {
        let costs = samples.iter().filter_map(|sample| cost(sample, of)).collect();
        rows.push(subject.row(metric, costs));
    }
    if case.protocol == TransferProtocol::Udp {
        let lost = |sample: &GsoSample| {
            let sent = sample.bytes / super::traffic::DATAGRAM as u64 + sample.lost;
            sample.lost as f64 / sent.max(1) as f64
        };
        rows.push(subject.row("lost_share", samples.iter().map(lost).collect()));
    }
    let [none, stack] = [none, stack].map(|other| other.map(|other| other.samples.as_slice()));
    let source = |offloading| {
        let is_none = case.protocol.none_of_source() == offloading;
        line(case).filter(|_| is_none).map(|line| line.speedup().source())
    };
    let [beside_none, beside_stack] =
        [SegmentationPlace::None, SegmentationPlace::Stack].map(source);
    rows.extend([
        subject.row("speedup", over(samples, none, faster)).with_source(beside_none),
        subject.row("speedup_per_cpu", over(samples, none, cheaper)),
        subject.row("speedup_over_stack", over(samples, stack, faster)).with_source(beside_stack),
        subject.row("speedup_per_cpu_over_stack", over(samples, stack, cheaper)),
    ]);
    rows.retain(|row| !row.samples.is_empty() && row.samples.iter().all(|value| value.is_finite()));
    rows
}

/// The line of the 2014 FreeBSD GSO paper that a case represents: a share of a CPU for a frequency.
/// The paper does not give the number of flows; its program sends one.
fn line(case: &GsoCase) -> Option<Segmentation> {
    if case.flows != 1 {
        return None;
    }
    let line = SHARES.iter().position(|share| *share == case.cpu)?;
    published::segmentation(case.name())?.get(line).copied()
}

/// The published figure for the offload.
fn published(case: &GsoCase) -> Option<Published> {
    let line = line(case)?;
    match case.offloading {
        SegmentationPlace::Kernel => line.tso,
        SegmentationPlace::Wirelane => Some(line.gso),
        offloading if offloading == case.protocol.none_of_source() => Some(line.none),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::case::{GsoCases, cases};
    use super::*;
    use crate::effort::Effort;

    fn sample(bytes: u64, forwarder: u64) -> GsoSample {
        let account = Account { sender: 1000, forwarder, receiver: 500, softirqd: 0 };
        GsoSample { bytes, elapsed: Duration::from_secs(1), account: Some(account), lost: 0 }
    }

    #[test]
    fn speedups_are_of_one_round() {
        let case = |offloading| GsoCase {
            protocol: TransferProtocol::Tcp,
            v6: false,
            way: TransferDirection::Out,
            offloading,
            cpu: 50,
            flows: 1,
        };
        let series = [
            (SegmentationPlace::Wirelane, vec![sample(4000, 2500), sample(1000, 2500)]),
            (SegmentationPlace::None, vec![sample(1000, 500), sample(500, 500)]),
            (SegmentationPlace::Stack, vec![sample(2000, 500), sample(250, 500)]),
        ];
        let series = series.map(|(offloading, samples)| {
            let theirs =
                samples.iter().map(|one| GsoSample { bytes: one.bytes * 2, ..*one }).collect();
            GsoSeries { samples, theirs, ..GsoSeries::new(case(offloading)) }
        });
        let mut report = BenchReport::new("test".into());
        rows(&series, "packet", &mut report);
        let of = |peer, metric: &str| {
            let is_it = |row: &&FigureRow| row.peer == peer && row.metric == metric;
            report.rows.iter().find(is_it).unwrap()
        };
        let row = |metric: &str| of(None, metric);
        assert_eq!(of(Some(PROGRAM), "bits_per_s").samples, [64_000.0, 16_000.0]);
        assert_eq!(of(Some(PROGRAM), "speedup").samples, [4.0, 2.0]);
        assert_eq!(row("speedup").samples, [4.0, 2.0]);
        // TCP without anything is what the source compares with.
        assert_eq!(row("speedup_over_stack").samples, [2.0, 4.0]);
        assert_eq!(row("speedup_over_stack").source.unwrap().value, 1.985);
        assert!(row("speedup").source.is_none());
        assert_eq!(row("speedup_per_cpu").samples, [2.0, 1.0]);
        assert_eq!(row("bits_per_s").samples, [32_000.0, 8_000.0]);
        assert_eq!(row("bits_per_s").source.unwrap().value, 8087e6);
        let rates =
            report.rows.iter().filter(|row| row.peer.is_none() && row.metric == "bits_per_s");
        let sources: Vec<_> = rates.map(|row| row.source.map(|source| source.value)).collect();
        assert_eq!(sources, [Some(8087e6), None, Some(4075e6)]);
        assert_eq!(row("cpu_s_per_gb").samples, [1.0, 4.0]);
        assert_eq!(report.rows.iter().filter(|row| row.metric == "speedup").count(), 2);
    }

    #[test]
    fn every_figure_of_the_source_has_a_case() {
        let full = GsoCases::of(&Effort::default());
        let figures = |tables: &GsoCases| cases(tables).iter().filter_map(published).count();
        // Four tables of six lines: GSO and none, and TSO for TCP.
        assert_eq!(figures(&full), 4 * 6 * 2 + 2 * 6);
        // With --quick, too: no line of its tables stays empty.
        let quick = GsoCases::of(&Effort { quick: true, ..Effort::default() });
        assert_eq!(figures(&quick), figures(&full));
        // The paper has no figures for several flows or for two TAP devices.
        assert_eq!(figures(&GsoCases { flows: 4, ..full.clone() }), 0);
        // The first lines are repeated: TCP with four offloads, UDP with three.
        let several = GsoCases { several: Some(4), ..full.clone() };
        assert_eq!(cases(&several).len(), cases(&full).len() + 2 * (4 + 3));
        assert_eq!(figures(&several), figures(&full));
        let between = GsoCases { cases: vec!["vm-tcp4".to_owned()], ..full };
        assert_eq!((cases(&between).len(), figures(&between)), (6 * 4, 0));
    }

    #[test]
    fn nothing_received_is_no_cost() {
        let case = cases(&GsoCases::of(&Effort::default()))[0];
        let mut report = BenchReport::new("test".into());
        let nothing = GsoSeries { samples: vec![sample(0, 0)], ..GsoSeries::new(case) };
        rows(&[nothing], "packet", &mut report);
        assert_eq!(report.rows.len(), 1, "{:?}", report.rows);
        rows(&[GsoSeries::new(case)], "packet", &mut report);
        assert_eq!(report.rows.len(), 1);
    }
}
