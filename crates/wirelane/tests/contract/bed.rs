//! The environment of a port, as the properties use it.

use std::time::Duration;

use wirelane::Result;
use wirelane::port::{FrameCounts, OpenOptions, Port};

/// Opens ports of one kind, and controls the medium around them.
///
/// At most one port is open at a time.
pub(crate) trait Bed {
    /// The promises of this bed.
    fn promises(&self) -> &Promises;

    /// Opens the port under test with all its queues, to receive and to transmit unless the options
    /// differ. If `queues` is given, it follows `@` in the spec.
    fn open(&mut self, queues: Option<&str>, options: &OpenOptions) -> Result<Port>;

    /// The argument of [`Packet::flow`](wirelane_testkit::packets::Packet::flow) with which frames
    /// injected for RX queue `queue` arrive there.
    fn flow(&self, queue: u16) -> u16;

    /// Sends `frame` to RX queue `queue` of the port. Returns false if the medium has no room now,
    /// or no link because the port is not started.
    fn inject(&mut self, queue: u16, frame: &[u8]) -> bool;

    /// Waits until all injected frames have arrived at the port, or at the receiver that gets them
    /// instead.
    fn settle(&mut self);

    /// Returns all frames that the port has transmitted since the last call.
    fn observe(&mut self) -> Vec<Observed>;

    /// Takes the link of the port down or up. Returns false if the bed has no link to take down.
    fn set_link(&mut self, up: bool) -> bool {
        let _ = up;
        false
    }

    /// Sends `frame` from the host of the port. Returns the TX queue, or `None` if it is unknown.
    fn host_sends(&mut self, frame: &[u8]) -> Option<u16> {
        let _ = frame;
        None
    }

    /// The numbers of frames of the port by place, including frames of the medium that the port
    /// uses.
    fn frames(&mut self, port: &Port) -> FrameCounts {
        port.frames()
    }

    /// The number of injected frames that were lost before the port, since the bed was made.
    fn lost_before(&mut self) -> u64 {
        0
    }

    /// The number of transmitted frames that were lost after the port, since the bed was made.
    fn lost_behind(&mut self) -> u64 {
        0
    }

    /// Another bed of the same kind, with a separate medium.
    fn twin(&self) -> Box<dyn Bed>;
}

/// A frame that a port has transmitted.
pub(crate) struct Observed {
    /// The TX queue, if the medium reports it.
    pub(crate) queue: Option<u16>,
    /// Its path through the medium: frames of one path are in order.
    pub(crate) path: u16,
    /// The frame.
    pub(crate) bytes: Vec<u8>,
}

/// Properties of a bed that differ between beds.
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
    /// Whether the port refuses to transmit longer frames.
    pub(crate) refuses_longer: bool,
    /// Whether a port can be opened with a subset of the queues.
    pub(crate) parts: bool,
    /// How the port handles packets of the classes TX and OTHER.
    pub(crate) classes: Classes,
    /// How many frames of a burst a consumer can hold on every queue while reception continues.
    pub(crate) hold: u32,
    /// The unit in which [`FrameCounts`] counts held frames.
    pub(crate) held: Held,
    /// Whether a transmitting end can become full, and all frames that it accepted still arrive.
    pub(crate) fills: bool,
    /// Whether the frames that the medium loses under overload are counted.
    pub(crate) counts_losses: bool,
    /// Whether each receiving end knows the number of packets that the kernel dropped.
    pub(crate) drops_known: bool,
    /// Frames may still arrive for this time after [`Bed::settle`] has returned.
    pub(crate) calm: Duration,
    /// The addresses of the port and of its neighbour.
    pub(crate) macs: [[u8; 6]; 2],
}

/// How a port handles packets of the classes TX and OTHER.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Classes {
    /// The port receives them if the masks select them.
    Seen,
    /// The port refuses masks that select them.
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
