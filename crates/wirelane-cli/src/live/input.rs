//! Options of live commands that look at the packets of ports: how they are opened, and which
//! packets are received.

use std::time::Duration;

use clap::{Args, ValueEnum};
use wirelane::halt::Halt;
use wirelane::internal::port::ProgramOptions;
use wirelane::placement::Placement;
use wirelane::port::{Backend, OpenOptions, Port, Spec};
use wirelane::{QueueMask, QueueSet, Result};
use wirelane_os::privilege::{self, Capability};

use super::arguments::SessionArgs;
use super::start::StartedCommand;
use crate::args::{self, Masks};
use crate::steering::{self, Diversion, Purpose, SteeringArgs};

/// Which packets are received, and how.
#[derive(Args, Clone, Debug)]
pub(crate) struct InputArgs {
    #[command(flatten)]
    masks: Masks,
    /// Take only packets that the host receives (in) or sends (out), or both (inout)
    #[arg(short = 'Q', long, value_name = "in|out|inout", conflicts_with_all = ["rx_queues", "tx_queues", "other"])]
    direction: Option<HostDirection>,
    /// Keep at most N bytes of each packet; 0 keeps all
    #[arg(short = 's', long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=262_144), default_value_t = OpenOptions::MAX_SNAPLEN, help_heading = "Limits")]
    snaplen: u32,
    /// Leave out packets for other hosts. Otherwise the interface is in promiscuous mode until the
    /// command ends
    #[arg(short = 'p', long = "no-promiscuous-mode", help_heading = "Machine")]
    not_promiscuous: bool,
    /// As it is anyway
    #[arg(long, hide = true, conflicts_with = "not_promiscuous")]
    promiscuous: bool,
    /// When the interface is removed, wait for a new one of that name and continue (packet: only).
    /// An interface that goes down or is renamed never ends the command
    #[arg(long, help_heading = "Machine")]
    wait: bool,
    /// Receive from all queues on one thread
    #[arg(long, help_heading = "Machine")]
    pub(crate) single: bool,
    /// Size of the receive ring of each queue, in bytes (k, M, G: units of 1024). With -B, a plain
    /// number is in KiB, as in tcpdump
    #[arg(long, value_name = "SIZE", value_parser = args::memory, help_heading = "Machine")]
    ring: Option<u64>,
    /// See --ring
    #[arg(short = 'B', long, value_name = "SIZE", value_parser = kib, conflicts_with = "ring", hide = true)]
    buffer_size: Option<u64>,
    /// Hand over each packet at once, at the price of more wake-ups and smaller rings. So it is
    /// while lines are printed to a terminal
    #[arg(long, help_heading = "Machine")]
    immediate_mode: bool,
    /// Whether the command needs all interfaces of a file before its first packet.
    #[arg(skip)]
    pub(crate) all_interfaces: bool,
    /// Only headers are looked at.
    #[arg(skip)]
    pub(crate) only_headers: bool,
    /// A user watches the packets.
    #[arg(skip)]
    pub(crate) is_watched: bool,
    #[command(flatten)]
    steering: SteeringArgs,
}

impl InputArgs {
    /// The text of the filter.
    pub(crate) fn filter(&self) -> Option<&str> {
        self.steering.filter()
    }

    /// Adds a filter that the command line has in another place.
    ///
    /// # Errors
    /// There is a filter already.
    pub(crate) fn with_filter(mut self, filter: Option<&str>) -> Result<Self> {
        self.steering = self.steering.with_filter(filter)?;
        Ok(self)
    }

    /// The CPUs of the queues.
    ///
    /// # Errors
    /// One of them may not be used.
    pub(crate) fn placement(&self, session: &SessionArgs) -> Result<Placement> {
        let placement = session.placement()?;
        Ok(if self.single { placement.on_one() } else { placement })
    }

    /// Opens ports in the network namespace of the session. Also returns the packets that each
    /// takes from the host, if any.
    ///
    /// # Errors
    /// One cannot be opened, or would take the user's own connection.
    pub(crate) fn open(
        &self,
        specs: &[Spec],
        start: &StartedCommand<'_>,
    ) -> Result<(Vec<Port>, Vec<Option<Diversion>>)> {
        let (session, halt) = (start.args, &start.halt);
        let open = |spec| session.netns.inside(|| self.open_here(spec, session, halt));
        let opened = specs.iter().map(open).collect::<Result<Vec<_>>>()?;
        Ok(opened.into_iter().unzip())
    }

