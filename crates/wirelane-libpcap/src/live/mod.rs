//! A capture: a port of ours, opened as the options say.
//!
//! * `options`: what the program sets before activation.
//! * `activate`: from the options to an open port, with libpcap's statuses and texts.
//! * `links`: the types of link headers that a device offers.
//! * `memory`: how large the rings are.
//! * `timestamps`: who can take the time of packets.
//! * `filter`: which packets the program is to see; `foreign` runs what only libpcap can.
//! * `send`, `stats`: sending and counting.
//! * `reader`: packets for the program: how many, when to wait, what ends it.
//! * `merge`, of `input`s: the frames of all rings in one order of time.
//! * `selectable`: the descriptor for event loops.

mod activate;
mod filter;
mod foreign;
mod input;
mod links;
mod merge;
mod options;
mod reader;
#[cfg(test)]
mod script;
mod selectable;
mod send;
mod sift;
mod stats;
mod timestamps;

use std::ffi::c_int;
use std::os::fd::RawFd;
use std::sync::{Arc, Mutex};

use wirelane::port::{Control, Port};
use wirelane_filter::Instruction;
use wirelane_os::{fork, iface};

use crate::abi::direction;
use crate::device::Opening;
use crate::failure::Failure;
use crate::status::{Status, Totals};
pub(crate) use activate::{Activation, examine};
use filter::Choice;
use links::Links;
use merge::Merge;
pub(crate) use options::{Options, Precision};
pub(crate) use reader::{Outcome, Reader, Request};
use send::Sender;
use sift::Sifts;
use stats::Counts;

/// An activated handle.
pub(crate) struct Live {
    /// What was set before activation; the snap length is the one in force.
    pub(crate) options: Options,
    /// Where packets come from. It stays where it is.
    reader: Box<Reader>,
    /// The descriptor for event loops, once the program has asked for it.
    selectable: Option<RawFd>,
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
    /// What others see. Nobody waits for it: a signal handler may have interrupted who has it.
    status: Arc<Mutex<Status>>,
    opening: Opening,
    /// Of the process that opened it or has read from it.
    generation: u64,
    /// The port, which ends with it.
    _port: Port,
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
        let rx = port.rx()?;
        let bounds = activate::bounds(port.info(), &rx, options);
        let control = port.control();
        let sender = match opening.is_packet() {
            true => Sender::of_rings(Arc::clone(&control)),
            false if port.transmits() => Sender::of_ends(port.tx()?),
            false => Sender::of_ends(Vec::new()),
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
        let status = Arc::new(Mutex::new(status));
        let sifts = Arc::default();
        let reader = Reader::new(
            Merge::new(rx, bounds),
            options.precision,
            Arc::clone(&status),
            Arc::clone(&sifts),
        );
        let live = Self {
            options: Options { snaplen, ..options.clone() },
            reader: Box::new(reader),
            selectable: None,
            control,
            links,
            interface,
            sifts,
            choice,
            sender,
            counts,
            status,
            opening: opening.clone(),
            generation: fork::generation(),
            _port: port,
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
        self.show(Status::sent);
        sent
    }

    /// What was counted until now, for others to see as well.
    ///
    /// # Errors
    /// The system refuses to say.
    pub(crate) fn totals(&mut self) -> Result<Totals, Failure> {
        let totals = self.counts.read(self.choice.rejected())?;
        self.show(|status| status.counted(totals));
        Ok(totals)
    }

    /// Shows others something, unless somebody else does so just now.
    fn show(&self, what: impl FnOnce(&mut Status)) {
        if let Ok(mut status) = self.status.try_lock() {
            what(&mut status);
        }
    }

    /// For reading packets. Who reads needs no lock of the handle.
    pub(crate) fn reader(&mut self) -> &Reader {
        // Who reads owns the capture: see `is_copy`.
        self.generation = fork::generation();
        &self.reader
    }

    /// Whether this is the copy of a capture in a child process that has never read from it. The
    /// rings and sockets are shared: to end it here would end it for the parent.
    pub(crate) fn is_copy(&self) -> bool {
        self.generation != fork::generation()
    }

    /// A descriptor that is readable while packets may be read.
    ///
    /// # Errors
    /// The process has no descriptor left, or another thread reads packets.
    pub(crate) fn selectable(&mut self) -> Result<RawFd, Failure> {
        if let Some(fd) = self.selectable {
            return Ok(fd);
        }
        let fd = self.reader.selectable().map_err(Failure::new)?;
        Ok(*self.selectable.insert(fd))
    }

    /// The type of the link headers, as `DLT_…`.
    pub(crate) fn datalink(&self) -> c_int {
        self.links.current
    }
}
