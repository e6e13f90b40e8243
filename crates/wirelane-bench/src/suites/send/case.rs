//! What is measured once in every round.

use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use serde_json::Value;
use wirelane::error::{Error, Result};

use super::bed::Bed;
use super::errors::{Errors, errors};
use super::file;
use super::ours::Ours;
use super::shape::SUITE;
use crate::peers::process::line;
use crate::peers::senders::{Order, Sender};
use crate::report::Report;
use crate::row::{Params, Row};
use crate::suites::turns::Turn;

/// A figure of a sample.
pub(super) type Figure = (&'static str, &'static str, f64);

/// Who sends.
#[derive(Clone, Copy, Debug)]
pub(super) enum Subject {
    Ours(Ours),
    Peer(Sender),
}

/// What is sent.
#[derive(Clone, Copy, Debug)]
pub(super) enum What {
    /// Packets of this size that are generated in so many flows, as fast as possible.
    Generate { size: usize, flows: u32 },
    /// A file of packets of this size, again and again, as fast as possible.
    Loop { size: usize },
    /// Packets of 64 bytes at this share of the highest rate, in percent.
    Rate { percent: u64 },
    /// A file with so many packets, in its own time.
    Timing { packets: u64 },
}

/// Distance of the packets of [`What::Timing`], on average.
pub(super) const GAP_US: u64 = 100;
/// A rate takes this many times as long to measure: what is sent at once is a smaller share of it.
const LONGER: u32 = 3;
const SIZE: usize = 64;

/// One case, and its samples.
pub(super) struct Case<'a> {
    pub(super) bed: &'a Bed<'a>,
    pub(super) name: &'static str,
    pub(super) subject: Subject,
    pub(super) what: What,
    pub(super) params: Params,
    pub(super) window: Duration,
    pub(super) samples: Vec<Vec<Figure>>,
}

impl Turn for Case<'_> {
    fn case(&self) -> &'static str {
        match self.subject {
            Subject::Ours(Ours::Default) => self.name,
            Subject::Ours(ours) => ours.label(),
            Subject::Peer(sender) => sender.name,
        }
    }

    fn title(&self) -> String {
        let who = match self.subject {
            Subject::Ours(ours) => format!("wirelane send ({})", ours.label()),
            Subject::Peer(sender) => sender.name.to_owned(),
        };
        match self.what {
            What::Generate { size, flows: 0 | 1 } => format!("{who}: {size} bytes"),
            What::Generate { size, flows } => format!("{who}: {size} bytes, {flows} flows"),
            What::Loop { size } => format!("{who}: a file of {size} bytes"),
            What::Rate { percent } => format!("{who}: {percent} % of the highest rate"),
            What::Timing { .. } => format!("{who}: a file in its own time"),
        }
    }

    fn measure(&mut self, _: u32, stop: &AtomicBool, report: &mut Report) -> Result<()> {
        let found = match self.what {
            What::Generate { .. } | What::Loop { .. } => self.speed(stop, report)?,
            What::Rate { percent } => self.rate(percent, stop, report)?,
            What::Timing { packets } => self.timing(packets, stop, report)?,
        };
        self.samples.extend(found);
        Ok(())
    }
}

