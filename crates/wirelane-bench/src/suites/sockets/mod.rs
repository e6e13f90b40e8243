//! The suite `sockets`: rxdrop, txpush and l2fwd of the 2018 AF_XDP zero-copy paper over every port
//! and mode of the machine.
//!
//! ```text
//!   in the process:   sim:N ─▶ rxdrop │ txpush ─▶ sim:N │ sim:N ─▶ swap ─▶ sim:N
//!
//!   in a lab:         load ─▶ wl-a ═══ wl-b ─▶ rxdrop, l2fwd        a CPU for the load, the
//!                                      wl-b ◀─ txpush               others for the queues
//!                           load ─▶ wl-a ═══ wl-b ─▶ XDP_DROP      yardsticks without a socket
//!                           load ─▶ wl-a ═══ wl-b ─▶ XDP_REDIRECT ─▶ wl-b
//! ```
//!
//! If another program is installed, it does the same in turns with Wirelane
//! ([`testpmd`](crate::peers::testpmd)): over AF_XDP in the lab and, like `sim:`, with generated
//! packets.
//!
//! Every round measures every case once, so that a slow minute of the machine affects all of them.
//! A mode that the machine does not have is skipped with the port's reason.

mod bed;
pub(in crate::suites) mod loops;
mod measure;
mod peer;
mod replay;
mod rows;
mod sample;
mod subject;
mod trial;

use std::sync::Arc;
use std::time::Duration;

use clap::{Args, ValueEnum};
use wirelane::error::{Error, Result};
use wirelane::mask::{MAX_QUEUES, QueueSet};
use wirelane::placement::Placement;
use wirelane_cli::args;

pub(super) use self::bed::{SocketsSelection, sockets};
use self::subject::{XDP_DROP, XDP_REDIRECT};
use crate::effort::Effort;
use crate::job::{Job, SamplingPlan};
use crate::suite::Suite;
use crate::suites::parts::TimeShares;
use crate::task::{RATES, Task};
use crate::wire;

/// Sizes of the 2018 AF_XDP zero-copy paper.
const SIZES: [u32; 2] = [64, 1500];
/// The percentage of the time for the case `replay`.
const REPLAY: u64 = 4;
const REST: u64 = 100 - REPLAY;

/// The plan for ports that receive and send in this process.
pub(super) fn plan(effort: &Effort) -> SamplingPlan {
    SamplingPlan::of(effort, [1000, 250, 100])
}

/// Measure receiving, sending and forwarding through each kind of port, as "AF_XDP, zero-copy
/// support" (2018) did.
///
/// rxdrop receives and drops; txpush fills frames and sends them; l2fwd receives, swaps the MAC
/// addresses and sends back through the same queue. Each queue has a thread and a CPU of its own.
/// Simulated ports need no privilege. As root, real ports are measured, too, on a veth pair between
/// two temporary network namespaces, under load from a sender inside the kernel, which has the
/// first CPU. --port measures your own ports under the traffic that others send to them, or that
/// --load sends.
#[derive(Args, Clone, Debug)]
pub struct SocketsSuite {
    /// Measure this port instead; may be given several times
    #[arg(long = "port", value_name = "PORT")]
    ports: Vec<String>,
    /// In l2fwd send by this port, and not back
    #[arg(long, value_name = "PORT", requires = "ports")]
    to: Option<String>,
    /// Who sends to --port: an interface of yours at the other end of its cable, or `outside`
    /// [default: outside]
    #[arg(long, value_name = "IF", requires = "ports")]
    load: Option<String>,
    /// Let an xdp: port named with --port take all packets away from the host
    #[arg(long, requires = "ports")]
    all: bool,
    /// Measure this case only; may be given several times
    #[arg(long = "case", value_name = "CASE", value_enum)]
    cases: Vec<SocketsCase>,
    /// Packet size without frame check sequence, 60 to 9216 bytes; may be given several times
    #[arg(long = "size", value_name = "BYTES", default_values_t = SIZES,
          value_parser = clap::value_parser!(u32).range(60..=9216))]
    sizes: Vec<u32>,
    /// Length of a sample [default: 1s; with --quick 100ms]
    #[arg(long, value_name = "TIME", value_parser = args::duration)]
    seconds: Option<Duration>,
    /// Send N packets per second to the ports (k, M, G); with --port it takes --load [default: as
    /// many as possible]
    #[arg(long, value_name = "N", value_parser = args::count)]
    rate: Option<u64>,
    /// Pin the threads to these CPUs, in turn
    #[arg(long, value_name = "CPUS")]
    cpus: Option<QueueSet>,
}