    fn open_here(
        &self,
        spec: &Spec,
        session: &SessionArgs,
        halt: &Halt,
    ) -> Result<(Port, Option<Diversion>)> {
        // As in tcpdump: `any` switches no interface to promiscuous mode.
        let is_every = spec.name_text() == "any";
        let internal = ProgramOptions::default()
            .every_interface(true)
            .mixed_links(true)
            .all_interfaces(self.all_interfaces)
            .packets(session.count);
        let mut options = OpenOptions::default()
            .mask(self.mask())
            .receive(true)
            .transmit(false)
            .snaplen(self.snaplen(spec))
            .promiscuous(!self.not_promiscuous && !is_every)
            .wait(self.wait)
            .placement(self.placement(session)?)
            .latency(self.latency())
            .internal(internal)
            .ring_bytes(args::address_space("--ring", self.ring.or(self.buffer_size))?);
        self.steering.apply(spec, Purpose::Look, &mut options)?;
        let options = options.halt(halt.clone());
        let diversion = self.steering.diversion(spec, &options)?;
        let port = steering::open(spec, &options, diversion.as_ref(), session.quiet)?;
        Ok((port, diversion))
    }

    /// How long packets may wait for others; `None` leaves that to the port.
    fn latency(&self) -> Option<Duration> {
        match (self.immediate_mode, self.is_watched) {
            (true, _) => Some(Duration::ZERO),
            (false, true) if may_receive_one_by_one() => Some(Duration::ZERO),
            (false, true) => Some(WATCHED),
            (false, false) => None,
        }
    }

    /// Whether the port hands over packets one by one: the user requests it, or watches them.
    pub(crate) fn is_immediate(&self) -> bool {
        self.latency().is_some_and(|latency| latency.is_zero())
    }

    fn snaplen(&self, spec: &Spec) -> u32 {
        let asked = if self.snaplen == 0 { OpenOptions::MAX_SNAPLEN } else { self.snaplen };
        match spec.backend {
            // The kernel filters whole packets. Other ports filter truncated packets.
            None | Some(Backend::Packet) if self.only_headers => asked.min(HEADERS),
            _ => asked,
        }
    }

    /// Whether all packets of a file are selected whole.
    pub(crate) fn is_all(&self) -> bool {
        let is_long = self.snaplen == 0 || self.snaplen >= OpenOptions::MAX_SNAPLEN;
        is_long && self.mask() == QueueMask::ALL && self.filter().is_none()
    }

    /// The initial masks of the port.
    pub(crate) fn mask(&self) -> QueueMask {
        let Masks { rx_queues, tx_queues, other } = self.masks.clone();
        let mask = QueueMask { enabled: true, rx: rx_queues, tx: tx_queues, other };
        match self.direction {
            None | Some(HostDirection::InOut) => mask,
            Some(HostDirection::In) => QueueMask { tx: QueueSet::NONE, ..mask },
            // Sent packets always have a queue.
            Some(HostDirection::Out) => QueueMask { rx: QueueSet::NONE, other: false, ..mask },
        }
    }
}

/// Bytes that contain all headers of any sensible packet.
const HEADERS: u32 = 256;

/// How long packets may wait for others while a user watches them, where the kernel hands over
/// blocks. Rings of the largest size still last for 10 s.
const WATCHED: Duration = Duration::from_millis(100);

/// Whether this process may have packets handed over one by one. Otherwise the kernel would use
/// blocks of a millisecond, and a ring of them does not last for a pause of the program.
fn may_receive_one_by_one() -> bool {
    privilege::effective().is_ok_and(|set| set.contains(Capability::NetAdmin))
        && privilege::is_in_initial_user_namespace() != Some(false)
}

/// The direction of packets, as seen from the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum HostDirection {
    In,
    Out,
    #[value(name = "inout")]
    InOut,
}

/// A size in bytes whose plain number is in KiB.
fn kib(text: &str) -> Result<u64, String> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit());
    args::size(&if is_plain { format!("{text}k") } else { text.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_numbers_are_kib() {
        assert_eq!((kib("4096"), kib("4M"), kib("64k")), (Ok(4 << 20), Ok(4 << 20), Ok(64 << 10)));
        assert!(kib("").is_err() && kib("0").is_err() && kib("4x").is_err());
    }
}
