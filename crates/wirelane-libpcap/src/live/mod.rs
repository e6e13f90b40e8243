//! A capture: a port of ours, opened as the options say.
//!
//! * `options`: what the program sets before activation.
//! * `activate`: from the options to an open port, with libpcap's statuses and texts.
//! * `links`: the types of link headers that a device offers.
//! * `memory`: how large the rings are.
//! * `timestamps`: who can take the time of packets.
//! * `reader`: packets for the program: how many, when to wait, what ends it.
//! * `merge`, of `input`s: the frames of all rings in one order of time.
//! * `selectable`: the descriptor for event loops.
//! * `sift`: a filter of ours for packets that were let in before a change.

mod activate;
mod input;
mod links;
mod memory;
mod merge;
mod options;
mod reader;
#[cfg(test)]
mod script;
mod selectable;
mod sift;
mod timestamps;

use std::ffi::c_int;
use std::os::fd::RawFd;
use std::sync::{Arc, Mutex};

use wirelane::port::{Control, Port};
use wirelane::stats::RxCounters;
use wirelane_os::fork;

use crate::device::Opening;
use crate::failure::Failure;
use crate::status::Status;
pub(crate) use activate::{Activation, examine};
use links::Links;
use merge::Merge;
pub(crate) use options::{Options, Precision};
pub(crate) use reader::{Outcome, Reader, Request};
pub(crate) use sift::{Sift, Sifts};

/// An activated handle.
pub(crate) struct Live {
    /// What was set before activation; the snap length is the one in force.
    pub(crate) options: Options,
    /// Where packets come from; `None` while somebody reads.
    reader: Option<Box<Reader>>,
    /// The descriptor for event loops, once the program has asked for it.
    selectable: Option<RawFd>,
    /// Where to put a filter for packets that were let in before.
    pub(crate) sifts: Arc<Sifts>,
    /// The counters of each receiving end.
    pub(crate) counters: Vec<Arc<RxCounters>>,
    /// What others see. Never wait for it: a signal handler may have interrupted who has it.
    pub(crate) status: Arc<Mutex<Status>>,
    /// Masks, filter and stop of the port.
    pub(crate) control: Arc<dyn Control>,
    /// The types of link headers.
    pub(crate) links: Links,
    /// The network interface, if it is one.
    pub(crate) interface: Option<String>,
    /// Of the process that opened it or has read from it.
    generation: u64,
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
        let activate::Opened { mut port, links, snaplen, bounds, warning } =
            activate::open(options, opening)?;
        let rx = port.rx();
        let control = port.control();
        port.start()?;
        let options = Options { snaplen, ..options.clone() };
        let counters = rx.iter().map(|rx| Arc::clone(rx.counters())).collect();
        let name = options.device.to_string_lossy();
        let status = Arc::new(Mutex::new(Status::new(&name, port.info(), &rx)));
        let merge = Merge::new(rx, bounds);
        let reader = Reader::new(merge, options.precision, Arc::clone(&status));
        let live = Self {
            sifts: Arc::clone(reader.sifts()),
            reader: Some(Box::new(reader)),
            selectable: None,
            counters,
            status,
            options,
            control,
            links,
            interface: opening.interface().map(str::to_owned),
            generation: fork::generation(),
            port,
        };
        Ok((Box::new(live), warning))
    }

    /// Takes the reader out, for as long as packets are read; `None` if somebody has it.
    pub(crate) fn take_reader(&mut self) -> Option<Box<Reader>> {
        // Who reads owns the capture: see `is_copy`.
        self.generation = fork::generation();
        self.reader.take()
    }

    /// Puts it back.
    pub(crate) fn give_reader(&mut self, reader: Box<Reader>) {
        self.reader = Some(reader);
    }

    /// Whether this is the copy of a capture in a child process that has never read from it. The
    /// rings and sockets are shared: to end it here would end it for the parent.
    pub(crate) fn is_copy(&self) -> bool {
        self.generation != fork::generation()
    }

    /// A descriptor that is readable while packets may be read.
    ///
    /// # Errors
    /// The process has no descriptor left, or packets are being read.
    pub(crate) fn selectable(&mut self) -> Result<RawFd, Failure> {
        if let Some(fd) = self.selectable {
            return Ok(fd);
        }
        let Some(reader) = &mut self.reader else {
            return Err(Failure::new("packets of the handle are being read"));
        };
        let fd = reader.selectable().map_err(|error| Failure::new(error.to_string()))?;
        Ok(*self.selectable.insert(fd))
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
