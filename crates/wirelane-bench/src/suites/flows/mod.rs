//! The suite `flows`: the cost of making flow records from packets.
//!
//! ```text
//!   capture in memory ─▶ wirelane flows, nfpcapd, softflowd, argus ─▶ files   one CPU, in turns
//!                        wirelane flows, flowprep ─▶ Parquet                  one CPU, in turns
//!   a million flows   ─▶ wirelane flows ◀─ ten thousand                       one CPU, in turns
//!   veth              ─▶ wirelane flows, wirelane capture             highest rate without loss
//! ```

mod file;
mod live;
mod many;
mod process;
pub(crate) mod readings;
mod traffic;

use clap::{Args, ValueEnum};
use wirelane::error::{Error, Result};

use crate::effort::Effort;
use crate::job::{Job, SamplingPlan};
use crate::suite::{Suite, object_of};
use crate::suites::parts::{self, TimeShares};
use crate::wire::WireOptions;

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
    wire: WireOptions,
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
    const NAME: &'static str = "flows";
    const USUAL: [u64; 2] = parts::sums(&PARTS);

    fn plan(&self, effort: &Effort) -> SamplingPlan {
        SamplingPlan::of(effort, [1000; 3])
    }

    fn run(&self, job: &mut Job<'_>) -> Result<()> {
        job.own()?;
        let wired = self.wire.open()?;
        let offline = self.cases.iter().find(|case| **case != FlowsCase::Live);
        if let Some(case) = offline.filter(|_| wired.is_some()) {
            let error = Error::usage(object_of(case), "it reads a file, so it takes no port");
            return Err(error.help("leave --port out, or measure --case live"));
        }
        let is_wanted = |case| match self.cases.is_empty() {
            true => wired.is_none() || case == FlowsCase::Live,
            false => self.cases.contains(&case),
        };
        let (quick, is_short) = (job.effort.quick, job.effort.is_short());
        let contests = [(FlowsCase::File, &file::FILE), (FlowsCase::Parquet, &file::PARQUET)];
        let contests = contests.into_iter().filter(|(case, _)| is_wanted(*case));
        let contests: Vec<_> = contests.map(|(_, contest)| contest).collect();
        let [many, live] = [FlowsCase::Many, FlowsCase::Live].map(is_wanted);
        let wanted = [!contests.is_empty(), many, live];
        let mut parts = TimeShares::of(&PARTS[usize::from(!quick)], wanted, job.plan.limit);
        if !contests.is_empty() {
            let packets = self.packets.unwrap_or(file::PACKETS[usize::from(is_short)]);
            file::file(&contests, packets, &mut job.within(parts.limit(0)))?;
        }
        if many {
            let readings =
                job.effort.choose([readings::ALONE, readings::IN_REPORT, readings::QUICK]);
            many::many(readings, &mut job.within(parts.limit(1)))?;
        }
        if live {
            live::live(wired, &mut job.within(parts.limit(2)))?;
        }
        Ok(())
    }
}
