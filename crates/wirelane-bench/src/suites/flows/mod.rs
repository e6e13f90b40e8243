//! The suite `flows`: what it takes to make flows of packets.
//!
//! ```text
//!   capture in memory ─▶ wirelane flows, nfpcapd, softflowd, argus ─▶ files      one CPU, in turns
//!                         wirelane flows, flowprep ─▶ Parquet                      one CPU, in turns
//!   a million flows   ─▶ wirelane flows ◀─ ten thousand                          one CPU, in turns
//!   veth              ─▶ wirelane flows, wirelane capture                        highest rate without loss
//! ```

mod file;
mod live;
mod many;
mod process;
pub(crate) mod readings;
mod traffic;

use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use clap::{Args, ValueEnum};
use wirelane::error::{Error, Result};

use self::process::SUITE;
use crate::report::Report;
use crate::suite::{Effort, Progress, Suite};
use crate::suites::parts::{self, Parts};
use crate::suites::turns::{self, ProcessPlan};
use crate::wire::Wire;

/// How many seconds the cases take within a report, with `--quick` and in full: `file` and
/// `parquet`, `many`, `live`.
const PARTS: [[u64; 3]; 2] = [[12, 11, 9], [22, 70, 38]];

/// Measure what flows cost: of a file beside nfpcapd, softflowd, argus and flowprep, of a million
/// flows, and live.
///
/// All programs read the same capture from memory, each on one CPU. The live case needs root: it
/// searches for the highest rate that `wirelane flows` takes without loss, and `wirelane capture`
/// without a file. --port measures only that, on a port of yours: with --load, the highest rate;
/// under what others send, the CPU time of a packet.
#[derive(Args, Clone, Debug)]
pub struct FlowsSuite {
    /// Measure this case only; may be given several times [default: all]
    #[arg(long = "case", value_name = "CASE", value_enum)]
    cases: Vec<FlowsCase>,
    /// Packets of the capture that other programs read, too [default: 2000000; with --quick 500000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    packets: Option<u64>,
    #[command(flatten)]
    wire: Wire,
    #[command(flatten)]
    effort: Effort,
}

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FlowsCase {
    /// Read a capture, beside other programs
    File,
    /// Read a capture into files of Parquet, beside flowprep
    Parquet,
    /// Meter ten thousand flows, and a million
    Many,
    /// Search for the highest rate without loss, beside a capture without a file
    Live,
}

impl Suite for FlowsSuite {
    const NAME: &'static str = SUITE;
    const USUAL: [u64; 2] = parts::sums(&PARTS);

    fn for_report(effort: Effort, _: &Path) -> Self {
        Self { cases: Vec::new(), packets: None, wire: Wire::default(), effort }
    }

    fn effort(&self) -> &Effort {
        &self.effort
    }

    fn run(
        &self,
        limit: Option<Duration>,
        report: &mut Report,
        stop: &AtomicBool,
        progress: Progress<'_>,
    ) -> Result<()> {
        let own = turns::own()?;
        let is_quick = self.effort.quick;
        let wired = self.wire.open()?;
        let offline = self.cases.iter().find(|case| **case != FlowsCase::Live);
        if let Some(case) = offline.filter(|_| wired.is_some()) {
            let case = case.to_possible_value().map(|value| format!("case '{}'", value.get_name()));
            let error = Error::usage(case.unwrap_or_default(), "it reads a file, and no port");
            return Err(error.help("leave --port out, or measure --case live"));
        }
        let is_wanted = |case| match self.cases.is_empty() {
            true => wired.is_none() || case == FlowsCase::Live,
            false => self.cases.contains(&case),
        };
        let is_brief = is_quick || self.effort.brief;
        let usual =
            [&[FlowsCase::File, FlowsCase::Parquet][..], &[FlowsCase::Many], &[FlowsCase::Live]]
                .into_iter()
                .zip(PARTS[usize::from(!is_quick)])
                .map(
                    |(cases, seconds)| {
                        if cases.iter().any(|case| is_wanted(*case)) { seconds } else { 0 }
                    },
                );
        let mut parts = Parts::new(&usual.collect::<Vec<_>>(), limit);
        let mut plan = |part| {
            let window = Duration::from_secs(1);
            let (samples, limit) = (self.samples(), parts.limit(part));
            ProcessPlan { own: &own, samples, window, limit, disk: None }
        };
        let contests = [(FlowsCase::File, &file::FILE), (FlowsCase::Parquet, &file::PARQUET)];
        let contests = contests.into_iter().filter(|(case, _)| is_wanted(*case));
        let contests: Vec<_> = contests.map(|(_, contest)| contest).collect();
        if !contests.is_empty() {
            let packets = self.packets.unwrap_or(file::PACKETS[usize::from(is_brief)]);
            file::file(&contests, &plan(0), packets, report, stop, progress);
        }
        if is_wanted(FlowsCase::Many) {
            let readings = match (is_quick, self.effort.brief) {
                (true, _) => readings::QUICK,
                (false, true) => readings::IN_REPORT,
                (false, false) => readings::ALONE,
            };
            many::many(&plan(1), readings, report, stop, progress);
        }
        if is_wanted(FlowsCase::Live) {
            live::live(&plan(2), is_brief, wired, report, stop, progress)?;
        }
        Ok(())
    }
}
