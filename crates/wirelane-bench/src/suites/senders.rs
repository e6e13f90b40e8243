//! Senders of measured traffic: one sender, or one for each queue, each on a separate CPU.
//!
//! ```text
//!   CPU i:   the kernel ─▶ XDP redirect ──▶ veth ─▶ RX queue i ─▶ xdp:
//!            TX ring ─▶ sendto, queue i ──▶ veth ─▶ RX queue i ─▶ packet:
//! ```
//!
//! The kernel sends faster, but packets that it redirects into a veth pair have no recorded queue
//! (`__xdp_build_skb_from_frame` records none): AF_PACKET sockets see all of them on one queue. So
//! several queues of `packet:` are measured with sockets as senders.

use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

use wirelane::error::{Error, Result};
use wirelane::internal::sim::Stream;
use wirelane::internal::threads::Crew;
use wirelane::mask::QueueMask;
use wirelane::placement::Placement;
use wirelane::port::{OpenOptions, Port, Spec, Tx};
use wirelane_lab::Site;
use wirelane_os::clock::CpuTime;
use wirelane_os::netdev;
use wirelane_send::kernel::{self, LivePace, LiveSender, LiveSent};

use super::bed;
use super::sockets::loops::{Baton, LoopCounts, LoopPhase, Station, join};
use crate::task::Task;

/// A queue of a veth pair, and a CPU: packets sent from this CPU leave and arrive through this
/// queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::suites) struct Seat {
    pub(in crate::suites) queue: u16,
    pub(in crate::suites) cpu: u32,
}

/// A seat for each of `queues` queues that has a suitable CPU (`veth_select_rxq`,
/// `packet_pick_tx_queue`).
pub(in crate::suites) fn seats(queues: u16) -> Vec<Seat> {
    let cpus = bed::cpus();
    let of = |queue: u16| {
        let cpu = cpus.iter().find(|cpu| **cpu % u32::from(queues) == u32::from(queue))?;
        Some(Seat { queue, cpu: *cpu })
    };
    (0..queues).filter_map(of).collect()
}

/// The frames to send: UDP over IPv4 in this number of flows, to an address that no host has, so
/// that no host answers.
///
/// # Errors
/// The packet size is out of range.
pub(in crate::suites) fn frames(flows: u64, size: impl Display) -> Result<Vec<Vec<u8>>> {
    let stream = Stream::new(&format!("sim:1?flows={flows}&size={size}").parse()?)?;
    Ok((0..flows).map(|number| stream.packet(number).bytes).collect())
}

/// Senders that are ready.
pub(in crate::suites) struct Senders<'a> {
    site: &'a Site,
    ready: PreparedSender,
}

enum PreparedSender {
    Kernel(Vec<(LiveSender, LivePace)>),
    /// A TX end for each CPU of the placement.
    Sockets {
        port: Box<Port>,
        tx: Vec<Tx>,
        frames: Arc<Vec<Vec<u8>>>,
        placement: Placement,
    },
}

impl<'a> Senders<'a> {
    /// Lets the kernel send out of `interface` at `site`, once for each of `paces`.
    ///
    /// # Errors
    /// As [`LiveSender::new`].
    pub(in crate::suites) fn in_kernel(
        site: &'a Site,
        interface: &str,
        frames: &[Vec<u8>],
        paces: &[LivePace],
    ) -> Result<Self> {
        let sender = |pace: &LivePace| Ok((LiveSender::new(interface, frames)?, *pace));
        let ready = site.inside(|| paces.iter().map(sender).collect::<Result<_>>())??;
        Ok(Self { site, ready: PreparedSender::Kernel(ready) })
    }

    /// A sender for each of `seats`, as fast as possible. It uses sockets if `interface` is a veth
    /// and `to_packet` is set (AF_PACKET sockets receive at its other end). Otherwise the kernel
    /// sends.
    ///
    /// # Errors
    /// The interface has no such queue, or cannot be opened; or as [`LiveSender::new`].
    pub(in crate::suites) fn each(
        site: &'a Site,
        interface: &str,
        frames: &[Vec<u8>],
        seats: &[Seat],
        to_packet: bool,
    ) -> Result<Self> {
        if to_packet && is_veth(site, interface)? {
            return Self::sockets(site, frames.to_vec(), seats);
        }
        let paces =
            seats.iter().map(|seat| LivePace { cpu: Some(seat.cpu), ..LivePace::default() });
        Self::in_kernel(site, interface, frames, &paces.collect::<Vec<_>>())
    }

    fn sockets(site: &'a Site, frames: Vec<Vec<u8>>, seats: &[Seat]) -> Result<Self> {
        let queues = seats.iter().map(|seat| seat.queue.to_string()).collect::<Vec<_>>().join(",");
        // With the bypass of the kernel's disciplines, the CPU determines the queue.
        let spec: Spec = format!("packet:{}@{queues}?bypass=on", site.interface()).parse()?;
        let placement = Placement::of(&seats.iter().map(|seat| seat.cpu).collect::<Vec<_>>())?;
        let options = OpenOptions::default()
            .mask(QueueMask::NONE)
            .receive(false)
            .transmit(true)
            .placement(placement.clone());
        let mut port = bed::open(Some(site), &spec, &options)?;
        let (tx, frames) = (port.tx()?, Arc::new(frames));
        let port = Box::new(port);
        Ok(Self { site, ready: PreparedSender::Sockets { port, tx, frames, placement } })
    }

