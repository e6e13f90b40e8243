//! `xdp:IF`: an interface through AF_XDP, one socket per queue over shared frame memory.
//!
//! ```text
//!                 ┌──────────────── region: pools of all queues ────────────────┐
//!   packet ─▶ program ─▶ XSKMAP[queue] ─▶ RX ring ─▶ Rx ─▶ Frame ─▶ Tx ─▶ TX ring ─▶ wire
//!              │             ▲ mask            fill ring ◀─┘   ▲      └▶ completion ring
//!              └─ host       └ Control                         └── of any port of the region
//! ```
//!
//! The modes, best first: *zero copy*, in which the device itself reads and writes the frames;
//! *native*, in which the program runs in the driver and the kernel copies; *generic*, in which the
//! program runs in the network stack. `mode=auto` takes the first that the interface can have, and
//! [`PortInfo::negotiation`](super::PortInfo) says why not the others. A mode that is named is had or
//! is an error.
//!
//! Unlike `packet:`, the packets that a port takes do not reach the host. So
//! [`OpenOptions::take`](super::OpenOptions) must say which those are, and what keeps the host reachable stays with it
//! without [`OpenOptions::take_management`](super::OpenOptions). What no selected queue takes goes up the stack
//! untouched.
//!
#![doc = include_str!("options.md")]
//!
//! What the driver says of a packet is in [`Frame::rx_hash`](crate::Frame::rx_hash) and
//! [`Frame::hardware_timestamp`](crate::Frame::hardware_timestamp); packets that have left with their time come from
//! [`Tx::sent`]. Where packets are sent on, [`OpenOptions::intact`](super::OpenOptions::intact) says so.
//!
//! Reading order: `config`, `negotiate` (which mode, and why), `build` and `metadata` (everything in its order),
//! `program`, `tags`, `hints` and `management` (who gets which packet, and what comes with it), `queue` (the kernel's side), `intake`, `vigil` and `rx`,
//! `tx`, `control` (masks and stop).
#![allow(unsafe_code)]

mod build;
mod config;
mod control;
pub mod hints;
mod intake;
pub mod management;
mod metadata;
mod negotiate;
pub mod program;
mod queue;
mod rx;
pub mod tags;
mod tx;
mod vigil;

use std::sync::Arc;

use wirelane_os::mmap::Kind;

use self::build::Draft;
use self::control::Handle;
use self::negotiate::Prospects;
use self::queue::QueueCensus;
use super::packet::device;
use super::{Census, Control, FrameCounts, OpenOptions, Port, PortInfo, Rung, Rx, Spec, Tx};
use crate::error::{Error, Result};
use crate::frame::Sink;
use crate::memory::Allotment;
use crate::pool::Region;

/// An interface opened through AF_XDP. See the [module documentation](self).
pub struct XdpPort {
    info: PortInfo,
    handle: Arc<Handle>,
    rx: Vec<Rx>,
    tx: Vec<Tx>,
    censuses: Arc<[QueueCensus]>,
    region: Region,
    sink: Sink,
}

impl XdpPort {
    /// Opens the interface that `spec` names, in the calling thread's network namespace. Its program is
    /// attached, but hands nothing over before [`Port::start`].
    ///
    /// # Errors
    /// A usage error for a queue that does not exist, an unknown option, or an [`OpenOptions::take`] that takes
    /// nothing; otherwise why no mode can be had: the first cause that is more than a driver without it.
    pub fn open(spec: &Spec, options: &OpenOptions) -> Result<Self> {
        Self::negotiate(spec, options).map_err(|(error, _)| error)
    }

    /// As [`XdpPort::open`]; with an error come the rungs that were tried.
    pub(super) fn negotiate(
        spec: &Spec,
        options: &OpenOptions,
    ) -> std::result::Result<Self, (Error, Vec<Rung>)> {
        let mut rungs = Vec::new();
        Self::climb(spec, options, &mut rungs).map_err(|error| (error, rungs))
    }

