//! An open port, for any thread.

use std::ffi::{CString, c_char};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use wirelane::internal::port::Accounting;
use wirelane::internal::stats::{RxCounters, TxCounters};
use wirelane::port::{Control, Port, PortInfo, Rx, Tx};

use crate::error::{CallFailure, Result};
use crate::mask::{WIRELANE_NO_QUEUE, number_of};

/// The value of an unknown counter.
pub const WIRELANE_UNKNOWN: u64 = u64::MAX;

/// Describes an open port. The texts belong to the port and are valid until it is closed.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct InfoValue {
    /// The spec that the program passed.
    pub spec: *const c_char,
    /// Its backend: `sim`, `file`, `packet`, `xdp` or `tap`.
    pub backend: *const c_char,
    /// Its mode, such as `tpacket-v3` or `zerocopy`.
    pub mode: *const c_char,
    /// Name of the network interface; NULL without one.
    pub interface: *const c_char,
    /// Notes for the user, one per line; may be empty.
    pub notes: *const c_char,
    /// Link speed in bits per second; WIRELANE_UNKNOWN without one.
    pub speed: u64,
    /// The most nanoseconds between a packet's time and its delivery.
    pub lateness: u64,
    /// Number of receiving ends.
    pub rx_ends: u32,
    /// Number of transmitting ends.
    pub tx_ends: u32,
    /// The most bytes kept of a packet.
    pub snaplen: u32,
    /// Link type as in capture files; 1 is Ethernet.
    pub link_type: u16,
    /// 1: the port waits for the program, so that a slow program loses no packets.
    pub lossless: u8,
    /// 1: packets may arrive until the port is stopped.
    pub endless: u8,
    /// MAC address of the interface.
    pub mac: [u8; 6],
    /// 1: the interface has a MAC address.
    pub has_mac: u8,
    /// 0.
    pub reserved: u8,
}

const _: () = assert!(size_of::<InfoValue>() == 80);

/// The counters of a receiving end. Each may be WIRELANE_UNKNOWN.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RxStatsValue {
    /// Packets that the masks selected: filtered, delivered and dropped together.
    pub received: u64,
    /// Packets delivered to the program.
    pub packets: u64,
    /// Their bytes on the wire.
    pub bytes: u64,
    /// Packets that a filter rejected.
    pub filtered: u64,
    /// Packets lost in the kernel, for lack of ring space.
    pub dropped_kernel: u64,
    /// Packets lost in user space, for lack of frames.
    pub dropped_ring_full: u64,
    /// Packets dropped because a TX queue was full, counted by wirelane_rx_count_unforwarded().
    pub dropped_tx_full: u64,
    /// Received packets that were merged into the frame of another one.
    pub merged: u64,
    /// The queue, or WIRELANE_NO_QUEUE.
    pub queue: u32,
    /// WIRELANE_RX, WIRELANE_TX or WIRELANE_OTHER.
    pub queue_class: u32,
}

/// The counters of a transmitting end.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct TxStatsValue {
    /// Frames handed to the interface.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Frames that could not be sent.
    pub errors: u64,
    /// Errors because the interface does not accept frames of this length.
    pub wrong_length: u64,
    /// Errors because the kernel refused to send the frame.
    pub refused: u64,
    /// Frames that were copied, because the port cannot send from their memory.
    pub copied: u64,
    /// The queue.
    pub queue: u32,
    /// 0.
    pub reserved: u32,
}

/// Number of frames of a port in each place. `pool` is the sum of the others.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct FramesValue {
    /// All frames.
    pub pool: u64,
    /// Free frames.
    pub free: u64,
    /// Waiting for the interface to fill them.
    pub fill: u64,
    /// Filled and not yet received.
    pub rx: u64,
    /// Waiting to be transmitted, or being transmitted.
    pub tx: u64,
    /// Transmitted and not yet reclaimed.
    pub completion: u64,
    /// Held by the program.
    pub held: u64,
}

/// An open port.
pub(crate) struct OpenPort {
    pub(crate) control: Arc<dyn Control>,
    ends: Mutex<PortEnds>,
    accounting: Accounting,
    rx_counters: Vec<Arc<RxCounters>>,
    tx_counters: Vec<Arc<TxCounters>>,
    texts: PortTexts,
    info: PortInfo,
    endless: bool,
}

/// The port, and the ends not taken yet.
pub(crate) struct PortEnds {
    pub(crate) port: Port,
    rx: Vec<Option<Rx>>,
    tx: Vec<Option<Tx>>,
}

struct PortTexts {
    spec: CString,
    backend: CString,
    mode: CString,
    interface: Option<CString>,
    notes: CString,
}

