//! From samples to rows.

use super::case::{GsoCase, GsoPlan, Offloading, Protocol, SUITE, Way};
use super::sample::{GsoSample, GsoSeries};
use crate::published::{self, Published, Segmentation};
use crate::report::Report;
use crate::row::{Param, Params, Row};
use crate::suites::gso::account::Account;
use crate::suites::gso::iperf::PROGRAM;

/// The rows of all cases.
pub(super) fn rows(series: &[GsoSeries], port: &'static str, report: &mut Report) {
    for one in series.iter().filter(|one| !one.samples.is_empty()) {
        let of = |offloading| {
            let case = GsoCase { offloading, ..one.case };
            series.iter().find(|other| other.case == case).map(|other| other.samples.as_slice())
        };
        let offloading = one.case.offloading;
        let is_ours = offloading == Offloading::Wirelane || offloading.is_handed_on();
        let none = of(Offloading::None).filter(|_| is_ours);
        let stack = of(Offloading::Stack).filter(|_| is_ours);
        report.rows.extend(case_rows(one, port, none, stack));
        let is_none =
            |other: &&GsoSeries| other.case == GsoCase { offloading: Offloading::None, ..one.case };
        let none = series.iter().find(is_none).filter(|_| is_ours);
        report.rows.extend(iperf_rows(one, port, none.map(|none| none.theirs.as_slice())));
    }
}

/// What iperf3 saw: its rate, and the speed-up that follows.
fn iperf_rows(one: &GsoSeries, port: &'static str, none: Option<&[GsoSample]>) -> Vec<Row> {
    let pairs = one.theirs.iter().zip(none.unwrap_or_default());
    let faster = pairs.filter(|(_, none)| none.bytes > 0).map(|(own, none)| rate(own) / rate(none));
    let rates = one.theirs.iter().map(rate).collect();
    let rows = [("bits_per_s", "bit/s", rates), ("speedup", "1", faster.collect())];
    let row = |(metric, unit, samples): (_, _, Vec<f64>)| Row {
        suite: SUITE,
        case: one.case.name(),
        peer: Some(PROGRAM),
        params: params(&one.case, port),
        metric,
        unit,
        samples,
        source: None,
    };
    rows.into_iter().map(row).filter(|row| !row.samples.is_empty()).collect()
}

