//! Counters: each is written by one thread and readable by any. Unknown counts are reported as
//! unknown.

use std::sync::Arc;
use std::{fmt, io};

#[cfg(feature = "serde")]
use serde::{Serialize, Serializer};
use wirelane_os::error::errno_name;

use crate::mask::Class;
use crate::sync::Counter;

/// The counters of one receiving end. `received = filtered + delivered + dropped`, in packets:
/// every packet of a merged frame counts.
#[doc(hidden)]
#[derive(Debug)]
#[repr(align(128))]
pub struct RxCounters {
    /// The port's number for the queue.
    pub(crate) number: u16,
    pub(crate) class: Class,
    /// The interface, if the port has several.
    pub(crate) interface: Option<Arc<str>>,
    role: CounterSubject,
    /// Packets that reached user space.
    pub packets: Counter,
    /// Bytes of these packets on the wire, without frame check sequence.
    pub bytes: Counter,
    /// Packets lost in the kernel for lack of ring space; [`RxCounters::UNKNOWN`] if the system
    /// does not report them.
    pub kernel: Counter,
    /// Packets lost for lack of frames or ring space in user space.
    pub ring_full: Counter,
    /// Frames dropped because the writer was too slow.
    pub(crate) writer: Counter,
    /// Bytes of these frames.
    pub(crate) writer_bytes: Counter,
    /// Frames that the writer took but could not write. The writer's thread owns this counter.
    pub(crate) unwritten: Counter,
    /// Bytes of these frames; unknown if some were being written.
    pub(crate) unwritten_bytes: Counter,
    /// Packets beyond the limit of the session (`-c`), which count as not received. The receiving
    /// thread owns this counter.
    pub(crate) beyond: Counter,
    /// Bytes of these packets.
    pub(crate) beyond_bytes: Counter,
    /// The same for packets that had already been passed on. The merging thread owns this counter.
    pub(crate) cut: Counter,
    /// Bytes of these packets.
    pub(crate) cut_bytes: Counter,
    /// Frames with invalid offloads, which could not be sent correctly.
    pub(crate) bad_header: Counter,
    /// Packets, out of `packets`, that were merged into the frame of another packet.
    pub merged: Counter,
    /// Packets that a filter rejected in user space.
    pub filtered: Counter,
    /// Packets that a filter rejected in the kernel and that the kernel counted.
    pub(crate) filtered_kernel: Counter,
    /// 1 after the kernel has rejected packets without counting them.
    pub(crate) filtered_unseen: Counter,
    /// Packets to forward that found the TX queue full.
    pub tx_full: Counter,
    /// Bytes of packets that were filtered or found the TX queue full, if known.
    pub(crate) undelivered_bytes: Counter,
    /// System calls made to receive, including waits.
    pub system_calls: Counter,
}

impl RxCounters {
    /// Value of a counter that the system does not provide.
    pub const UNKNOWN: u64 = u64::MAX;

    /// Counters of one queue, all zero.
    pub fn new(queue: u16, class: Class) -> Self {
        Self {
            number: queue,
            class,
            interface: None,
            role: CounterSubject::Whole,
            packets: Counter::default(),
            bytes: Counter::default(),
            kernel: Counter::default(),
            ring_full: Counter::default(),
            writer: Counter::default(),
            writer_bytes: Counter::default(),
            unwritten: Counter::default(),
            unwritten_bytes: Counter::default(),
            beyond: Counter::default(),
            beyond_bytes: Counter::default(),
            cut: Counter::default(),
            cut_bytes: Counter::default(),
            bad_header: Counter::default(),
            merged: Counter::default(),
            filtered: Counter::default(),
            filtered_kernel: Counter::default(),
            filtered_unseen: Counter::default(),
            tx_full: Counter::default(),
            undelivered_bytes: Counter::default(),
            system_calls: Counter::default(),
        }
    }

    /// Counters for one of several interfaces with a queue of this number.
    pub(crate) fn named(interface: Arc<str>, queue: u16, class: Class) -> Self {
        Self { interface: Some(interface), ..Self::new(queue, class) }
    }

    /// Counters for one of several interfaces that share rings.
    pub(crate) fn of_interface(interface: Arc<str>, queue: u16, class: Class) -> Self {
        Self { interface: Some(interface), role: CounterSubject::Part, ..Self::new(queue, class) }
    }

    /// Counters for the losses of shared rings.
    pub(crate) fn of_rings(port: Arc<str>) -> Self {
        let role = CounterSubject::Rings;
        Self { interface: Some(port), role, ..Self::new(0, Class::Other) }
    }

    /// The queue's number; `None` for packets without a queue ([`Class::Other`]).
    pub fn queue(&self) -> Option<u16> {
        (self.class != Class::Other).then_some(self.number)
    }

