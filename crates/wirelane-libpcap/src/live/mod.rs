//! A capture: a port of ours, opened as the options say.
//!
//! * `options`: what the program sets before activation.
//! * `activate`: from the options to an open port, with libpcap's statuses and texts.
//! * `links`: the types of link headers that a device offers.
//! * `memory`: how large the rings are.
//! * `timestamps`: who can take the time of packets.
//! * `filter`: which packets the program is to see; `foreign` runs what only libpcap can.
//! * `send`, `stats`: sending and counting.

mod activate;
mod filter;
mod foreign;
mod links;
mod memory;
mod options;
mod send;
mod sift;
mod stats;
mod timestamps;

use std::ffi::c_int;
use std::sync::Arc;

use wirelane::port::{Control, Port, Rx};
use wirelane_filter::Instruction;
use wirelane_os::iface;

use crate::abi::direction;
use crate::device::Opening;
use crate::failure::Failure;
use crate::status::{Status, Totals};
pub(crate) use activate::{Activation, examine};
use filter::Choice;
use links::Links;
pub(crate) use options::{Options, Precision};
use send::Sender;
use sift::Sifts;
use stats::Counts;

/// An activated handle.
pub(crate) struct Live {
    /// What was set before activation; the snap length is the one in force.
    pub(crate) options: Options,
    /// Where packets come from.
    pub(crate) rx: Vec<Rx>,
    /// Masks, filter and stop of the port.
    pub(crate) control: Arc<dyn Control>,
    /// The types of link headers.
    pub(crate) links: Links,
    /// The network interface, if it is one.
    pub(crate) interface: Option<String>,
    /// Where to put a filter for packets that were let in before.
    pub(crate) sifts: Arc<Sifts>,
    choice: Choice,
    sender: Sender,
    counts: Counts,
    pub(crate) status: Status,
    opening: Opening,
    /// The port, which ends with it.
    pub(crate) port: Port,
}

impl Live {
    /// Opens the port, which takes packets from now on. A warning does not keep it from working.
    ///
    /// # Errors
    /// What libpcap gives, where it gives an error for that.
    pub(crate) fn open(
        options: &Options,
        opening: &Opening,
    ) -> Result<(Box<Self>, Option<Failure>), Failure> {
        let activate::Opened { mut port, links, snaplen, warning } =
            activate::open(options, opening)?;
        let interface = opening.interface().map(str::to_owned);
        let rx = port.rx();
        let control = port.control();
        let sender = match opening.is_packet() {
            true => Sender::of_rings(Arc::clone(&control)),
            false => Sender::of_ends(port.tx()),
        };
        let promiscuous = interface.as_deref().filter(|_| options.promiscuous);
        let counters = rx.iter().map(|rx| Arc::clone(rx.counters())).collect();
        let counts = Counts::new(Arc::clone(&control), counters, promiscuous);
        let mut status = Status::new(&options.device.to_string_lossy(), port.info(), &rx);
        sender.counters().into_iter().for_each(|counters| status.sends(counters));
        let index = interface.as_deref().and_then(|name| iface::index(name).ok()).unwrap_or(0);
        let info = port.info();
        let choice = Choice::new(info.backend, info.link_type, index);
        port.start()?;
        let live = Self {
            options: Options { snaplen, ..options.clone() },
            rx,
            control,
            links,
            interface,
            sifts: Arc::default(),
            choice,
            sender,
            counts,
            status,
            opening: opening.clone(),
            port,
        };
        Ok((Box::new(live), warning))
    }

    /// Only what the program accepts is captured from now on.
    ///
    /// # Errors
    /// It is no program, or the system refuses.
    pub(crate) fn set_filter(&mut self, program: &[Instruction]) -> Result<(), Failure> {
        self.choice.set_filter(program, self.control.as_ref(), &self.sifts)
    }

    /// Only packets of a direction (`PCAP_D_…`) are captured from now on.
    ///
    /// # Errors
    /// The port cannot tell them apart, or the system refuses.
    pub(crate) fn set_direction(&mut self, direction: c_int) -> Result<(), Failure> {
        let (received, sent) = (direction != direction::OUT, direction != direction::IN);
        self.control.set_mask(self.opening.mask(received, sent))?;
        self.choice.set_direction(direction, &self.sifts);
        Ok(())
    }

    /// Sends a packet and returns its length.
    ///
    /// # Errors
    /// What libpcap says when it cannot.
    pub(crate) fn send(&mut self, packet: &[u8]) -> Result<usize, Failure> {
        let sent = self.sender.send(packet, !self.options.nonblock);
        self.status.sent();
        sent
    }

    /// What was counted until now, for others to see as well.
    ///
    /// # Errors
    /// The system refuses to say.
    pub(crate) fn totals(&mut self) -> Result<Totals, Failure> {
        let totals = self.counts.read(self.choice.rejected())?;
        self.status.counted(totals);
        Ok(totals)
    }

    /// The type of the link headers, as `DLT_…`.
    pub(crate) fn datalink(&self) -> c_int {
        self.links.current
    }

    /// Bytes kept of a packet.
    pub(crate) fn snaplen(&self) -> u32 {
        u32::try_from(self.options.snaplen).unwrap_or(0)
    }
}
