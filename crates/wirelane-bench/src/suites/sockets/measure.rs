//! One measurement: open a port, put it under load, count for a while, and account for every
//! packet.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use wirelane::error::{Error, Result};
use wirelane::port::Spec;
use wirelane_lab::Site;
use wirelane_os::bpf::XdpMode;
use wirelane_send::kernel::LiveSent;

use super::loops::{LoopCounts, LoopPhase, SIZES};
use super::peer;
use super::sample::{LossShares, Nature, PortSample, ThreadCost};
use super::subject::{Over, SocketsSubject};
use super::trial::{Party, PortCounts, SocketsTrial, frames, sender_ns, sending_rate};
use crate::job::Job;
use crate::suites::programs::{Drops, ReflectProgram};
use crate::suites::senders::RunningSenders;
use crate::task::Task;
use crate::wire::InterfaceCounter;

/// A time longer than any ring delays a packet (50 ms, see `packet:`).
const QUIET: Duration = Duration::from_millis(120);
/// The longest wait for packets in flight.
const PATIENCE: Duration = Duration::from_secs(3);

impl SocketsTrial<'_> {
    /// Measures once.
    ///
    /// # Errors
    /// A port cannot be opened, or failed.
    pub(super) fn run(&self, job: &mut Job<'_>) -> Result<(Nature, PortSample)> {
        match (self.subject, self.site) {
            (SocketsSubject::Port(spec, kind), _) => self.run_port(spec, *kind),
            (SocketsSubject::XdpDrop(mode), Some(site)) => self.run_drop(*mode, site),
            (SocketsSubject::XdpRedirect(mode), Some(site)) => self.run_redirect(*mode, site),
            (SocketsSubject::Peer(kind, Over::Xdp), _) => peer::over_xdp(self, *kind, job),
            (SocketsSubject::Peer(_, Over::Nothing), _) => peer::over_nothing(self, job),
            (SocketsSubject::XdpDrop(_) | SocketsSubject::XdpRedirect(_), None) => {
                Err(Error::failed("XDP program without a socket", "is for a lab only"))
            }
        }
    }

    fn run_port(&self, spec: &Spec, kind: Task) -> Result<(Nature, PortSample)> {
        let frames = Arc::new(frames(self.size)?);
        let subject = Party::start(spec, kind, self, &frames)?;
        let load = match &self.load {
            Some(load) if kind != Task::Txpush => Some(load.start(&frames, spec.backend)?),
            _ => None,
        };
        self.sleep(self.warm_up(), Some(&subject))?;
        subject.baton.set(LoopPhase::Count);
        self.sleep(self.window, Some(&subject))?;
        subject.baton.set(LoopPhase::Drain);
        subject.wait_until_read();
        let offered = load.map(RunningSenders::stop).transpose()?;
        if offered.is_some() {
            let received = || Ok(subject.rx.iter().map(|rx| rx.packets.value()).sum());
            drain(received)?;
        }
        let nature = subject.nature(self);
        let outcome = subject.finish()?;
        Ok((nature, sample(kind, &outcome, offered.as_ref())))
    }

    fn run_drop(&self, mode: XdpMode, site: &Site) -> Result<(Nature, PortSample)> {
        let drops = Drops::attach(site, mode)?;
        self.count(mode, || drops.packets())
    }

    /// Counts the returned packets. A veth accepts redirected packets only if its other end has a
    /// NAPI.
    fn run_redirect(&self, mode: XdpMode, site: &Site) -> Result<(Nature, PortSample)> {
        let Some(load) = &self.load else {
            return Err(Error::failed("XDP program that redirects", "nothing is sent to it"));
        };
        let _returns = ReflectProgram::attach(site, mode)?;
        load.site.set_gro(true)?;
        let counted = self.count(mode, || InterfaceCounter::Received.read(load.site));
        load.site.set_gro(false)?;
        counted
    }

    /// Measures a program in the kernel with the counter `packets`.
    fn count(
        &self,
        mode: XdpMode,
        packets: impl Fn() -> Result<u64>,
    ) -> Result<(Nature, PortSample)> {
        let (frames, first) = (frames(self.size)?, packets()?);
        let load = self.load.as_ref().map(|load| load.start(&frames, None)).transpose()?;
        self.sleep(self.warm_up(), None)?;
        let (before, begin) = (packets()?, Instant::now());
        self.sleep(self.window, None)?;
        let (counted, elapsed) = (packets()? - before, begin.elapsed());
        let offered = load.map(RunningSenders::stop).transpose()?;
        drain(&packets)?;
        let total = packets()? - first;
        let came = offered.as_ref().map_or(total, |offered| offered.frames.max(total));
        let lost = (came - total) as f64 / came.max(1) as f64;
        let sample = PortSample {
            packets_per_s: counted as f64 / elapsed.as_secs_f64(),
            packets: counted,
            offered_per_s: offered.as_ref().map(sending_rate),
            sender_ns: offered.as_ref().map(sender_ns),
            lost: Some(LossShares { interface: lost, ..LossShares::default() }),
            ..PortSample::default()
        };
        Ok((of_kernel(mode), sample))
    }
}

