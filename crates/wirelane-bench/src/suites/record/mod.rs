//! The suite `record`: packets to disk and back, beside the other programs that record.
//!
//! * `dd`: what the directory takes, past the page cache. The yardstick of every round.
//! * `sim`: ours from the simulated interface, which waits for the recorder and so shows what it
//!   can write.
//! * `veth`: the highest rate without loss from a cable, searched as in the suite `noloss`, of
//!   every program.
//! * `cost`: CPU time of a recorded byte, at a rate that all of them take.
//!
//! * `query`: how long a query of a large store takes.
//! * `index`, `compress`: what these parts cost alone, on one thread.
//!
//! All write to the same directory, in turns. Other programs write through the page cache (but
//! stenotype): a trial is too short for the disk to hold them up. That is to their advantage.

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
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use clap::Args;
use wirelane::error::{Error, Result};

use self::bed::{Bed, Cable, SUITE};
use self::load::Shape;
use crate::peers::recorders::RECORDERS;
use crate::report::Report;
use crate::suite::{Effort, Progress, Suite};
use crate::suites::parts::{self as shares, Parts};
use crate::suites::turns::{self, ProcessPlan};
use crate::wire::{Wire, Wired};
use wirelane_cli::args;

const CASES: [&str; 5] = ["parts", "sim", "query", "cost", "veth"];
/// Bytes of the store that is queried, in full and with `--quick`.
const STORE: [u64; 2] = [1_000_000_000, 64_000_000];

/// How many seconds [`CASES`] take within a report, with `--quick` and in full.
const PARTS: [[u64; 5]; 2] = [[4, 8, 10, 14, 0], [10, 41, 18, 155, 53]];
/// What a report has time to search for: each search takes a program half a minute.
const BRIEF: [Shape; 1] = [Shape::Imix];

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
    wire: Wire,
    #[command(flatten)]
    effort: Effort,
}

impl Suite for RecordSuite {
    const NAME: &'static str = SUITE;
    const USUAL: [u64; 2] = shares::sums(&PARTS);

    fn for_report(effort: Effort, folder: &Path) -> Self {
        // A store that is written and queried in a part of the report's time.
        let store = effort.brief.then_some(STORE[0] / 4);
        let (disk, cases, wire) = (Some(folder.to_owned()), Vec::new(), Wire::default());
        Self { disk, store, cases, wire, effort }
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
        let disk = self.disk.as_deref();
        let wired = self.wire.open()?;
        if let Some(wired) = &wired {
            self.check(wired)?;
        }
        let bed = match Bed::new(&own, disk) {
            Ok(bed) => bed,
            Err(error) => {
                report.skip(SUITE, "all", error.to_string());
                return Ok(());
            }
        };
        let window = match self.effort.quick {
            true => Duration::from_millis(200),
            false => self.effort.window(Duration::from_secs(2)),
        };
        let is_quick = self.effort.quick;
        let has_all = !self.wire.is_named();
        let is_outside = wired.as_ref().is_some_and(|wired| wired.near.is_none());
        let usual = |(case, seconds): (&str, u64)| {
            let is_left_out = !has_all && !["cost", "veth"].contains(&case)
                || case == "veth" && is_outside
                || !self.has(case);
            if is_left_out { 0 } else { seconds }
        };
        let usual = CASES.into_iter().zip(PARTS[usize::from(!is_quick)]).map(usual);
        let mut parts = Parts::new(&usual.collect::<Vec<_>>(), limit);
        let mut plan = |part| ProcessPlan {
            own: &own,
            samples: self.samples(),
            window,
            limit: parts.limit(part),
            disk,
        };
        if has_all && self.has("parts") {
            parts::parts(&bed, &plan(0), report, stop, progress);
        }
        if has_all && self.has("sim") {
            sim::sim(&bed, &plan(1), is_quick, report, stop, progress);
        }
        let cable = match wired {
            Some(wired) => Ok(Cable::wired(&bed, wired)),
            None => Cable::new(&bed),
        };
        if has_all && self.has("query") {
            let bytes = self.store.unwrap_or(STORE[usize::from(is_quick)]);
            let cable = cable.as_ref().ok().filter(|_| !is_quick);
            query::query(&bed, cable, bytes, &plan(2), report, stop, progress);
        }
        let cable = match cable {
            Ok(cable) => cable,
            Err(error) => {
                for case in ["veth", "cost"] {
                    report.skip(SUITE, case, error.to_string());
                }
                return Ok(());
            }
        };
        let is_there = |report: &mut Report, name| {
            let is_there = RECORDERS.iter().any(|one| one.name == name && one.is_installed());
            if !is_there {
                report.skip(SUITE, name, crate::peers::missing(name));
            }
            is_there
        };
        let mut recorders = RECORDERS.to_vec();
        recorders.retain(|one| is_there(report, one.name));
        if self.has("cost") {
            let is_brief = is_quick || self.effort.brief;
            cost::cost(&cable, &recorders, &plan(3), is_brief, report, stop, progress);
        }
        if is_outside {
            return Ok(());
        }
        if self.has("veth") && is_quick && self.cases.is_empty() {
            let reason = "a quick run has no time to search for every program";
            report.skip(SUITE, "veth", reason.to_owned());
        } else if self.has("veth") {
            let shapes = if self.effort.brief { &BRIEF[..] } else { &Shape::ALL };
            veth::veth(&cable, &recorders, shapes, &plan(4), report, stop, progress);
        }
        Ok(())
    }
}

impl RecordSuite {
    /// Whether what was asked for can be measured on a port of the user's.
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

    /// Whether this case is asked for.
    fn has(&self, case: &str) -> bool {
        self.cases.is_empty() || self.cases.iter().any(|own| own == case)
    }
}
