//! The suite `record`: packets to disk and back, compared with the other programs that record.
//!
//! * `dd`: the write rate of the directory without the page cache, as the yardstick of every round.
//! * `sim`: Wirelane records from the simulated interface, which waits for the recorder and so
//!   shows the highest write rate.
//! * `veth`: the highest rate without loss from a cable, searched as in the suite `noloss`, of
//!   every program.
//! * `cost`: CPU time of a recorded byte, at a rate that all programs sustain.
//!
//! * `query`: the time of a query in a large store.
//! * `index`, `compress`: the cost of these parts without the others, on one thread.
//!
//! All programs write to the same directory, in turns. Except for stenotype, the other programs
//! write through the page cache. A trial is too short for the disk to slow them down, so they have
//! an advantage.

mod bed;
mod cost;
mod load;
mod parts;
mod query;
mod sim;
mod steno;
mod traffic;
mod veth;

use std::path::{Path, PathBuf};

use clap::Args;
use wirelane::error::{Error, Result};
use wirelane_cli::args;

use self::bed::{RecordBed, RecordCable};
use self::load::PacketLengths;
use crate::effort::Effort;
use crate::job::{Job, SamplingPlan};
use crate::peers::recorders::RECORDERS;
use crate::suite::Suite;
use crate::suites::parts::{self as shares, TimeShares};
use crate::wire::{WireOptions, Wired};

const CASES: [&str; 5] = ["parts", "sim", "query", "cost", "veth"];
/// Bytes of the store that is queried, in full and with `--quick`.
const STORE: [u64; 2] = [1_000_000_000, 64_000_000];

/// How many seconds [`CASES`] take within a report, with `--quick` and in full.
const PARTS: [[u64; 5]; 2] = [[4, 8, 10, 14, 0], [10, 41, 18, 155, 53]];
/// The shapes that a report has time to search for: each search takes half a minute per program.
const BRIEF: [PacketLengths; 1] = [PacketLengths::Imix];

/// Measure recording to a directory: the highest rate without loss, CPU time per byte, the cost of
/// the index, and how long a query takes; beside tcpdump, dumpcap, netsniff-ng and stenotype.
///
/// The simulated interface needs no privilege. As root, packets also pass between two temporary
/// network namespaces. What is written is removed at once. --port measures only what a port of
/// yours has a part in: the CPU time of a packet, and with --load the highest rate without loss.
#[derive(Args, Clone, Debug)]
pub struct RecordSuite {
    /// Directory on the disk to write to [default: /dev/shm, which is memory]
    #[arg(long, value_name = "DIR")]
    disk: Option<PathBuf>,
    /// Bytes of the store that is queried, such as 20G [default: 1G; with --quick 64M]
    #[arg(long, value_name = "SIZE", value_parser = args::size)]
    store: Option<u64>,
    /// Measure only this: parts, sim, cost, query, veth; may be given several times
    #[arg(long = "case", value_name = "CASE", value_parser = CASES)]
    cases: Vec<String>,
    #[command(flatten)]
    wire: WireOptions,
}

impl Suite for RecordSuite {
    const NAME: &'static str = "record";
    const USUAL: [u64; 2] = shares::sums(&PARTS);

    fn in_report(&mut self, effort: &Effort, folder: &Path) {
        // The size of a store that is written and queried in its share of the report's time.
        self.store = effort.brief.then_some(STORE[0] / 4);
        self.disk = Some(folder.to_owned());
    }

    fn plan(&self, effort: &Effort) -> SamplingPlan {
        SamplingPlan::of(effort, [2000, 500, 200])
    }

    fn run(&self, job: &mut Job<'_>) -> Result<()> {
        let own = job.own()?.to_owned();
        let wired = self.wire.open()?;
        if let Some(wired) = &wired {
            self.check(wired)?;
        }
        let bed = job.or_skip("all", RecordBed::new(&own, self.disk.as_deref()));
        let Some(bed) = &bed else { return Ok(()) };
        let has_all = !self.wire.is_named();
        let is_outside = wired.as_ref().is_some_and(|wired| wired.near.is_none());
        let wanted = CASES.map(|case| {
            let is_of_ports = case == "cost" || case == "veth" && !is_outside;
            (has_all || is_of_ports) && self.has(case)
        });
        let [parts, sim, query, cost, veth] = wanted;
        let quick = job.effort.quick;
        let mut shares = TimeShares::of(&PARTS[usize::from(!quick)], wanted, job.plan.limit);
        if parts {
            parts::parts(bed, &mut job.within(shares.limit(0)))?;
        }
        if sim {
            sim::sim(bed, &mut job.within(shares.limit(1)))?;
        }
        let cable = RecordCable::new(bed, wired);
        if query {
            let bytes = self.store.unwrap_or(STORE[usize::from(quick)]);
            let cable = cable.as_ref().ok().filter(|_| !quick);
            query::query(bed, cable, bytes, &mut job.within(shares.limit(2)));
        }
        let cable = match cable {
            Ok(cable) => cable,
            Err(error) => {
                ["veth", "cost"].iter().for_each(|case| job.skip(case, &error));
                return Ok(());
            }
        };
        let mut recorders = RECORDERS.to_vec();
        recorders.retain(|one| one.is_ours() || job.find(one.name).is_some());
        if cost {
            cost::cost(&cable, &recorders, &mut job.within(shares.limit(3)))?;
        }
        if veth && quick && self.cases.is_empty() {
            job.skip("veth", "a quick run has no time to search for every program");
        } else if veth {
            let shapes = if job.effort.brief { &BRIEF[..] } else { &PacketLengths::ALL };
            veth::veth(&cable, &recorders, shapes, &mut job.within(shares.limit(4)))?;
        }
        Ok(())
    }
}

impl RecordSuite {
    /// Whether the requested cases can be measured on the user's port.
    fn check(&self, wired: &Wired) -> Result<()> {
        if let Some(case) =
            self.cases.iter().find(|case| !["cost", "veth"].contains(&case.as_str()))
        {
            let error = Error::usage(format!("case '{case}'"), "it measures no port");
            return Err(error.help("leave --port out, or measure --case cost or --case veth"));
        }
        if !self.cases.is_empty() && self.has("veth") {
            wired.sender("case 'veth'")?;
        }
        Ok(())
    }

    /// Whether the user selects this case.
    fn has(&self, case: &str) -> bool {
        self.cases.is_empty() || self.cases.iter().any(|own| own == case)
    }
}
