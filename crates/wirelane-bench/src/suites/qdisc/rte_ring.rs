//! DPDK's ring as a peer: runs its own test, `ring_perf_autotest` of `dpdk-test`, and reads the
//! figures that it prints.

use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use wirelane_os::affinity;

use crate::peers::process::RunningProgram;
use crate::peers::{find, missing, testpmd};

/// The program.
pub const PROGRAM: &str = "dpdk-test";

/// The kind of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RingFigure {
    /// One core, one element in and out: cycles per pair.
    Pair {
        /// MP/MC, or else SP/SC.
        multi: bool,
    },
    /// One producer and one consumer on two cores: cycles per element.
    TwoCores {
        /// MP/MC, or else SP/SC.
        multi: bool,
        /// Elements of one call.
        bulk: usize,
    },
}

/// Runs the test once on CPUs 0 and 1; it takes a few seconds, unless `stop` is set.
///
/// # Errors
/// The reason in words: the program is missing (with its package), failed, printed no figures that
/// are understood, or took longer than `timeout` or until `stop`. In the last two cases it is
/// terminated.
pub fn measure(timeout: Duration, stop: &AtomicBool) -> Result<Vec<(RingFigure, f64)>, String> {
    // Without huge pages, devices and a telemetry socket it needs no privilege and leaves no files.
    let arguments =
        ["--no-huge", "--no-pci", "--no-telemetry", "--no-shconf", "-l", "0,1", "-m", "512"];
    let mut command = Command::new(find(PROGRAM).ok_or_else(|| missing(PROGRAM))?);
    command.env(testpmd::RUNTIME.0, testpmd::RUNTIME.1).args(arguments);
    let cpus = affinity::allowed_cpus().unwrap_or_default();
    let mut run = || {
        let input = "ring_perf_autotest\nquit\n";
        let mut running = RunningProgram::start_with(&mut command, input, &cpus, None)?;
        running.wait_until_ended(timeout, stop)?;
        Ok(running.stdout())
    };
    let text = run().map_err(|error: wirelane::Error| error.to_string())?;
    let figures = parse(&text);
    if figures.is_empty() {
        return Err(format!("{PROGRAM} printed no figures; it needs CPUs 0 and 1"));
    }
    Ok(figures)
}

/// The figures of the ring of pointers ("legacy APIs"), in the format of DPDK 20.05 and later:
/// headings `### Testing … ###` and lines `legacy APIs: SP/SC: bulk (size: 32): 3.95`.
fn parse(text: &str) -> Vec<(RingFigure, f64)> {
    let mut figures = Vec::new();
    let mut heading = "";
    for line in text.lines() {
        if let Some(title) = line.strip_prefix("### ") {
            heading = title;
            continue;
        }
        let Some(line) = line.strip_prefix("legacy APIs: ") else { continue };
        let Some((what, value)) = line.rsplit_once(": ") else { continue };
        let Ok(value) = value.trim().parse::<f64>() else { continue };
        let Some((sides, kind)) = what.split_once(": ") else { continue };
        let multi = match sides {
            "SP/SC" => false,
            "MP/MC" => true,
            _ => continue,
        };
        let figure = if heading.starts_with("Testing single element") && kind == "single" {
            RingFigure::Pair { multi }
        } else if heading.starts_with("Testing using two physical cores") {
            let size = kind.strip_prefix("bulk (size: ").and_then(|rest| rest.strip_suffix(')'));
            let Some(bulk) = size.and_then(|size| size.parse().ok()) else { continue };
            RingFigure::TwoCores { multi, bulk }
        } else {
            continue;
        };
        figures.push((figure, value));
    }
    figures
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_of_the_right_sections_only() {
        let text = "\
RTE>>ring_perf_autotest\r

### Testing single element enq/deq ###
legacy APIs: SP/SC: single: 21.42
legacy APIs: MP/MC: single: 71.20

### Testing bulk enq/deq ###
legacy APIs: SP/SC: bulk (size: 32): 88.11

### Testing using two physical cores ###
legacy APIs: SP/SC: bulk (size: 8): 7.70
legacy APIs: MP/MC: bulk (size: 32): 9.80
legacy APIs: MP/MC: bulk (size: x): 9.80
legacy APIs: HTS: bulk (size: 32): 9.80

### Testing using two physical cores ###
elem APIs: element size 16B: SP/SC: bulk (size: 8): 386.68
Test OK
";
        let expected = [
            (RingFigure::Pair { multi: false }, 21.42),
            (RingFigure::Pair { multi: true }, 71.2),
            (RingFigure::TwoCores { multi: false, bulk: 8 }, 7.7),
            (RingFigure::TwoCores { multi: true, bulk: 32 }, 9.8),
        ];
        assert_eq!(parse(text), expected);
        assert_eq!(parse("EAL: Error - exiting\n"), []);
    }
}
