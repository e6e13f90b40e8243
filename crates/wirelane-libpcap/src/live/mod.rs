//! A capture: a port, opened with the program's options.
//!
//! * `options`: the program's options before activation.
//! * `activate`: opens the port; libpcap's statuses and texts.
//! * `links`: the link header types of a device.
//! * `timestamps`: the sources of time stamps.
//! * `filter`: filters and directions; `foreign` runs programs that only libpcap can run, and
//!   `sift` filters packets that the rings had before a change.
//! * `send`, `stats`: sending and counting.
//! * `reader`: reads packets for the program.
//! * `merge`, of `input`s: merges the frames of all rings in order of time.
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
mod watch;

use std::ffi::c_int;
use std::os::fd::RawFd;
use std::sync::{Arc, Mutex};

use wirelane::port::{Control, Port};
use wirelane_filter::Instruction;
use wirelane_os::{fork, iface};

use crate::abi::direction;
use crate::device::PortOpening;
use crate::failure::PcapFailure;
use crate::status::{StatTotals, Status};
pub(crate) use activate::{Activation, examine};
use filter::ActiveFilter;
use links::LinkTypes;
use merge::RxMerger;
pub(crate) use options::{HandleOptions, TimestampPrecision};
pub(crate) use reader::{PacketReader, ReadEnd, ReadRequest};
use send::PacketSender;
use sift::Sifts;
use stats::CaptureCounts;

/// An activated handle.
pub(crate) struct LiveHandle {
    /// The options of activation, with the snap length in force.
    pub(crate) options: HandleOptions,
    /// The source of packets, at a fixed address.
    reader: Box<PacketReader>,
    /// The descriptor for event loops, once the program has asked for it.
    selectable: Option<RawFd>,
    /// Masks, filter and stop of the port.
    pub(crate) control: Arc<dyn Control>,
    /// The types of link headers.
    pub(crate) links: LinkTypes,
    /// The network interface, if it is one.
    pub(crate) interface: Option<String>,
    /// Holds a filter for packets that the rings had before a change.
    pub(crate) sifts: Arc<Sifts>,
    choice: ActiveFilter,
    sender: PacketSender,
    counts: CaptureCounts,
    /// The published counters. No thread waits for this lock: a signal handler may have interrupted
    /// its holder.
    status: Arc<Mutex<Status>>,
    opening: PortOpening,
    /// The fork generation of the process that opened it or last read from it.
    generation: u64,
    /// The port, closed with the capture.
    _port: Port,
}

impl LiveHandle {
    /// Opens the port, which receives packets from now on. A warning does not prevent capturing.
    ///
    /// # Errors
    /// libpcap's errors.
    pub(crate) fn open(
        options: &HandleOptions,
        opening: &PortOpening,
    ) -> Result<(Box<Self>, Option<PcapFailure>), PcapFailure> {
        let activate::OpenedPort { mut port, links, snaplen, warning } =
            activate::open(options, opening)?;
        let interface = opening.interface().map(str::to_owned);
        let rx = port.rx()?;
        let bounds = activate::bounds(port.info(), &rx, options);
        let control = port.control();
        let sender = match opening.is_packet() {
            true => PacketSender::of_rings(Arc::clone(&control)),
            false => PacketSender::of_ends(port.tx_if_any(false)?),
        };
        let promiscuous = interface.as_deref().filter(|_| options.promiscuous);
        let counters = rx.iter().map(|rx| Arc::clone(rx.counters())).collect();
        let counts = CaptureCounts::new(Arc::clone(&control), counters, promiscuous);
        let mut status = Status::new(&options.device.to_string_lossy(), port.info(), &rx);
        sender.counters().into_iter().for_each(|counters| status.sends(counters));
        let index = interface.as_deref().and_then(|name| iface::index(name).ok()).unwrap_or(0);
        let info = port.info();
        let choice = ActiveFilter::new(info.backend, info.link_type, index);
        port.start()?;
        let status = Arc::new(Mutex::new(status));
        let sifts = Arc::default();
        let reader = PacketReader::new(
            RxMerger::new(rx, bounds),
            options.precision,
            Arc::clone(&status),
            Arc::clone(&sifts),
        );
        let live = Self {
            options: HandleOptions { snaplen, ..options.clone() },
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

    /// Captures only packets that the program accepts from now on.
    ///
    /// # Errors
    /// The program is invalid, or the system refuses it.
    pub(crate) fn set_filter(&mut self, program: &[Instruction]) -> Result<(), PcapFailure> {
        self.choice.set_filter(program, self.control.as_ref(), &self.sifts)
    }

    /// Captures only packets of a direction (`PCAP_D_…`) from now on.
    ///
    /// # Errors
    /// The port cannot tell them apart, or the system refuses.
    pub(crate) fn set_direction(&mut self, direction: c_int) -> Result<(), PcapFailure> {
        let (received, sent) = (direction != direction::OUT, direction != direction::IN);
        self.control.set_mask(self.opening.mask(received, sent))?;
        self.choice.set_direction(direction, &self.sifts);
        Ok(())
    }

    /// Sends a packet and returns its length.
    ///
    /// # Errors
    /// libpcap's error for a failed send.
    pub(crate) fn send(&mut self, packet: &[u8]) -> Result<usize, PcapFailure> {
        let sent = self.sender.send(packet, !self.options.nonblock);
        self.show(Status::sent);
        sent
    }

    /// The counters until now. Publishes them, too.
    ///
    /// # Errors
    /// The system refuses to read them.
    pub(crate) fn totals(&mut self) -> Result<StatTotals, PcapFailure> {
        let totals = self.counts.read(self.choice.rejected())?;
        self.show(|status| status.counted(totals));
        Ok(totals)
    }

    /// Updates the published counters, unless another thread is doing so.
    fn show(&self, what: impl FnOnce(&mut Status)) {
        if let Ok(mut status) = self.status.try_lock() {
            what(&mut status);
        }
    }

    /// The reader of packets, which needs no lock of the handle.
    pub(crate) fn reader(&mut self) -> &PacketReader {
        // The process that reads owns the capture: see `is_copy`.
        self.generation = fork::generation();
        &self.reader
    }

    /// Whether this is a child process's copy of a capture from which it has never read. The rings
    /// and sockets are shared: closing them here would end the parent's capture.
    pub(crate) fn is_copy(&self) -> bool {
        self.generation != fork::generation()
    }

    /// A descriptor that is readable while packets are available.
    ///
    /// # Errors
    /// The process has no descriptor left, or another thread reads packets.
    pub(crate) fn selectable(&mut self) -> Result<RawFd, PcapFailure> {
        if let Some(fd) = self.selectable {
            return Ok(fd);
        }
        let fd = self.reader.selectable().map_err(PcapFailure::new)?;
        Ok(*self.selectable.insert(fd))
    }

    /// The type of the link headers, as `DLT_…`.
    pub(crate) fn datalink(&self) -> c_int {
        self.links.current
    }
}