impl OpenPort {
    /// `cuts`: its transmitting ends segment long frames.
    pub(crate) fn new(mut port: Port, cuts: bool) -> Result<Self> {
        let rx = port.rx()?;
        let tx = port.tx_if_any(cuts)?;
        let info = port.info().clone();
        Ok(Self {
            control: port.control(),
            accounting: port.accounting(),
            rx_counters: rx.iter().map(|rx| Arc::clone(rx.counters())).collect(),
            tx_counters: tx.iter().map(|tx| Arc::clone(tx.counters())).collect(),
            texts: PortTexts::of(&info),
            endless: port.is_endless(),
            info,
            ends: Mutex::new(PortEnds {
                port,
                rx: rx.into_iter().map(Some).collect(),
                tx: tx.into_iter().map(Some).collect(),
            }),
        })
    }

    pub(crate) fn ends(&self) -> MutexGuard<'_, PortEnds> {
        self.ends.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn link_type(&self) -> u16 {
        self.info.link_type
    }

    pub(crate) fn info(&self) -> InfoValue {
        let (texts, info) = (&self.texts, &self.info);
        let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        InfoValue {
            spec: texts.spec.as_ptr(),
            backend: texts.backend.as_ptr(),
            mode: texts.mode.as_ptr(),
            interface: texts.interface.as_ref().map_or(std::ptr::null(), |name| name.as_ptr()),
            notes: texts.notes.as_ptr(),
            speed: info.speed.unwrap_or(WIRELANE_UNKNOWN),
            lateness: info.lateness,
            rx_ends: count(self.rx_counters.len()),
            tx_ends: count(self.tx_counters.len()),
            snaplen: info.snaplen,
            link_type: info.link_type,
            lossless: info.lossless.into(),
            endless: self.endless.into(),
            mac: info.mac.unwrap_or_default(),
            has_mac: info.mac.is_some().into(),
            reserved: 0,
        }
    }

    pub(crate) fn rx_stats(&self, index: usize) -> Result<RxStatsValue> {
        let counters = self.rx_counters.get(index).ok_or(NO_RX)?;
        let stats = counters.snapshot(0);
        let known = |count: Option<u64>| count.unwrap_or(WIRELANE_UNKNOWN);
        Ok(RxStatsValue {
            received: known(stats.received),
            packets: stats.packets,
            bytes: known(stats.bytes),
            filtered: known(stats.filtered),
            dropped_kernel: known(stats.dropped.kernel),
            dropped_ring_full: known(stats.dropped.ring_full),
            dropped_tx_full: known(stats.dropped.tx_full),
            merged: stats.merged,
            queue: stats.queue.map_or(WIRELANE_NO_QUEUE, u32::from),
            queue_class: number_of(counters.class()),
        })
    }

    pub(crate) fn tx_stats(&self, index: usize) -> Result<TxStatsValue> {
        let stats = self.tx_counters.get(index).ok_or(NO_TX)?.snapshot(0);
        Ok(TxStatsValue {
            packets: stats.packets,
            bytes: stats.bytes,
            errors: stats.errors,
            wrong_length: stats.wrong_length,
            refused: stats.refused,
            copied: stats.copied,
            queue: stats.queue.into(),
            reserved: 0,
        })
    }

    pub(crate) fn frames(&self) -> FramesValue {
        let frames = self.accounting.frames();
        FramesValue {
            pool: frames.pool,
            free: frames.free,
            fill: frames.fill,
            rx: frames.rx,
            tx: frames.tx,
            completion: frames.completion,
            held: frames.held(),
        }
    }
}

impl PortEnds {
    /// Takes the receiving end at `index`, once.
    pub(crate) fn take_rx(&mut self, index: usize) -> Result<Rx> {
        self.rx.get_mut(index).ok_or(NO_RX)?.take().ok_or(TAKEN)
    }

    /// Takes the transmitting end at `index`, once.
    pub(crate) fn take_tx(&mut self, index: usize) -> Result<Tx> {
        self.tx.get_mut(index).ok_or(NO_TX)?.take().ok_or(TAKEN)
    }
}

const NO_RX: CallFailure = CallFailure::Argument("the port has no such receiving end");
const NO_TX: CallFailure = CallFailure::Argument("the port has no such transmitting end");
const TAKEN: CallFailure = CallFailure::Argument("this end was handed out already");

impl PortTexts {
    fn of(info: &PortInfo) -> Self {
        Self {
            spec: c_string(&info.spec),
            backend: c_string(info.backend.as_str()),
            mode: c_string(info.mode.as_str()),
            interface: info.interface.as_deref().map(c_string),
            notes: c_string(&info.notes.join("\n")),
        }
    }
}

/// Converts a text for C, up to its first NUL.
fn c_string(text: &str) -> CString {
    CString::new(text.split('\0').next().unwrap_or_default()).unwrap_or_default()
}
