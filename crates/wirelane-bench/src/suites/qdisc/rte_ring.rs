//! DPDK's ring as a peer: runs its own test, `ring_perf_autotest` of `dpdk-test`, and reads the
//! figures that it prints.

use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use wirelane_os::child;

use crate::peers::testpmd;

/// The program, and the Debian package that has it.
pub const PROGRAM: &str = "dpdk-test";
/// See [`PROGRAM`].
pub const PACKAGE: &str = "dpdk-dev";

const POLL: Duration = Duration::from_millis(20);

/// What one figure is of.
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
/// The reason in words: the program is missing (named with its package), ended otherwise than
/// expected, printed nothing that is understood, or took longer than `timeout` or until `stop`,
/// after which it is ended.
pub fn measure(timeout: Duration, stop: &AtomicBool) -> Result<Vec<(RingFigure, f64)>, String> {
    // Without huge pages, devices and a telemetry socket it needs no privilege and leaves nothing.
    let arguments =
        ["--no-huge", "--no-pci", "--no-telemetry", "--no-shconf", "-l", "0,1", "-m", "512"];
    let mut command = Command::new(PROGRAM);
    command.env(testpmd::RUNTIME.0, testpmd::RUNTIME.1);
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    child::end_with_thread(child::independent(&mut command));
    let mut child = command.spawn().map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => {
            format!("{PROGRAM} is not installed (Debian package {PACKAGE})")
        }
        _ => format!("cannot run {PROGRAM}: {error}"),
    })?;
    let text = talk(&mut child, timeout, stop);
    // It has ended or is of no more use.
    let _ = child::end(&mut child, Duration::from_secs(1));
    let figures = parse(&text?);
    if figures.is_empty() {
        return Err(format!("{PROGRAM} printed no figures; it needs CPUs 0 and 1"));
    }
    Ok(figures)
}

/// Asks for the test and reads until the program ends.
fn talk(child: &mut Child, timeout: Duration, stop: &AtomicBool) -> Result<String, String> {
    if let Some(mut input) = child.stdin.take() {
        // A program that has ended already says so by what it printed.
        let _ = input.write_all(b"ring_perf_autotest\nquit\n");
    }
    let mut output = child.stdout.take().ok_or("no output")?;
    let (tx, rx) = mpsc::channel();
    thread::spawn(move || {
        let mut text = Vec::new();
        let result = output.read_to_end(&mut text).map(|_| text);
        // The other side may have lost its patience.
        let _ = tx.send(result);
    });
    let deadline = Instant::now() + timeout;
    loop {
        match rx.recv_timeout(POLL) {
            Ok(Ok(text)) => return Ok(String::from_utf8_lossy(&text).into_owned()),
            Ok(Err(error)) => return Err(format!("cannot read what {PROGRAM} prints: {error}")),
            Err(RecvTimeoutError::Disconnected) => {
                return Err(format!("cannot read what {PROGRAM} prints"));
            }
            Err(RecvTimeoutError::Timeout) if stop.load(Ordering::Relaxed) => {
                return Err("the run was ended".to_owned());
            }
            Err(RecvTimeoutError::Timeout) if Instant::now() < deadline => {}
            Err(RecvTimeoutError::Timeout) => {
                return Err(format!("{PROGRAM} took longer than {} s", timeout.as_secs()));
            }
        }
    }
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