    /// What the frames of the port lie in: another port that is opened with it can send them without a
    /// copy, and the other way round.
    pub fn region(&self) -> &Region {
        &self.region
    }

    /// Bytes of frame memory that [`XdpPort::open`] will take with the same arguments.
    ///
    /// # Errors
    /// As there, as far as it can be known before anything is opened.
    pub fn memory_for(spec: &Spec, options: &OpenOptions) -> Result<usize> {
        Self::memory_within(spec, options, &Allotment::of_rest())
    }

    /// The same, if no more than this is to be taken.
    ///
    /// # Errors
    /// As there.
    pub(super) fn memory_within(
        spec: &Spec,
        options: &OpenOptions,
        budget: &Allotment,
    ) -> Result<usize> {
        Ok(Draft::new(spec, options, budget)?.bytes())
    }

    fn climb(spec: &Spec, options: &OpenOptions, rungs: &mut Vec<Rung>) -> Result<Self> {
        let budget = Allotment::of_rest();
        let budget = match &options.memory {
            Some(share) => budget.or_taken(share.bytes),
            None => budget,
        };
        let draft = Draft::new(spec, options, &budget)?;
        let mut notes = Vec::new();
        let region = draft.region(options, &mut notes)?;
        let huge = region.kind() == Kind::Huge2M;
        let mut memory = draft.carve(&region)?;
        let prospects = Prospects::of(draft.device())?;
        let mut refusals = Vec::new();
        for mode in draft.modes() {
            let refusal = draft.refusal(&prospects, mode, options, huge);
            let attempt = match refusal {
                Some(error) => Err(error),
                None => draft.attempt(mode, &prospects, options, &region, &mut memory),
            };
            match attempt {
                Ok(built) => {
                    rungs.push(negotiate::chosen(mode));
                    let negotiation = std::mem::take(rungs);
                    let info = draft.describe(spec, (mode, &built), options, negotiation, notes);
                    let sink = draft.sink(&built);
                    let ends = draft.finish(spec, options, memory, built);
                    return Ok(Self {
                        info,
                        handle: ends.handle,
                        rx: ends.rx,
                        tx: ends.tx,
                        censuses: ends.censuses.into(),
                        region,
                        sink,
                    });
                }
                Err(error) => {
                    rungs.push(negotiate::refused(mode.rung(), &error));
                    refusals.push(error);
                }
            }
        }
        // There is at least one mode.
        let none = || Error::failed(spec.to_string(), "no mode is left to try");
        Err(negotiate::first_cause(refusals).unwrap_or_else(none))
    }
}

impl Port for XdpPort {
    fn info(&self) -> &PortInfo {
        &self.info
    }

    fn rx(&mut self) -> Vec<Rx> {
        std::mem::take(&mut self.rx)
    }

    fn tx(&mut self) -> Vec<Tx> {
        std::mem::take(&mut self.tx)
    }

    fn start(&mut self) -> Result<()> {
        self.handle.start()
    }

    fn control(&self) -> Arc<dyn Control> {
        Arc::clone(&self.handle) as Arc<dyn Control>
    }

    fn census(&self) -> Census {
        let censuses = Arc::clone(&self.censuses);
        Census::new(move || {
            let mut counts = FrameCounts::default();
            censuses.iter().for_each(|census| counts += census.frames());
            counts
        })
    }

    fn sink(&self) -> Sink {
        self.sink
    }

    fn late_notes(&self) -> Vec<String> {
        self.handle.notes()
    }
}

impl Drop for XdpPort {
    fn drop(&mut self) {
        // Ends that are still out keep their sockets; nothing more comes in through them.
        self.handle.release();
        // Receivers and transmitters that nobody took.
        self.rx.clear();
        self.tx.clear();
    }
}

/// The report of modes that were not tried, and why.
pub(super) fn not_tried(error: &Error) -> Rung {
    negotiate::refused("xdp", error)
}
