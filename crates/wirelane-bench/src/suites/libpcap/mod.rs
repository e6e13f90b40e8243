//! The suite `libpcap`: libpcap programs over Wirelane's library and over the system's.
//!
//! * `tcpdump`: CPU time of a packet, over either library.
//! * `handles`: two handles on two queues compared with one, in a short C program.
//! * `batch`: the examples of the C interface compared with the same in Rust.

mod batch;
mod compiler;
mod handles;
mod tcpdump;

use clap::{Args, ValueEnum};
use wirelane::error::{Error, Result};
use wirelane::port::Backend;

use crate::effort::Effort;
use crate::job::{Job, SamplingPlan};
use crate::suite::{Suite, object_of};
use crate::suites::parts::{self, TimeShares};
use crate::wire::{WireOptions, Wired};

/// How many seconds the cases take within a report, with `--quick` and in full: `handles`, `batch`,
/// `tcpdump`.
const PARTS: [[u64; 3]; 2] = [[4, 8, 18], [5, 18, 80]];

/// Measure programs over Wirelane's libpcap beside the system's: the CPU time of a packet in
/// tcpdump, what two handles on two queues bring, and what batches cost by the C interface.
///
/// The library is found as `wirelane exec` finds it. The case tcpdump needs root, handles a C
/// compiler and libpcap-dev, batch a C compiler and the examples of the source tree. --port
/// measures tcpdump only, on an interface of yours.
#[derive(Args, Clone, Debug)]
pub struct LibpcapSuite {
    /// Measure this case only; may be given several times [default: all]
    #[arg(long = "case", value_name = "CASE", value_enum)]
    cases: Vec<LibpcapCase>,
    #[command(flatten)]
    wire: WireOptions,
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

impl Suite for LibpcapSuite {
    const NAME: &'static str = "libpcap";
    const USUAL: [u64; 2] = parts::sums(&PARTS);

    fn plan(&self, effort: &Effort) -> SamplingPlan {
        SamplingPlan::of(effort, [3000, 1000, 1000])
    }

    fn run(&self, job: &mut Job<'_>) -> Result<()> {
        job.own()?;
        let wired = self.wire.open()?;
        if let Some(wired) = &wired {
            self.check(wired)?;
        }
        let is_wanted = |case| match self.cases.is_empty() {
            true => wired.is_none() || case == LibpcapCase::Tcpdump,
            false => self.cases.contains(&case),
        };
        let wanted = [LibpcapCase::Handles, LibpcapCase::Batch, LibpcapCase::Tcpdump];
        let wanted = wanted.map(is_wanted);
        let usual = &PARTS[usize::from(!job.effort.quick)];
        let mut parts = TimeShares::of(usual, wanted, job.plan.limit);
        if wanted[0] {
            handles::handles(&mut job.within(parts.limit(0)))?;
        }
        if wanted[1] {
            batch::batch(&mut job.within(parts.limit(1)))?;
        }
        if wanted[2] {
            tcpdump::tcpdump(wired, &mut job.within(parts.limit(2)))?;
        }
        Ok(())
    }
}

impl LibpcapSuite {
    /// Whether the requested cases can be measured on the user's port.
    fn check(&self, wired: &Wired) -> Result<()> {
        if let Some(case) = self.cases.iter().find(|case| **case != LibpcapCase::Tcpdump) {
            let error = Error::usage(object_of(case), "its packets are made by sim:");
            return Err(error.help("leave --port out, or measure --case tcpdump"));
        }
        if wired.spec.backend == Some(Backend::Xdp) {
            let cause = "the system's libpcap, which is measured beside ours, has no AF_XDP";
            let error = Error::usage(format!("port '{}'", wired.spec), cause);
            return Err(error.help("name the interface: --port packet:IF"));
        }
        Ok(())
    }
}