    /// The class of all packets counted here.
    pub fn class(&self) -> Class {
        self.class
    }

    /// Counts packets with `bytes` bytes that were filtered or found no room; `None` if the bytes
    /// are unknown.
    pub(crate) fn undelivered(&self, bytes: Option<u64>) {
        match bytes {
            _ if self.undelivered_bytes.value() == Self::UNKNOWN => {}
            Some(bytes) => self.undelivered_bytes.add(bytes),
            None => self.undelivered_bytes.set(Self::UNKNOWN),
        }
    }

    /// Counts received packets with `bytes` bytes that found no room on their way to a file. Only
    /// the receiving thread may call this.
    pub fn count_unstored(&self, packets: u64, bytes: u64) {
        self.writer.add(packets);
        self.writer_bytes.add(bytes);
    }

    /// Counts packets that were on their way to a file and were not written; `None` if their bytes
    /// are unknown. Only the writing thread may call this.
    pub fn count_unwritten(&self, packets: u64, bytes: Option<u64>) {
        self.unwritten.add(packets);
        match bytes {
            _ if self.unwritten_bytes.value() == Self::UNKNOWN => {}
            Some(bytes) => self.unwritten_bytes.add(bytes),
            None => self.unwritten_bytes.set(Self::UNKNOWN),
        }
    }

    /// Counts a packet beyond the limit of the session. Only the receiving thread may call this.
    pub(crate) fn count_beyond(&self, bytes: u64) {
        self.beyond.add(1);
        self.beyond_bytes.add(bytes);
    }

    /// As [`RxCounters::count_beyond`], for the merging thread.
    pub(crate) fn count_cut(&self, bytes: u64) {
        self.cut.add(1);
        self.cut_bytes.add(bytes);
    }

    /// A reading of all counters. `port` is the index of the port in the command.
    pub fn snapshot(&self, port: usize) -> QueueStats {
        let known = |counter: &Counter| Some(counter.value()).filter(|n| *n != Self::UNKNOWN);
        // Each counter is at most a batch old. Counters of losses are read once, and before the
        // number of packets. So the sum never decreases, and the losses never exceed `packets`.
        let tx_full = self.tx_full.value();
        let unwritten = self.writer.value() + self.unwritten.value();
        let in_rings = |counter| known(counter).filter(|_| self.role != CounterSubject::Part);
        let dropped = Dropped {
            is_part: self.role == CounterSubject::Part,
            kernel: in_rings(&self.kernel),
            ring_full: in_rings(&self.ring_full),
            writer: Some(unwritten),
            bad_header: known(&self.bad_header),
            tx_full: Some(tx_full),
        };
        let seen = self.filtered.value();
        let rejected = seen + self.filtered_kernel.value();
        let filtered = (self.filtered_unseen.value() == 0).then_some(rejected);
        let unasked = self.beyond.value() + self.cut.value();
        let gone = unwritten + seen + tx_full + unasked;
        let packets = self.packets.value().saturating_sub(gone);
        QueueStats {
            port,
            interface: self.interface.clone(),
            queue: self.queue(),
            class: self.class.as_str(),
            received: dropped.total().zip(filtered).map(|(lost, f)| packets + f + lost),
            packets,
            bytes: known(&self.unwritten_bytes).zip(known(&self.undelivered_bytes)).map(
                |(unwritten, undelivered)| {
                    let unasked = self.beyond_bytes.value() + self.cut_bytes.value();
                    let lost = self.writer_bytes.value() + unwritten + undelivered + unasked;
                    self.bytes.value().saturating_sub(lost)
                },
            ),
            merged: self.merged.value(),
            filtered: filtered.filter(|_| self.role != CounterSubject::Part),
            dropped,
        }
    }
}

/// The subject of the counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CounterSubject {
    /// An end with separate rings.
    Whole,
    /// One of several interfaces that share rings. `Rings` counts packets that the rings lost or
    /// their filter rejected.
    Part,
    /// The losses of the shared rings, and packets that their filter rejected.
    Rings,
}