    /// Starts the senders.
    pub(in crate::suites) fn start(self) -> Result<RunningSenders> {
        match self.ready {
            PreparedSender::Kernel(senders) => {
                let start = |(sender, pace): (LiveSender, _)| sender.start(pace);
                let start = || senders.into_iter().map(start).collect::<Result<_>>();
                self.site.inside(start)?.map(RunningSenders::Kernel)
            }
            PreparedSender::Sockets { mut port, tx, frames, placement } => {
                let baton = Arc::new(Baton::new());
                let jobs = tx.into_iter().enumerate().map(|(position, tx)| {
                    let (frames, baton) = (Arc::clone(&frames), Arc::clone(&baton));
                    let mut station = Station { rx: None, tx: Some(tx), frames };
                    (format!("send-{position}"), move || station.run(Task::Txpush, &baton))
                });
                let crew = Crew::start(jobs.collect(), &placement, || port.start())?;
                baton.set(LoopPhase::Count);
                Ok(RunningSenders::Sockets(Pushing { crew, baton, _port: port }))
            }
        }
    }
}

fn is_veth(site: &Site, interface: &str) -> Result<bool> {
    let link = site.inside(|| netdev::link(interface))?;
    let link = link.map_err(|error| Error::os(interface, error))?;
    Ok(link.kind.as_deref() == Some("veth"))
}

/// Running senders. Dropping them ends them.
pub(in crate::suites) enum RunningSenders {
    Kernel(Vec<kernel::RunningSender>),
    Sockets(Pushing),
}

impl RunningSenders {
    /// Stops the senders, and returns their sums.
    ///
    /// # Errors
    /// The first error during sending.
    pub(in crate::suites) fn stop(self) -> Result<LiveSent> {
        let sent: Vec<LiveSent> = match self {
            Self::Kernel(senders) => {
                senders.into_iter().map(kernel::RunningSender::stop).collect::<Result<_>>()?
            }
            Self::Sockets(pushing) => pushing.stop()?,
        };
        let cpu = |of: fn(&CpuTime) -> Duration| sent.iter().map(|one| of(&one.cpu)).sum();
        Ok(LiveSent {
            frames: sent.iter().map(|one| one.frames).sum(),
            elapsed: sent.iter().map(|one| one.elapsed).max().unwrap_or_default(),
            cpu: CpuTime { user: cpu(|cpu| cpu.user), system: cpu(|cpu| cpu.system) },
        })
    }
}

/// Threads that send through sockets.
pub(in crate::suites) struct Pushing {
    crew: Crew<Result<LoopCounts>>,
    baton: Arc<Baton>,
    _port: Box<Port>,
}

impl Pushing {
    fn stop(mut self) -> Result<Vec<LiveSent>> {
        self.baton.set(LoopPhase::End);
        Ok(join(&mut self.crew)?.into_iter().map(LiveSent::from).collect())
    }
}

impl Drop for Pushing {
    fn drop(&mut self) {
        // The crew waits for its threads.
        self.baton.set(LoopPhase::End);
    }
}

impl From<LoopCounts> for LiveSent {
    fn from(tally: LoopCounts) -> Self {
        let elapsed = Duration::from_nanos(tally.elapsed_ns);
        LiveSent { frames: tally.sent, elapsed, cpu: tally.cpu }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::time::Instant;
    use wirelane::frame::Batch;
    use wirelane::mask::QueueSet;
    use wirelane::port::{self, Take};
    use wirelane_lab::{Lab, LabConfig};
    use wirelane_testkit::privileged;

    const QUEUES: u16 = 2;

    /// The queues of the far end that receive packets; `expected` queues should.
    fn queues(lab: &Lab, port: &str, senders: Senders<'_>, expected: usize) -> BTreeSet<u16> {
        let mask = QueueMask { rx: QueueSet::All, ..QueueMask::NONE };
        let options = OpenOptions::default().mask(mask).take(Take::AllAndManagement);
        let mut port = lab.far.inside(|| port::open(&port.parse()?, &options)).unwrap().unwrap();
        let mut rx = port.rx().unwrap();
        port.start().unwrap();
        let sending = senders.start().unwrap();
        let (mut seen, mut batch) = (BTreeSet::new(), Batch::default());
        let end = Instant::now() + Duration::from_secs(20);
        while seen.len() < expected && Instant::now() < end {
            for rx in &mut rx {
                if rx.receive(&mut batch) > 0 {
                    seen.extend(rx.queue());
                }
                batch.clear();
            }
        }
        assert!(sending.stop().unwrap().frames > 0);
        seen
    }

    #[test]
    fn privileged_each_sender_has_a_queue() {
        if !privileged::require() {
            return;
        }
        let seats = seats(QUEUES);
        let lab = Lab::new(LabConfig { queues: QUEUES, ..LabConfig::default() }).unwrap();
        lab.far.set_gro(true).unwrap();
        let frames = frames(4, 64).unwrap();
        let of = |to_packet| Senders::each(&lab.near, "wl-a", &frames, &seats, to_packet).unwrap();
        let (kernel, sockets) = (of(false), of(true));
        let all: BTreeSet<_> = seats.iter().map(|seat| seat.queue).collect();
        let seen = |port, senders| queues(&lab, port, senders, all.len());
        assert_eq!(seen("packet:wl-b", sockets), all);
        assert_eq!(seen("xdp:wl-b?mode=native", kernel), all);
    }
}
