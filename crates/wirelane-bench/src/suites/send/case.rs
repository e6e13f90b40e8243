//! The cases that are measured once in every round.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use wirelane::error::{Error, Result};

use super::bed::SendBed;
use super::errors::{DepartureErrors, errors};
use super::file;
use super::ours::Ours;
use crate::job::{self, Job, Sample, SampleFigure};
use crate::peers::senders::{SendProgram, SendTask};
use crate::row::Params;

/// The sender.
#[derive(Clone, Copy, Debug)]
pub(super) enum SendSubject {
    Ours(Ours),
    Peer(SendProgram),
}

/// The packets of a case.
#[derive(Clone, Copy, Debug)]
pub(super) enum CasePackets {
    /// Packets of this size, generated in this number of flows, as fast as possible.
    Generate { size: usize, flows: u32 },
    /// A file of packets of this size, repeated, as fast as possible.
    Loop { size: usize },
    /// Packets of 64 bytes at this share of the highest rate, in percent.
    Rate { percent: u64 },
    /// A file with this number of packets, sent with its own timing.
    Timing { packets: u64 },
}

/// Distance of the packets of [`CasePackets::Timing`], on average.
pub(super) const GAP_US: u64 = 100;
/// A rate is measured for this many windows, because packets are sent in bursts: a longer window
/// reduces the error.
const LONGER: u32 = 3;
const SIZE: usize = 64;

/// One case.
pub(super) struct SendMeasurement<'a> {
    pub(super) bed: &'a SendBed,
    pub(super) name: &'static str,
    pub(super) subject: SendSubject,
    pub(super) what: CasePackets,
    pub(super) params: Params,
    pub(super) window: Duration,
}

