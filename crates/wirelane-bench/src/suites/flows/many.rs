//! Ten thousand flows, and a million: what it costs that they are no longer in the caches of the
//! CPU.
//!
//! A file of a million packets is read again and again, so that flows have many packets, and their
//! begin and end, which cost several packets each, are the smaller part. Flows go nowhere.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicBool;

use wirelane::error::Result;

use super::process::{SUITE, received, run};
use super::traffic::{SMALL, Traffic};
use crate::report::Report;
use crate::row::{Param, Params, Row};
use crate::suites::turns::{self, ProcessPlan, Turn};
use wirelane_lab::leftovers::{self, Folder};

pub(super) const CASE: &str = "many";
/// How many flows there are.
const FLOWS: [u64; 2] = [10_000, 1_000_000];
/// Packets of a file.
const PACKETS: u64 = 1_000_000;

/// Measures, reading each file as often as `readings` say, and adds the rows to `report`;
/// `progress` and `stop` as everywhere.
pub(super) fn many(
    plan: &ProcessPlan<'_>,
    readings: [u64; 2],
    report: &mut Report,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(u32, &str),
) {
    let made = Folder::new(Path::new(leftovers::MEMORY)).and_then(|folder| {
        folder.make()?;
        for flows in FLOWS {
            let traffic = Traffic { packets: PACKETS, flows, sizes: &SMALL, has_tcp: false };
            traffic.write(&folder.file(&flows.to_string()))?;
        }
        Ok(folder)
    });
    let folder = match made {
        Ok(folder) => folder,
        Err(error) => return report.skip(SUITE, CASE, error.to_string()),
    };
    let case = |(flows, readings): (u64, u64)| {
        let file = folder.file(&flows.to_string());
        Many { file, own: plan.own, flows, readings, samples: Vec::new() }
    };
    let mut cases: Vec<_> = FLOWS.into_iter().zip(readings).map(case).collect();
    turns::take(SUITE, plan, &mut cases, report, stop, progress);
    report.rows.extend(cases.iter().filter(|case| !case.samples.is_empty()).map(Many::row));
}

/// A number of flows.
struct Many<'a> {
    file: PathBuf,
    own: &'a Path,
    flows: u64,
    readings: u64,
    /// CPU time of a packet, in ns.
    samples: Vec<f64>,
}

impl Many<'_> {
    fn row(&self) -> Row {
        Row {
            suite: SUITE,
            case: CASE,
            peer: None,
            params: Params(vec![
                ("size", Param::Number(64)),
                ("flows", Param::Number(self.flows)),
                ("readings", Param::Number(self.readings)),
            ]),
            metric: "cpu_ns_per_packet",
            unit: "ns",
            samples: self.samples.clone(),
            source: None,
        }
    }
}

impl Turn for Many<'_> {
    fn case(&self) -> &'static str {
        CASE
    }

    fn title(&self) -> String {
        format!("{} flows", self.flows)
    }

    fn measure(&mut self, _: u32, _: &AtomicBool, report: &mut Report) -> Result<()> {
        let mut command = Command::new(self.own);
        command.args(["flows", "--json"]);
        command.arg(format!("file:{}?loop={}", self.file.display(), self.readings));
        let packets = PACKETS * self.readings;
        let (cpu, output) = run(command, packets, report)?;
        received(&output.stdout, packets)?;
        self.samples.push(cpu);
        Ok(())
    }
}
