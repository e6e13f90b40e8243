//! What a property needs of the world around a port.

use std::time::Duration;

use wirelane::Result;
use wirelane::port::{FrameCounts, OpenOptions, Port};

/// A place where ports of one kind can be opened, and what surrounds them.
///
/// At most one port is open at a time.
pub(crate) trait Bed {
    /// What holds here.
    fn promises(&self) -> &Promises;

    /// Opens the port under test with all its queues, both to receive and to transmit unless the
    /// options say otherwise. `queues` goes into the spec behind `@`, if given.
    fn open(&mut self, queues: Option<&str>, options: &OpenOptions) -> Result<Port>;

    /// A number for [`Packet::flow`](wirelane_testkit::packets::Packet::flow) with which frames
    /// arrive on RX queue `queue` when they are injected there.
    fn flow(&self, queue: u16) -> u16;

    /// Lets `frame` arrive on RX queue `queue` of the port. False if the medium has no room now, or
    /// no link because the port is not started.
    fn inject(&mut self, queue: u16, frame: &[u8]) -> bool;

    /// Waits until all that was injected has come to the port, or to whoever gets it instead.
    fn settle(&mut self);

    /// Everything that the port has transmitted and this was not told of yet.
    fn observe(&mut self) -> Vec<Observed>;

    /// Takes the link of the port down or up; false where there is none to be taken down.
    fn set_link(&mut self, up: bool) -> bool {
        let _ = up;
        false
    }

    /// The host of the port sends `frame` itself, through the TX queue returned; `None` where
    /// nobody can say the queue.
    fn host_sends(&mut self, frame: &[u8]) -> Option<u16> {
        let _ = frame;
        None
    }

    /// Where the frames of the port are, together with those that the medium lends to it.
    fn frames(&mut self, port: &Port) -> FrameCounts {
        port.frames()
    }

    /// Injected frames that were lost before they came to the port, since the bed was made.
    fn lost_before(&mut self) -> u64 {
        0
    }

    /// Transmitted frames that were lost after the port, since the bed was made.
    fn lost_behind(&mut self) -> u64 {
        0
    }

    /// Another bed of the same kind, with a medium of its own.
    fn twin(&self) -> Box<dyn Bed>;
}

/// A frame that a port has transmitted.
pub(crate) struct Observed {
    /// The TX queue, where the medium shows it.
    pub(crate) queue: Option<u16>,
    /// By which way through the medium it came: frames that came by one are in order.
    pub(crate) path: u16,
    /// The frame.
    pub(crate) bytes: Vec<u8>,
}

/// What holds on a bed beyond what holds everywhere.
#[derive(Clone, Debug)]
pub(crate) struct Promises {
    /// [`PortInfo::backend`](wirelane::port::PortInfo::backend).
    pub(crate) backend: &'static str,
    /// [`PortInfo::mode`](wirelane::port::PortInfo::mode).
    pub(crate) mode: &'static str,
    /// The interface of the port, if it has one.
    pub(crate) interface: Option<String>,
    /// Number of queues, in both directions.
    pub(crate) queues: u16,
    /// Bytes of the longest frame that passes in both directions.
    pub(crate) longest: usize,
    /// Whether longer frames are refused when they are to be transmitted.
    pub(crate) refuses_longer: bool,
    /// Whether a part of the queues can be opened.
    pub(crate) parts: bool,
    /// What becomes of packets of the classes TX and OTHER.
    pub(crate) classes: Classes,
    /// Frames of one burst that a consumer can hold on every queue while reception goes on.
    pub(crate) hold: u32,
    /// What [`FrameCounts`] counts of frames that are held.
    pub(crate) held: Held,
    /// Whether a transmitting end can be full, and everything that it took arrives nevertheless.
    pub(crate) fills: bool,
    /// Whether somebody counts the frames that the medium loses when more come than are taken.
    pub(crate) counts_losses: bool,
    /// Whether each receiving end knows what the kernel dropped before it.
    pub(crate) drops_known: bool,
    /// Once [`Bed::settle`] has returned, nothing is on its way any more after this time.
    pub(crate) calm: Duration,
    /// The addresses of the port and of its neighbour.
    pub(crate) macs: [[u8; 6]; 2],
}

/// What becomes of packets of the classes TX and OTHER.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Classes {
    /// They are received if the masks select them.
    Seen,
    /// Masks that ask for them are refused.
    Refused,
    /// There are none.
    Absent,
}

/// The unit in which frames in use are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Held {
    /// Every frame.
    Frames,
    /// Blocks of many frames.
    Blocks,
}
