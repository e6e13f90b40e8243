//! Other programs as receivers: every step of a search starts one, and ends it to read its counts.

use std::path::Path as FilePath;
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::Duration;

use hdrhistogram::Histogram;

use super::path::{Nature, TRIALS};
use crate::job::go_on;
use crate::peers::capture::{self, PROGRAMS, ReportedCounts};
use crate::peers::process::{ProgramOutput, RunningProgram, SETTLE};
use crate::peers::{find, missing, testpmd};
use crate::suites::noloss::path::{Bound, NolossLoad, NolossTrial, Path};
use crate::task::Task;
use wirelane::error::{Error, Result};
use wirelane::port::Backend;
use wirelane_lab::Site;
use wirelane_send::ndr::Shot;

/// How long a program may take to get ready, and to end.
const LIMIT: Duration = Duration::from_secs(20);
/// The pause between two trials: a program that keeps up has received all packets by its end. Only
/// the last trial waits for the ring to drain.
const PAUSE: Duration = Duration::from_millis(100);
/// A time longer than its ring keeps a packet.
const DRAIN_XDP: Duration = Duration::from_millis(100);

/// A program that receives.
#[derive(Clone, Copy, Debug)]
pub(super) struct Other {
    pub(super) name: &'static str,
    /// The backend of Wirelane that receives in the same way, and its mode.
    backend: &'static str,
    mode: &'static str,
}

/// All of them.
pub(super) const OTHERS: [Other; 4] = [
    Other { name: testpmd::PROGRAM, backend: "xdp", mode: "native" },
    Other { name: "tcpdump", backend: "packet", mode: "tpacket-v3" },
    Other { name: "dumpcap", backend: "packet", mode: "tpacket-v3" },
    Other { name: "netsniff-ng", backend: "packet", mode: "tpacket-v3" },
];

impl Other {
    /// Why it is left out, possibly because of the backend of the user's port.
    pub(super) fn reason_to_leave_out(
        &self,
        has_time: bool,
        named: Option<Backend>,
    ) -> Option<String> {
        if named.is_some_and(|kind| kind.as_str() != self.backend || kind == Backend::Xdp) {
            return Some("it does not receive as the port does that was named".to_owned());
        }
        let too_short = || "a quick run has no time for other programs".to_owned();
        let is_missing = find(self.name).is_none();
        is_missing.then(|| missing(self.name)).or_else(|| (!has_time).then(too_short))
    }

    /// Receives packets of `size` bytes from `interface` and drops them, on this CPU.
    fn command(&self, interface: &str, size: usize, cpu: u32) -> Result<Command> {
        match self.program() {
            // The path of Wirelane's command is not needed.
            Some(program) => program.command(FilePath::new(""), interface, None),
            None => testpmd::command(Task::Rxdrop, interface, size, cpu)
                .ok_or_else(|| Error::failed(self.name, "is missing")),
        }
    }

    /// Whether it receives at `far`, as far as it can be observed.
    fn is_ready(&self, running: &RunningProgram, far: &Site) -> bool {
        let said = |mark| running.stdout().contains(mark) || running.stderr().contains(mark);
        let program = self.program();
        program.map_or_else(|| testpmd::is_receiving(running.id(), far), |own| said(own.ready))
    }

    /// How long its ring may keep packets.
    fn drain(&self) -> Duration {
        self.program().map_or(DRAIN_XDP, |program| program.drain)
    }

    /// The capturing program, if it is one.
    fn program(&self) -> Option<&'static capture::CaptureProgram> {
        PROGRAMS.iter().find(|program| program.name == self.name)
    }

    /// The numbers of received and dropped packets that it reports.
    fn counts(&self, output: &ProgramOutput) -> Option<ReportedCounts> {
        let Some(program) = self.program() else {
            let count = |name| testpmd::accumulated(&output.stdout, name);
            let (captured, dropped) = (count("RX-packets:")?, count("RX-dropped:")?);
            return Some(ReportedCounts { captured, dropped });
        };
        program.counts(&output.stdout, &output.stderr)
    }
}

/// A program at the other end of the cable.
pub(super) struct ReceiveProgram<'a> {
    pub(super) other: Other,
    pub(super) size: usize,
    pub(super) load: NolossLoad<'a>,
    pub(super) far: &'a Site,
    /// The CPU that receives, the same as for Wirelane's port.
    pub(super) cpu: u32,
    pub(super) stop: &'a AtomicBool,
}

impl ReceiveProgram<'_> {
    pub(super) fn command(&self) -> Result<Command> {
        self.other.command(self.far.interface(), self.size, self.cpu)
    }

    /// Starts it, sends `trials` times, and ends it.
    fn run(&self, rate: Option<f64>, window: Duration, trials: usize) -> Result<NolossTrial> {
        let mut running = RunningProgram::start(&mut self.command()?, &[self.cpu], Some(self.far))?;
        let is_ready = |running: &RunningProgram| self.other.is_ready(running, self.far);
        running.wait_until(is_ready, LIMIT, self.stop)?;
        thread::sleep(SETTLE);
        let (mut sent, mut elapsed) = (0, Duration::ZERO);
        for _ in 0..trials {
            go_on(self.stop)?;
            let of_trial = self.load.send(rate, window)?;
            (sent, elapsed) = (sent + of_trial.frames, elapsed + of_trial.elapsed);
            thread::sleep(PAUSE);
        }
        thread::sleep(self.other.drain().saturating_sub(PAUSE));
        let output = running.interrupt(LIMIT)?;
        let unclear = || Error::failed(self.other.name, "does not tell how many packets it had");
        let counts = self.other.counts(&output).ok_or_else(unclear)?;
        let received = counts.captured.min(sent.saturating_sub(counts.dropped));
        Ok(NolossTrial { sent, received, elapsed })
    }
}

impl Path for ReceiveProgram<'_> {
    fn bound(&mut self, window: Duration) -> Result<Bound> {
        Ok(self.run(None, window, 1)?.bound(window))
    }

    /// Losses are known only at the end of the program, so all trials are made.
    fn trials(&mut self, rate: f64, window: Duration, _: &AtomicBool) -> Result<Shot> {
        Ok(self.run(Some(rate), window, TRIALS)?.shot(window))
    }

    fn finish(self: Box<Self>) -> Result<(Nature, Vec<Histogram<u64>>)> {
        Ok(((self.other.backend, self.other.mode.to_owned(), 1), Vec::new()))
    }
}
