//! The suite `libpcap`: programs that speak libpcap, over Wirelane's library and over the system's.
//!
//! * `tcpdump`: CPU time of a packet, over either library ([`tcpdump`]).
//! * `handles`: two handles on two queues beside one, in a program of 67 lines ([`handles`]).
//! * `batch`: the examples of the C interface beside the same in Rust ([`batch`]).

pub mod batch;
mod compiler;
pub mod handles;
pub mod tcpdump;

use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use wirelane::error::Result;

use crate::report::Report;
use crate::suite::{Effort, Progress, Suite};
use crate::suites::turns::{self, ProcessPlan};

/// Measure programs over Wirelane's libpcap beside the system's: the CPU time of a packet in tcpdump, what two
/// handles on two queues bring, and what batches cost by the C interface.
///
/// The library is found as `wirelane exec` finds it. The case tcpdump needs root, handles a C compiler and
/// libpcap-dev, batch a C compiler and the examples of the source tree.
#[derive(Args, Clone, Debug)]
pub struct LibpcapSuite {
    /// Measure this case only; may be given several times [default: all]
    #[arg(long = "case", value_name = "CASE", value_enum)]
    cases: Vec<LibpcapCase>,
    #[command(flatten)]
    effort: Effort,
}

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LibpcapCase {
    /// Run tcpdump over either library: count, write to memory, print
    Tcpdump,
    /// Run the examples count and rxdrop in C and in Rust, on the simulated interface
    Batch,
    /// Read with one handle and with two, from the simulated interface
    Handles,
}

impl LibpcapSuite {
    fn usual_samples(&self) -> usize {
        self.effort.samples(if self.effort.quick { 3 } else { 5 })
    }
}

impl Suite for LibpcapSuite {
    const NAME: &'static str = "libpcap";
    const USUAL: [u64; 2] = [30, 110];

    fn for_report(effort: Effort, _: &Path) -> Self {
        Self { cases: Vec::new(), effort }
    }

    fn effort(&self) -> &Effort {
        &self.effort
    }

    fn samples(&self) -> usize {
        self.usual_samples()
    }

    fn run(
        &self,
        limit: Option<Duration>,
        report: &mut Report,
        stop: &AtomicBool,
        progress: Progress<'_>,
    ) -> Result<()> {
        let (own, begin) = (turns::own()?, Instant::now());
        let is_wanted = |case| self.cases.is_empty() || self.cases.contains(&case);
        let plan = ProcessPlan {
            own: &own,
            samples: self.usual_samples(),
            window: Duration::from_secs(if self.effort.quick || self.effort.brief { 1 } else { 3 }),
            limit,
            disk: None,
        };
        // The rounds of the first two are short.
        let share = limit.map(|limit| limit.mul_f64(0.25));
        let brief = ProcessPlan { limit: share, ..plan };
        if is_wanted(LibpcapCase::Handles) {
            handles::handles(&brief, report, stop, progress)?;
        }
        if is_wanted(LibpcapCase::Batch) {
            batch::batch(&brief, report, stop, progress)?;
        }
        if is_wanted(LibpcapCase::Tcpdump) {
            let limit = limit.map(|limit| limit.saturating_sub(begin.elapsed()));
            tcpdump::tcpdump(&ProcessPlan { limit, ..plan }, report, stop, progress)?;
        }
        Ok(())
    }
}