/// The mode and queue of an XDP program without a socket.
fn of_kernel(mode: XdpMode) -> Nature {
    Nature {
        backend: "xdp",
        mode: if mode == XdpMode::Native { "native" } else { "generic" }.to_owned(),
        queues: 1,
        ..Nature::default()
    }
}

/// Packets per second of all threads together.
fn rate(outcome: &PortCounts, of: impl Fn(&LoopCounts) -> u64) -> f64 {
    let of = |tally| of(tally) as f64 * 1e9 / tally.elapsed_ns.max(1) as f64;
    outcome.tallies.iter().map(of).sum()
}

fn sample(kind: Task, outcome: &PortCounts, offered: Option<&LiveSent>) -> PortSample {
    let packets = |tally: &LoopCounts| match kind {
        Task::Rxdrop => tally.received,
        Task::Txpush | Task::L2fwd => tally.sent,
    };
    let sum = |of: &dyn Fn(&LoopCounts) -> u64| outcome.tallies.iter().map(of).sum::<u64>();
    let total = sum(&packets).max(1) as f64;
    let calls = sum(&|tally| tally.system_calls);
    let mut batches = [0.0; SIZES];
    let count = sum(&|tally| tally.batches.iter().sum()).max(1) as f64;
    for (i, share) in batches.iter_mut().enumerate() {
        *share = sum(&|tally| tally.batches.get(i).copied().unwrap_or(0)) as f64 / count;
    }
    let nanoseconds = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    let user_ns = sum(&|tally| nanoseconds(tally.cpu.user)) as f64 / total;
    let system_ns = sum(&|tally| nanoseconds(tally.cpu.system)) as f64 / total;
    let threads = ThreadCost {
        user_ns,
        system_ns,
        packets_per_call: (calls > 0).then(|| total / calls as f64),
        batches,
        batch: total / count,
    };
    PortSample {
        packets_per_s: rate(outcome, packets),
        packets: sum(&packets),
        threads: Some(threads),
        cpu_ns: None,
        offered_per_s: offered.map(sending_rate),
        sender_ns: offered.map(sender_ns),
        lost: (kind != Task::Txpush).then(|| outcome.lost(offered)),
    }
}

/// Waits until no more packets arrive.
fn drain(received: impl Fn() -> Result<u64>) -> Result<()> {
    let (begin, mut before, mut since) = (Instant::now(), received()?, Instant::now());
    while since.elapsed() < QUIET && begin.elapsed() < PATIENCE {
        thread::sleep(Duration::from_millis(10));
        let now = received()?;
        if now != before {
            (before, since) = (now, Instant::now());
        }
    }
    Ok(())
}