/// The counters of one transmitting end.
#[doc(hidden)]
#[derive(Debug)]
#[repr(align(128))]
pub struct TxCounters {
    /// The queue's number.
    pub queue: u16,
    /// Frames handed to the interface.
    pub packets: Counter,
    /// Bytes of these frames.
    pub bytes: Counter,
    /// Frames that could not be sent: too long for the port, refused by the kernel, or still unsent
    /// when the end was dropped.
    pub errors: Counter,
    /// Errors: frames whose offload could not be completed, because of an unknown place of the
    /// checksum or a port that does not segment.
    pub(crate) unfinished: Counter,
    /// Errors: frames of a length that the interface does not accept.
    pub wrong_length: Counter,
    /// Errors: frames that the kernel refused one by one.
    pub refused: Counter,
    /// The errno of the first refused frame; 0 if there is none.
    pub(crate) refused_errno: Counter,
    /// Errors: frames that were taken but not sent before the end was dropped.
    pub(crate) unsent: Counter,
    /// The errno that blocks frames now: `ENETDOWN` while the interface is down, `ENXIO` after its
    /// removal; 0 if frames are not blocked.
    pub(crate) held_errno: Counter,
    /// System calls made to transmit, including waits.
    pub system_calls: Counter,
    /// Frames that were copied, because the port cannot send from their memory.
    pub copied: Counter,
    /// How often the kernel was woken because frames waited without any being sent.
    pub stalls: Counter,
    /// Frames that may have left by another queue, because they were sent from a CPU that does not
    /// belong to the queue ([`Tx::bind`](crate::port::Tx::bind)).
    pub strayed: Counter,
}

impl TxCounters {
    /// Counters of one queue, all zero.
    pub fn new(queue: u16) -> Self {
        Self {
            queue,
            packets: Counter::default(),
            bytes: Counter::default(),
            errors: Counter::default(),
            unfinished: Counter::default(),
            wrong_length: Counter::default(),
            refused: Counter::default(),
            refused_errno: Counter::default(),
            unsent: Counter::default(),
            held_errno: Counter::default(),
            system_calls: Counter::default(),
            copied: Counter::default(),
            stalls: Counter::default(),
            strayed: Counter::default(),
        }
    }

    /// Counts packets that the kernel sent without a [`Tx`](crate::port::Tx). Only the owning
    /// thread may call this.
    pub fn count(&self, packets: u64, bytes: u64) {
        self.packets.add(packets);
        self.bytes.add(bytes);
    }

    /// Counts packets that were passed to the interface without a [`Tx`](crate::port::Tx) and
    /// dropped by it. Only the owning thread may call this.
    pub fn count_refused(&self, packets: u64) {
        self.errors.add(packets);
        self.refused.add(packets);
    }

    /// Counts `n` frames of a length that the interface does not accept.
    pub(crate) fn of_wrong_length(&self, n: u64) {
        self.errors.add(n);
        self.wrong_length.add(n);
    }

    /// Counts a frame that the kernel has refused and would refuse again.
    pub(crate) fn refuse(&self, error: &io::Error) {
        self.errors.add(1);
        self.refused.add(1);
        if self.refused_errno.value() == 0 {
            self.refused_errno.set(errno(error));
        }
    }

    /// Records the error that blocks frames; `None` if they are not blocked.
    pub(crate) fn hold(&self, error: Option<&io::Error>) {
        self.held_errno.set(error.map_or(0, errno));
    }

    /// Counts `n` frames that were taken and will never be sent.
    pub(crate) fn give_up(&self, n: u64) {
        self.errors.add(n);
        self.unsent.add(n);
    }

    /// A reading of all counters. `port` is the index of the port in the command.
    pub fn snapshot(&self, port: usize) -> TxStats {
        let name = |errno: &Counter| {
            let errno = i32::try_from(errno.value()).ok().filter(|errno| *errno != 0)?;
            Some(errno_name(errno))
        };
        TxStats {
            port,
            queue: self.queue,
            packets: self.packets.value(),
            bytes: self.bytes.value(),
            errors: self.errors.value(),
            unfinished: self.unfinished.value(),
            wrong_length: self.wrong_length.value(),
            refused: self.refused.value(),
            refused_errno: name(&self.refused_errno),
            unsent: self.unsent.value(),
            held_errno: name(&self.held_errno),
            copied: self.copied.value(),
            stalls: self.stalls.value(),
            strayed: self.strayed.value(),
        }
    }
}

/// A reading of one transmitting end.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(Serialize))]
#[non_exhaustive]
pub struct TxStats {
    /// Index of the port in the command.
    pub port: usize,
    /// Queue number.
    pub queue: u16,
    /// Frames handed to the interface.
    pub packets: u64,
    /// Bytes of these frames.
    pub bytes: u64,
    /// Frames that could not be sent.
    pub errors: u64,
    /// Errors: frames whose offload could not be completed.
    pub unfinished: u64,
    /// Errors: frames of a length that the interface does not accept.
    pub wrong_length: u64,
    /// Errors: frames that the kernel refused to send.
    pub refused: u64,
    /// Symbol of the errno of the first refused frame, such as `EINVAL`.
    pub refused_errno: Option<&'static str>,
    /// Errors: frames that were taken but not sent before the end was dropped.
    pub unsent: u64,
    /// The errno that blocks frames: `ENETDOWN` while the interface is down, `ENXIO` after its
    /// removal.
    pub held_errno: Option<&'static str>,
    /// Frames that were copied, because the port cannot send from their memory.
    pub copied: u64,
    /// How often the kernel was woken from a stall.
    pub stalls: u64,
    /// Frames that may have left by another queue, because they were sent from a CPU that does not
    /// belong to the queue.
    pub strayed: u64,
}