/// What is measured of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SocketsCase {
    /// Receive and drop
    Rxdrop,
    /// The same at 0.5, 1, 1.5, 2 and 3 Mpps, beside dpdk-testpmd (not with --port)
    RxdropPaced,
    /// Fill frames and send them
    Txpush,
    /// Receive, swap the MAC addresses, send back
    L2fwd,
    /// Drop in the kernel: a yardstick (not with --port)
    XdpDrop,
    /// Swap the MAC addresses and send back in the kernel, by xdp_redirect_map: a yardstick (not
    /// with --port)
    XdpRedirect,
}

impl Suite for SocketsSuite {
    const NAME: &'static str = "sockets";
    const USUAL: [u64; 2] = [30, 205];

    fn plan(&self, effort: &Effort) -> SamplingPlan {
        let plan = plan(effort);
        SamplingPlan { window: self.seconds.unwrap_or(plan.window), ..plan }
    }

    fn run(&self, job: &mut Job<'_>) -> Result<()> {
        // The user selects neither ports nor cases.
        let is_everything = self.ports.is_empty() && self.cases.is_empty();
        let replays = if is_everything { REPLAY } else { 0 };
        let mut parts = TimeShares::new(&[REST, replays], job.plan.limit);
        let wanted = self.wanted(job.effort.quick)?;
        sockets(&wanted, &mut job.within(parts.limit(0)))?;
        if !is_everything {
            return Ok(());
        }
        job.own()?;
        replay::replay(&mut job.within(parts.limit(1)))
    }
}

impl SocketsSuite {
    fn wanted(&self, quick: bool) -> Result<SocketsSelection> {
        let named = |case| self.cases.is_empty() || self.cases.contains(&case);
        let tasks = [
            (SocketsCase::Rxdrop, Task::Rxdrop),
            (SocketsCase::Txpush, Task::Txpush),
            (SocketsCase::L2fwd, Task::L2fwd),
        ];
        let is_paced = self.cases.contains(&SocketsCase::RxdropPaced);
        for (case, name) in
            [(SocketsCase::XdpDrop, XDP_DROP), (SocketsCase::XdpRedirect, XDP_REDIRECT)]
        {
            if !self.ports.is_empty() && self.cases.contains(&case) {
                let error = Error::usage(format!("case '{name}'"), "it measures no port");
                return Err(error.help("leave --port out"));
            }
        }
        if is_paced && (!self.ports.is_empty() || self.rate.is_some()) {
            let error = Error::usage("case 'rxdrop-paced'", "its port and rates are fixed");
            return Err(error.help("leave --port and --rate out"));
        }
        let load = wire::load(self.load.as_deref())?;
        if self.rate.is_some() && !self.ports.is_empty() && load.is_none() {
            let error = Error::usage("--rate", "others send to the port, at their own rate");
            return Err(error.help("name the interface at the other end of the cable: --load IF"));
        }
        let cpus = self.cpus.as_ref().filter(|cpus| **cpus != QueueSet::All);
        let placement = cpus.map(|cpus| {
            let cpus: Vec<_> = cpus.members(MAX_QUEUES).map(|cpu| cpu as u32).collect();
            Placement::of(&cpus)
        });
        Ok(SocketsSelection {
            ports: self.ports.iter().map(|port| port.parse()).collect::<Result<_>>()?,
            to: self.to.as_deref().map(str::parse).transpose()?,
            load: load.map(Arc::new),
            tasks: tasks.iter().filter(|(case, _)| named(*case)).map(|(_, task)| *task).collect(),
            xdp_drop: named(SocketsCase::XdpDrop),
            xdp_redirect: named(SocketsCase::XdpRedirect),
            sizes: self.sizes.iter().map(|size| *size as usize).collect(),
            take_all: self.all,
            rate: self.rate,
            paced: match self.cases.is_empty() && self.rate.is_none() {
                true if quick => RATES[..1].to_vec(),
                true => RATES.to_vec(),
                false if is_paced => RATES.to_vec(),
                false => Vec::new(),
            },
            peers: self.ports.is_empty(),
            placement: placement.transpose()?,
            ..SocketsSelection::default()
        })
    }
}
