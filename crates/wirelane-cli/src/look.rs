//! Options of commands that look at the packets of a port: `capture` and `record`.

use std::ffi::OsStr;

use clap::Args;
use wirelane::halt::Halt;
use wirelane::placement::Placement;
use wirelane::port::{OpenOptions, Port, Spec};
use wirelane::{QueueMask, Result};

use crate::args::{self, Masks};
use crate::session::SessionArgs;
use crate::take::{self, Purpose, TakeArgs, Toll};

/// Which packets are looked at, and how.
#[derive(Args, Clone, Debug)]
pub(crate) struct LookArgs {
    #[command(flatten)]
    masks: Masks,
    /// Keep at most N bytes of each packet
    #[arg(short = 's', long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=262_144), default_value_t = OpenOptions::MAX_SNAPLEN, help_heading = "Limits")]
    snaplen: u32,
    /// Put the interface into promiscuous mode until the command ends
    #[arg(long, help_heading = "Machine")]
    promiscuous: bool,
    /// When the interface is removed, wait for a new one of that name and continue (packet: only). An
    /// interface that goes down or is renamed never ends the command
    #[arg(long, help_heading = "Machine")]
    wait: bool,
    /// Receive from all queues on one thread
    #[arg(long, help_heading = "Machine")]
    pub(crate) single: bool,
    /// Size of the receive ring of each queue, in bytes
    #[arg(long, value_name = "SIZE", value_parser = args::size, help_heading = "Machine")]
    ring: Option<u64>,
    /// `any` is every interface.
    #[arg(skip)]
    pub(crate) every_interface: bool,
    #[command(flatten)]
    take: TakeArgs,
}

impl LookArgs {
    /// The filter, as it was written.
    pub(crate) fn filter(&self) -> Option<&str> {
        self.take.filter()
    }

    /// As these, with a filter that was written elsewhere.
    ///
    /// # Errors
    /// There is one already.
    pub(crate) fn with_filter(mut self, filter: Option<&str>) -> Result<Self> {
        self.take = self.take.with_filter(filter)?;
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

    /// Opens the port of this name; with what it takes from the host, if anything.
    ///
    /// # Errors
    /// It cannot be opened, or would take the user's own connection.
    pub(crate) fn open(
        &self,
        port: impl AsRef<OsStr>,
        session: &SessionArgs,
        halt: &Halt,
    ) -> Result<(Port, Option<Toll>)> {
        let spec = Spec::try_from(port.as_ref())?;
        let mut options = OpenOptions::default()
            .mask(QueueMask {
                enabled: true,
                rx: self.masks.rx_queues.clone(),
                tx: self.masks.tx_queues.clone(),
                other: self.masks.other,
            })
            .receive(true)
            .transmit(false)
            .snaplen(self.snaplen)
            .promiscuous(self.promiscuous)
            .wait(self.wait)
            .every_interface(self.every_interface)
            .placement(self.placement(session)?)
            .latency(None)
            .packets(session.count)
            .ring_bytes(args::address_space("--ring", self.ring)?);
        self.take.apply(&spec, Purpose::Look, &mut options)?;
        let options = options.halt(halt.clone());
        let toll = self.take.toll(&spec, &options)?;
        let port = take::open(&spec, &options, toll.as_ref(), session.quiet)?;
        Ok((port, toll))
    }
}