/// The value of an errno counter: 0 for an error that is not from the kernel.
fn errno(error: &io::Error) -> u64 {
    error.raw_os_error().and_then(|errno| u64::try_from(errno).ok()).unwrap_or(0)
}

/// A reading of one receiving end.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(Serialize))]
#[non_exhaustive]
pub struct QueueStats {
    /// Index of the port in the command.
    pub port: usize,
    /// The interface, if the port has several (`any`). The row with the port's own name has the
    /// packets that were lost in the shared rings or that their filter rejected.
    #[cfg_attr(
        feature = "serde",
        serde(skip_serializing_if = "Option::is_none", serialize_with = "text")
    )]
    pub interface: Option<Arc<str>>,
    /// Queue number; `None` for packets without a queue.
    pub queue: Option<u16>,
    /// `rx`, `tx` or `other`.
    pub class: &'static str,
    /// Packets that the masks selected: the sum of filtered, delivered and dropped packets.
    pub received: Option<u64>,
    /// Packets delivered to the consumer.
    pub packets: u64,
    /// Bytes on the wire of the delivered packets.
    pub bytes: Option<u64>,
    /// Received packets that were merged into the frame of another packet. The number of delivered
    /// frames is lower by this. Merged packets still count as delivered, filtered or dropped.
    pub merged: u64,
    /// Packets that a filter rejected; `None` if unknown. See [`QueueStats::filtered_here`].
    pub filtered: Option<u64>,
    /// Packets lost, by reason.
    pub dropped: Dropped,
}

impl QueueStats {
    /// Statistics for packets without a port, all of them delivered.
    #[doc(hidden)]
    pub fn delivered(packets: u64, bytes: u64) -> Self {
        let counters = RxCounters::new(0, Class::Other);
        counters.packets.add(packets);
        counters.bytes.add(bytes);
        counters.snapshot(0)
    }

    /// Packets that a filter rejected and that this row counts. 0 for one of several interfaces,
    /// whose rejected packets are in another row. `None` if unknown.
    #[doc(hidden)]
    pub fn filtered_here(&self) -> Option<u64> {
        self.filtered.or_else(|| self.received.and(self.dropped.is_part.then_some(0)))
    }
}

#[cfg(feature = "serde")]
/// serde serializes `Arc<str>` only with a feature that all users of serde would get.
fn text<S: Serializer>(text: &Option<Arc<str>>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(text.as_deref().unwrap_or_default())
}

impl fmt::Display for QueueStats {
    /// One line, such as `port 0 rx 3: 1000 packets, 64000 bytes, 0 filtered, unknown dropped`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = |count: Option<u64>| count.map_or("unknown".into(), |count| count.to_string());
        write!(f, "port {} {}", self.port, self.class)?;
        if let Some(queue) = self.queue {
            write!(f, " {queue}")?;
        }
        write!(f, ": {} packets, {} bytes, ", self.packets, known(self.bytes))?;
        write!(f, "{} filtered, {} dropped", known(self.filtered), known(self.dropped.total()))
    }
}

/// Packets lost, by reason; `None` if unknown.
#[derive(Clone, Copy, Debug, Default)]
#[cfg_attr(feature = "serde", derive(Serialize))]
#[non_exhaustive]
pub struct Dropped {
    /// In the kernel, for lack of ring space.
    pub kernel: Option<u64>,
    /// In user space, for lack of frames or ring space.
    pub ring_full: Option<u64>,
    /// Because the writer was too slow.
    pub writer: Option<u64>,
    /// Because of invalid offloads (`tap:`).
    pub bad_header: Option<u64>,
    /// Because the TX queue to forward through was full.
    pub tx_full: Option<u64>,
    /// The losses of the rings are counted in another row, for several interfaces together.
    #[cfg_attr(feature = "serde", serde(skip))]
    pub(crate) is_part: bool,
}

impl Dropped {
    /// The sum of these counts; `None` if one of them is unknown.
    pub fn total(&self) -> Option<u64> {
        let in_rings = |lost: Option<u64>| lost.or(self.is_part.then_some(0));
        Some(
            in_rings(self.kernel)?
                + in_rings(self.ring_full)?
                + self.writer?
                + self.bad_header?
                + self.tx_full?,
        )
    }
}