impl<'a> SendMeasurement<'a> {
    pub(super) fn measured(self) -> job::Case<'a> {
        let (peer, skipped_as) = match self.subject {
            SendSubject::Ours(Ours::Default) => (None, self.name),
            SendSubject::Ours(ours) => (None, ours.label()),
            SendSubject::Peer(sender) => (Some(sender.name), sender.name),
        };
        let (name, params, title) = (self.name, self.params.clone(), self.title());
        let measure = move |job: &mut Job<'_>| match self.what {
            CasePackets::Generate { .. } | CasePackets::Loop { .. } => self.speed(job),
            CasePackets::Rate { percent } => self.rate(percent, job),
            CasePackets::Timing { packets } => self.timing(packets, job),
        };
        job::Case::new(name, params, title, measure).of(peer).skipped_as(skipped_as)
    }

    fn title(&self) -> String {
        let who = match self.subject {
            SendSubject::Ours(ours) => format!("wirelane send ({})", ours.label()),
            SendSubject::Peer(sender) => sender.name.to_owned(),
        };
        match self.what {
            CasePackets::Generate { size, flows: 0 | 1 } => format!("{who}: {size} bytes"),
            CasePackets::Generate { size, flows } => format!("{who}: {size} bytes, {flows} flows"),
            CasePackets::Loop { size } => format!("{who}: a file of {size} bytes"),
            CasePackets::Rate { percent } => format!("{who}: {percent} % of the highest rate"),
            CasePackets::Timing { .. } => format!("{who}: a file in its own time"),
        }
    }

    fn speed(&self, job: &mut Job<'_>) -> Result<Sample> {
        let mut command = self.command()?;
        job.note(&command);
        let is_ours = matches!(self.subject, SendSubject::Ours(_));
        let (counted, _) = self.bed.count(&mut command, self.window, is_ours, job.stop)?;
        let is_usual = matches!(self.what, CasePackets::Generate { size: SIZE, flows: 1 });
        if is_usual && matches!(self.subject, SendSubject::Ours(Ours::Default)) {
            self.bed.fastest.set(Some(counted.packets_per_s));
        }
        let rate = SampleFigure::new("packets_per_s", counted.packets_per_s);
        let cpu = counted.cpu_ns.map(|cpu| SampleFigure::new("cpu_ns_per_packet", cpu));
        Ok([rate].into_iter().chain(cpu).into())
    }

    fn command(&self) -> Result<Command> {
        let (own, interface) = (&self.bed.own, self.bed.interface());
        let (size, flows) = match self.what {
            CasePackets::Generate { size, flows } => (size, flows),
            CasePackets::Loop { size } => (size, 0),
            CasePackets::Rate { .. } | CasePackets::Timing { .. } => (SIZE, 1),
        };
        let file = self.bed.file(size);
        match self.subject {
            SendSubject::Ours(ours) if flows == 0 => Ok(ours.replay(own, interface, &file, true)),
            SendSubject::Ours(ours) => Ok(ours.generate(own, interface, size, flows, None)),
            SendSubject::Peer(sender) => {
                let packets = file::packets(size)?;
                let packet = packets.first().map_or(&[][..], Vec::as_slice);
                let order = SendTask { interface, cpu: self.bed.cpu, packet, file: &file };
                sender.command(&order).map_err(|reason| refused(sender.name, &reason))
            }
        }
    }

    fn rate(&self, percent: u64, job: &mut Job<'_>) -> Result<Sample> {
        let (Some(fastest), SendSubject::Ours(ours)) = (self.bed.fastest.get(), self.subject)
        else {
            return Err(Error::failed("rate", "the highest rate is not known"));
        };
        let rate = (fastest * percent as f64 / 100.0).max(1.0) as u64;
        let (own, interface) = (&self.bed.own, self.bed.interface());
        let mut command = ours.generate(own, interface, SIZE, 1, Some(rate));
        job.note(&command);
        let window = self.window * LONGER;
        let (counted, summary) = self.bed.count(&mut command, window, true, job.stop)?;
        let error = (counted.packets_per_s / rate as f64 - 1.0).abs();
        let figures = [("packets_per_s", counted.packets_per_s), ("error_rate_share", error)];
        // The deviation from the schedule that Wirelane's command reports.
        let own = summary.and_then(|summary| summary["rate_error"].as_f64());
        let own = own.map(|share| ("error_rate_own_share", share.abs()));
        Ok(figures.into_iter().chain(own).into())
    }

    fn timing(&self, packets: u64, job: &mut Job<'_>) -> Result<Sample> {
        let times = file::uneven(packets, GAP_US);
        let make = |path: &Path| replay(self.subject, self.bed, path);
        let arrivals = self.bed.replay("timing.pcap", &times, make, job)?;
        let found = errors(&arrivals, &times);
        let found = found.ok_or_else(|| Error::failed("timing", "too few packets"))?;
        Ok(timing_figures(&found).into())
    }
}

/// The command that sends a file once, with its own timing.
pub(super) fn replay(subject: SendSubject, bed: &SendBed, path: &Path) -> Result<Command> {
    match subject {
        SendSubject::Ours(ours) => Ok(ours.replay(&bed.own, bed.interface(), path, false)),
        SendSubject::Peer(sender) => {
            sender.replay(bed.interface(), path).map_err(|reason| refused(sender.name, &reason))
        }
    }
}

pub(super) fn timing_figures(found: &DepartureErrors) -> [SampleFigure; 6] {
    let [gap_p50, gap_p99, gap_max] = found.gaps;
    let [time_p50, time_p99, time_max] = found.times;
    [
        ("error_gap_p50_ns", gap_p50),
        ("error_gap_p99_ns", gap_p99),
        ("error_gap_max_ns", gap_max),
        ("error_time_p50_ns", time_p50),
        ("error_time_p99_ns", time_p99),
        ("error_time_max_ns", time_max),
    ]
    .map(SampleFigure::from)
}

fn refused(name: &str, reason: &str) -> Error {
    let reason = reason.strip_prefix(name).unwrap_or(reason);
    Error::failed(name, reason.trim_start_matches([':', ' ']).to_owned())
}
