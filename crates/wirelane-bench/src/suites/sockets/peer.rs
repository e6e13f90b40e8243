//! Measures another program in place of Wirelane's port: `dpdk-testpmd` over AF_XDP, under the same
//! load, on the same interface and CPU. Losses are counted in the same way: packets sent to it
//! minus packets that it received. It is also measured over `net_null`, which makes and drops
//! packets inside the process, like a simulated interface.

use std::process::Command;
use std::time::{Duration, Instant};

use super::sample::{LossShares, Nature, PortSample};
use super::subject::PEER;
use super::trial::{SocketsTrial, frames, sender_ns, sending_rate};
use crate::job::Job;
use crate::peers::process::RunningProgram;
use crate::peers::testpmd;
use crate::suites::senders::RunningSenders;
use crate::task::Task;
use crate::wire::InterfaceCounter;
use wirelane::error::{Error, Result};
use wirelane_os::bpf::XdpMode;

/// How long it may take to end.
const LIMIT: Duration = Duration::from_secs(20);
/// The time from its start until its rate is steady.
const SETTLE: Duration = Duration::from_millis(200);
/// A time longer than it delays a packet.
const DRAIN: Duration = Duration::from_millis(120);

/// Measures once over AF_XDP.
pub(super) fn over_xdp(
    trial: &SocketsTrial<'_>,
    kind: Task,
    job: &mut Job<'_>,
) -> Result<(Nature, PortSample)> {
    let (Some(site), Some(load)) = (trial.site, &trial.load) else {
        return Err(Error::failed(PEER, "is for a lab only"));
    };
    let cpu = trial.placement.cpu(0).unwrap_or(0);
    let mut command = installed(testpmd::command(kind, site.interface(), trial.size, cpu))?;
    job.note(&command);
    let mut running = RunningProgram::start(&mut command, &[cpu], Some(site))?;
    let is_ready = |running: &RunningProgram| testpmd::is_receiving(running.id(), site);
    running.wait_until(is_ready, trial.patience, trial.stop)?;
    let in_force = testpmd::mode(site);
    trial.sleep(SETTLE, None)?;
    let frames = frames(trial.size)?;
    let is_sent_to = kind != Task::Txpush;
    let (used, begin) = (running.cpu(), Instant::now());
    let sending = if is_sent_to { Some(load.start(&frames, None)?) } else { None };
    trial.sleep(trial.warm_up(), None)?;
    let (counted, counting) = (InterfaceCounter::Received.read(load.site)?, Instant::now());
    trial.sleep(trial.window, None)?;
    let counted = InterfaceCounter::Received.read(load.site)? - counted;
    let rate_at_the_end = counted as f64 / counting.elapsed().as_secs_f64();
    let sent = sending.map(RunningSenders::stop).transpose()?;
    let (used, elapsed) = (running.cpu().saturating_sub(used), begin.elapsed().as_secs_f64());
    trial.sleep(DRAIN, None)?;
    let output = running.interrupt(LIMIT)?;
    let received = testpmd::accumulated(&output.stdout, "RX-packets:")
        .ok_or_else(|| Error::failed(PEER, "does not report its received packets"))?;
    // It reports only its total, so the received packets refer to the whole time under load.
    // Packets that it sends can be counted at the other end at any time.
    let packets_per_s = match (kind, &sent) {
        (Task::Rxdrop, Some(sent)) => received as f64 / sent.elapsed.as_secs_f64(),
        _ => rate_at_the_end,
    };
    let lost = sent.as_ref().map(|sent| {
        let arrived = received as f64 / sent.frames.max(1) as f64;
        LossShares { interface: (1.0 - arrived).max(0.0), ..LossShares::default() }
    });
    let sample = PortSample {
        packets_per_s,
        packets: if kind == Task::Rxdrop { received } else { counted },
        // Per packet of the whole time under load, at the measured rate.
        cpu_ns: Some(used.as_nanos() as f64 / (packets_per_s * elapsed).max(1.0)),
        offered_per_s: sent.as_ref().map(sending_rate),
        sender_ns: sent.as_ref().map(sender_ns),
        lost,
        ..PortSample::default()
    };
    // Like the mode of Wirelane's port: transmission uses no XDP program.
    let mode = match in_force {
        _ if !is_sent_to => "copy",
        Some(XdpMode::Generic) => "generic",
        _ => "native",
    };
    let nature = Nature { backend: "xdp", mode: mode.to_owned(), queues: 1, ..Nature::default() };
    Ok((nature, sample))
}

/// Measures the packets that it forwards between null devices.
pub(super) fn over_nothing(
    trial: &SocketsTrial<'_>,
    job: &mut Job<'_>,
) -> Result<(Nature, PortSample)> {
    let cpu = trial.placement.cpu(0).unwrap_or(0);
    let mut command = installed(testpmd::swap_nothing(trial.size, cpu))?;
    job.note(&command);
    let mut running = RunningProgram::start(&mut command, &[cpu], None)?;
    let is_ready = |running: &RunningProgram| testpmd::is_forwarding(running.id());
    running.wait_until(is_ready, trial.patience, trial.stop)?;
    let (used, begin) = (running.cpu(), Instant::now());
    let rate = |running: &RunningProgram| testpmd::sending_rate(&running.stdout());
    running.wait_until(|running| rate(running).is_some(), trial.patience, trial.stop)?;
    let (used, elapsed) = (running.cpu().saturating_sub(used), begin.elapsed().as_secs_f64());
    let packets_per_s = rate(&running).unwrap_or(0.0);
    running.interrupt(LIMIT)?;
    let sent = packets_per_s * elapsed;
    let sample = PortSample {
        packets_per_s,
        packets: sent as u64,
        cpu_ns: Some(used.as_nanos() as f64 / sent.max(1.0)),
        ..PortSample::default()
    };
    // Like the mode of Wirelane's port without an interface.
    let nature = Nature { backend: "sim", mode: "sim".to_owned(), queues: 1, ..Nature::default() };
    Ok((nature, sample))
}

fn installed(command: Option<Command>) -> Result<Command> {
    command.ok_or_else(|| {
        let cause = format!("is not installed (Debian package {})", testpmd::PACKAGE);
        Error::failed(PEER, cause)
    })
}