/// The conditions of a case.
fn params(case: &GsoCase, port: &'static str) -> Params {
    Params(vec![
        ("offload", Param::Text(case.offloading.as_str())),
        ("cpu", Param::Number(case.cpu)),
        ("flows", Param::Number(case.flows.into())),
        ("port", Param::Text(if case.way == Way::Between { "tap" } else { port })),
    ])
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

fn case_rows(
    one: &GsoSeries,
    port: &'static str,
    none: Option<&[GsoSample]>,
    stack: Option<&[GsoSample]>,
) -> Vec<Row> {
    let GsoSeries { case, samples, .. } = one;
    let params = params(case, port);
    let row = |metric, unit, samples: Vec<f64>, source| Row {
        suite: SUITE,
        case: case.name(),
        peer: None,
        params: params.clone(),
        metric,
        unit,
        samples,
        source,
    };
    let published = published(case);
    let rates = samples.iter().map(rate).collect();
    let of_source = published.map(|mbits| mbits.source());
    let mut rows = vec![row("bits_per_s", "bit/s", rates, of_source)];
    let parts: [(_, Part); 5] = [
        ("cpu_s_per_gb", |account| account.total()),
        ("cpu_s_per_gb_sender", |account| account.sender),
        ("cpu_s_per_gb_forwarder", |account| account.forwarder),
        ("cpu_s_per_gb_receiver", |account| account.receiver),
        ("cpu_s_per_gb_softirqd", |account| account.softirqd),
    ];
    for (metric, of) in parts {
        let costs = samples.iter().filter_map(|sample| cost(sample, of)).collect();
        rows.push(row(metric, "s", costs, None));
    }
    if case.protocol == Protocol::Udp {
        let lost = |sample: &GsoSample| {
            let sent = sample.bytes / super::traffic::DATAGRAM as u64 + sample.lost;
            sample.lost as f64 / sent.max(1) as f64
        };
        rows.push(row("lost_share", "1", samples.iter().map(lost).collect(), None));
    }
    // How many times as fast, and as much for the same CPU time, in the same round.
    let over = |others: Option<&[GsoSample]>,
                of: &dyn Fn(&GsoSample, &GsoSample) -> Option<f64>| {
        samples
            .iter()
            .zip(others.unwrap_or_default())
            .filter_map(|(own, other)| of(own, other))
            .collect()
    };
    // Nothing in a round is no measure of something.
    let faster =
        |own: &GsoSample, other: &GsoSample| (other.bytes > 0).then(|| rate(own) / rate(other));
    let cheaper = |own: &GsoSample, other: &GsoSample| {
        let total: Part = |account| account.total();
        Some(cost(other, total)? / cost(own, total)?)
    };
    let of_source = |offloading| {
        let is_none = case.protocol.none_of_source() == offloading;
        line(case).filter(|_| is_none).map(|line| line.speedup().source())
    };
    let (beside_none, beside_stack) = (of_source(Offloading::None), of_source(Offloading::Stack));
    rows.extend([
        row("speedup", "1", over(none, &faster), beside_none),
        row("speedup_per_cpu", "1", over(none, &cheaper), None),
        row("speedup_over_stack", "1", over(stack, &faster), beside_stack),
        row("speedup_per_cpu_over_stack", "1", over(stack, &cheaper), None),
    ]);
    rows.retain(|row| !row.samples.is_empty() && row.samples.iter().all(|value| value.is_finite()));
    rows
}

/// The line of the 2014 FreeBSD GSO paper that a case stands for: a share of a CPU for a frequency.
/// It does not say how many flows it had; its program sends one.
fn line(case: &GsoCase) -> Option<Segmentation> {
    if case.flows != 1 {
        return None;
    }
    let line = GsoPlan::SHARES.iter().position(|share| *share == case.cpu)?;
    published::segmentation(case.name())?.get(line).copied()
}

/// Its figure for the way of cutting.
fn published(case: &GsoCase) -> Option<Published> {
    let line = line(case)?;
    match case.offloading {
        Offloading::Kernel => line.tso,
        Offloading::Wirelane => Some(line.gso),
        offloading if offloading == case.protocol.none_of_source() => Some(line.none),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::case::cases;
    use super::*;
    use std::time::Duration;

    fn sample(bytes: u64, forwarder: u64) -> GsoSample {
        let account = Account { sender: 1000, forwarder, receiver: 500, softirqd: 0 };
        GsoSample { bytes, elapsed: Duration::from_secs(1), account: Some(account), lost: 0 }
    }

    #[test]
    fn speedups_are_of_one_round() {
        let case = |offloading| GsoCase {
            protocol: Protocol::Tcp,
            v6: false,
            way: Way::Out,
            offloading,
            cpu: 50,
            flows: 1,
        };
        let series = [
            (Offloading::Wirelane, vec![sample(4000, 2500), sample(1000, 2500)]),
            (Offloading::None, vec![sample(1000, 500), sample(500, 500)]),
            (Offloading::Stack, vec![sample(2000, 500), sample(250, 500)]),
        ];
        let series = series.map(|(offloading, samples)| {
            let theirs =
                samples.iter().map(|one| GsoSample { bytes: one.bytes * 2, ..*one }).collect();
            GsoSeries { case: case(offloading), samples, theirs }
        });
        let mut report = Report::new("test".into());
        rows(&series, "packet", &mut report);
        let of = |peer, metric: &str| {
            let is_it = |row: &&Row| row.peer == peer && row.metric == metric;
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
        let figures = cases(&GsoPlan::full()).iter().filter_map(published).count();
        // Four tables of six lines: GSO and none, and TSO for TCP.
        assert_eq!(figures, 4 * 6 * 2 + 2 * 6);
        // With --quick, too: no line of its tables stays empty.
        assert_eq!(cases(&GsoPlan::quick()).iter().filter_map(published).count(), figures);
        // It has none of several flows, nor of two TAP devices.
        let several = GsoPlan { flows: 4, ..GsoPlan::full() };
        assert_eq!(cases(&several).iter().filter_map(published).count(), 0);
        // The first lines once more: TCP in four ways, UDP in three.
        let more = cases(&GsoPlan { several: Some(4), ..GsoPlan::full() });
        assert_eq!(more.len(), cases(&GsoPlan::full()).len() + 2 * (4 + 3));
        assert_eq!(more.iter().filter_map(published).count(), figures);
        let between = GsoPlan { cases: vec!["vm-tcp4".to_owned()], ..GsoPlan::full() };
        let between = cases(&between);
        assert_eq!(between.len(), 6 * 4);
        assert!(between.iter().all(|case| published(case).is_none()));
    }

    #[test]
    fn nothing_received_is_no_cost() {
        let case = cases(&GsoPlan::quick())[0];
        let mut report = Report::new("test".into());
        rows(
            &[GsoSeries { case, samples: vec![sample(0, 0)], theirs: vec![] }],
            "packet",
            &mut report,
        );
        assert_eq!(report.rows.len(), 1, "{:?}", report.rows);
        rows(&[GsoSeries { case, samples: vec![], theirs: vec![] }], "packet", &mut report);
        assert_eq!(report.rows.len(), 1);
    }
}
