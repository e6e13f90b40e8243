//! The suite `capture`: the 2011 multiqueue BPF paper's six conditions, and Wirelane's command as a
//! process, compared with other programs.

mod compress;
mod conditions;
pub mod cost;
mod print;
mod several;
mod short;
mod timed;
pub mod write;

use std::path::{Path, PathBuf};

use clap::Args;
use wirelane::error::Result;
use wirelane::port::Spec;

use self::conditions::{CapturePorts, conditions};
use crate::effort::Effort;
use crate::job::{Job, SamplingPlan};
use crate::suite::Suite;
use crate::suites::parts::{self, TimeShares};
use crate::wire;

/// How many seconds the parts take within a report, with `--quick` and in full: the conditions,
/// `short`, `cpu`, `several`, `print`, `compress`, `write`.
const PARTS: [[u64; 7]; 2] = [[36, 2, 26, 8, 6, 6, 6], [90, 5, 80, 35, 15, 20, 16]];

/// Measure capturing in the six conditions of "Multiqueue support for bpf" (2011): reading, writing
/// to memory and to disk, with copying and without, with one thread and with one per queue.
///
/// The simulated interface needs no privilege. As root, packets also pass between two temporary
/// network namespaces. Cycles per packet are split into processing, system calls, both, and the
/// time until the memory of a batch was returned.
#[derive(Args, Clone, Debug)]
pub struct CaptureSuite {
    /// Directory on the disk to write to [default: none; skips writing to disk]
    #[arg(long, value_name = "DIR")]
    disk: Option<PathBuf>,
    /// Capture from this port instead, what others send to it; may be given several times
    #[arg(long = "port", value_name = "PORT")]
    ports: Vec<String>,
    /// Who sends to --port: an interface of yours at the other end of its cable, or `outside`
    /// [default: outside]
    #[arg(long, value_name = "IF", requires = "ports")]
    load: Option<String>,
    /// Let an xdp: port named with --port take all packets away from the host
    #[arg(long, requires = "ports")]
    all: bool,
}

impl Suite for CaptureSuite {
    const NAME: &'static str = "capture";
    const USUAL: [u64; 2] = parts::sums(&PARTS);

    fn in_report(&mut self, _: &Effort, folder: &Path) {
        // The report's folder is where the user wants large files to be.
        self.disk = Some(folder.to_owned());
    }

    /// A sample of a condition is shorter in a report: there are 48.
    fn plan(&self, effort: &Effort) -> SamplingPlan {
        SamplingPlan::of(effort, [1000, 150, 100])
    }

    fn run(&self, job: &mut Job<'_>) -> Result<()> {
        job.own()?;
        let named: Vec<Spec> = self.ports.iter().map(|port| port.parse()).collect::<Result<_>>()?;
        let load = wire::load(self.load.as_deref())?;
        let is_lab = named.is_empty();
        let ports = CapturePorts { disk: self.disk.clone(), named, load, take_all: self.all };
        if !is_lab {
            return conditions(&ports, job);
        }
        let SamplingPlan { window, limit, .. } = job.plan;
        let mut parts = TimeShares::new(&PARTS[usize::from(!job.effort.quick)], limit);
        conditions(&ports, &mut job.within(parts.limit(0)))?;
        // Then Wirelane's command as a process, compared with other programs. A short run has no
        // time for the disk.
        let disk = self.disk.as_deref().filter(|_| limit.is_none());
        let plan = SamplingPlan { window: 3 * window, ..job.plan };
        let mut of = |part, work: &dyn Fn(&mut Job<'_>) -> Result<()>| {
            work(&mut job.with(SamplingPlan { limit: parts.limit(part), ..plan }))
        };
        of(1, &short::short)?;
        of(2, &cost::cost)?;
        of(3, &several::several)?;
        of(4, &print::print)?;
        of(5, &compress::compress)?;
        of(6, &|job| write::write(job, disk))
    }
}