impl Case<'_> {
    fn speed(&self, stop: &AtomicBool, report: &mut Report) -> Result<Option<Vec<Figure>>> {
        let mut command = self.command()?;
        report.environment.add_command(line(&command));
        let is_ours = matches!(self.subject, Subject::Ours(_));
        let counted = self.bed.count(&mut command, self.window, is_ours, stop)?;
        let Some((counted, _)) = counted else { return Ok(None) };
        let is_usual = matches!(self.what, What::Generate { size: SIZE, flows: 1 });
        if is_usual && matches!(self.subject, Subject::Ours(Ours::Default)) {
            self.bed.fastest.set(Some(counted.packets_per_s));
        }
        let mut figures = vec![("packets_per_s", "1/s", counted.packets_per_s)];
        figures.extend(counted.cpu_ns.map(|cpu| ("cpu_ns_per_packet", "ns", cpu)));
        Ok(Some(figures))
    }

    fn command(&self) -> Result<Command> {
        let (own, interface) = (self.bed.own, self.bed.interface());
        let (size, flows) = match self.what {
            What::Generate { size, flows } => (size, flows),
            What::Loop { size } => (size, 0),
            What::Rate { .. } | What::Timing { .. } => (SIZE, 1),
        };
        let file = self.bed.file(size);
        match self.subject {
            Subject::Ours(ours) if flows == 0 => Ok(ours.replay(own, interface, &file, true)),
            Subject::Ours(ours) => Ok(ours.generate(own, interface, size, flows, None)),
            Subject::Peer(sender) => {
                let packets = file::packets(size)?;
                let packet = packets.first().map_or(&[][..], Vec::as_slice);
                let order = Order { interface, cpu: self.bed.cpu, packet, file: &file };
                sender.command(&order).map_err(|reason| refused(sender.name, &reason))
            }
        }
    }

    fn rate(
        &self,
        percent: u64,
        stop: &AtomicBool,
        report: &mut Report,
    ) -> Result<Option<Vec<Figure>>> {
        let (Some(fastest), Subject::Ours(ours)) = (self.bed.fastest.get(), self.subject) else {
            return Err(Error::failed("rate", "the highest rate is not known"));
        };
        let rate = (fastest * percent as f64 / 100.0).max(1.0) as u64;
        let (own, interface) = (self.bed.own, self.bed.interface());
        let mut command = ours.generate(own, interface, SIZE, 1, Some(rate));
        report.environment.add_command(line(&command));
        let counted = self.bed.count(&mut command, self.window * LONGER, true, stop)?;
        let Some((counted, summary)) = counted else { return Ok(None) };
        let mut figures = vec![
            ("packets_per_s", "1/s", counted.packets_per_s),
            ("error_rate_share", "1", (counted.packets_per_s / rate as f64 - 1.0).abs()),
        ];
        let own = summary.as_ref().and_then(own_error);
        figures.extend(own.map(|share| ("error_rate_own_share", "1", share.abs())));
        Ok(Some(figures))
    }

    fn timing(
        &self,
        packets: u64,
        stop: &AtomicBool,
        report: &mut Report,
    ) -> Result<Option<Vec<Figure>>> {
        let times = file::uneven(packets, GAP_US);
        let mut commands = Vec::new();
        let make = |path: &std::path::Path| replay(self.subject, self.bed, path);
        let arrivals = self.bed.replay("timing.pcap", &times, make, stop, &mut commands);
        commands.drain(..).for_each(|command| report.environment.add_command(command));
        let Some(arrivals) = arrivals? else { return Ok(None) };
        let found = errors(&arrivals, &times);
        let found = found.ok_or_else(|| Error::failed("timing", "too few packets"))?;
        Ok(Some(timing_figures(&found)))
    }

    /// The rows of its samples.
    pub(super) fn rows(&self) -> Vec<Row> {
        let peer = match self.subject {
            Subject::Ours(_) => None,
            Subject::Peer(sender) => Some(sender.name),
        };
        rows(self.name, peer, &self.params, &self.samples)
    }
}

/// The command that sends a file once, in its own time.
pub(super) fn replay(subject: Subject, bed: &Bed<'_>, path: &std::path::Path) -> Result<Command> {
    match subject {
        Subject::Ours(ours) => Ok(ours.replay(bed.own, bed.interface(), path, false)),
        Subject::Peer(sender) => {
            sender.replay(bed.interface(), path).map_err(|reason| refused(sender.name, &reason))
        }
    }
}

/// A row for each metric.
pub(super) fn rows(
    case: &'static str,
    peer: Option<&'static str>,
    params: &Params,
    samples: &[Vec<Figure>],
) -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    for (metric, unit, value) in samples.iter().flatten() {
        if let Some(row) = rows.iter_mut().find(|row| row.metric == *metric) {
            row.samples.push(*value);
            continue;
        }
        let samples = vec![*value];
        let params = params.clone();
        rows.push(Row { suite: SUITE, case, peer, params, metric, unit, samples, source: None });
    }
    rows
}

pub(super) fn timing_figures(found: &Errors) -> Vec<Figure> {
    let [gap_p50, gap_p99, gap_max] = found.gaps;
    let [time_p50, time_p99, time_max] = found.times;
    vec![
        ("error_gap_p50_ns", "ns", gap_p50),
        ("error_gap_p99_ns", "ns", gap_p99),
        ("error_gap_max_ns", "ns", gap_max),
        ("error_time_p50_ns", "ns", time_p50),
        ("error_time_p99_ns", "ns", time_p99),
        ("error_time_max_ns", "ns", time_max),
    ]
}

/// By which share our command says that it was off its schedule.
fn own_error(summary: &Value) -> Option<f64> {
    summary["rate_error"].as_f64()
}

fn refused(name: &str, reason: &str) -> Error {
    let reason = reason.strip_prefix(name).unwrap_or(reason);
    Error::failed(name, reason.trim_start_matches([':', ' ']).to_owned())
}
