//! Counters: written by one thread each, read by any, and never pretending to know.

use std::sync::Arc;
use std::{fmt, io};

#[cfg(feature = "serde")]
use serde::{Serialize, Serializer};
use wirelane_os::error::errno_name;

use crate::mask::Class;
use crate::sync::Counter;

/// The counters of one receiving end. `received = filtered + delivered + dropped`, in packets:
/// every packet of a merged frame counts.
#[derive(Debug)]
#[repr(align(128))]
pub struct RxCounters {
    /// The port's number for the queue.
    pub(crate) number: u16,
    pub(crate) class: Class,
    /// The interface, of a port that has several.
    pub(crate) interface: Option<Arc<str>>,
    role: Role,
    /// Packets that reached user space.
    pub packets: Counter,
    /// Their bytes on the wire, without frame check sequence.
    pub bytes: Counter,
    /// Packets lost in the kernel for lack of ring space; [`RxCounters::UNKNOWN`] if it cannot say.
    pub kernel: Counter,
    /// Packets lost for lack of frames or ring space in user space.
    pub ring_full: Counter,
    /// Frames dropped because the writer was too slow.
    pub(crate) writer: Counter,
    /// Bytes of those frames.
    pub(crate) writer_bytes: Counter,
    /// Frames that the writer took but could not write. Its thread owns this counter.
    pub(crate) unwritten: Counter,
    /// Bytes of these frames; unknown if some were being written.
    pub(crate) unwritten_bytes: Counter,
    /// Packets beyond the limit of the session (`-c`), which count as not received. The receiving
    /// thread owns this counter.
    pub(crate) beyond: Counter,
    /// Bytes of those packets.
    pub(crate) beyond_bytes: Counter,
    /// The same for packets that were handed on before. The merging thread owns this counter.
    pub(crate) cut: Counter,
    /// Bytes of those packets.
    pub(crate) cut_bytes: Counter,
    /// Frames whose sender asked for offloads that make no sense, so that nobody could send them
    /// right.
    pub(crate) bad_header: Counter,
    /// Of these packets, those merged into the frame of another one.
    pub merged: Counter,
    /// Packets that a filter rejected in user space.
    pub filtered: Counter,
    /// Packets that a filter rejected in the kernel, where they were counted.
    pub(crate) filtered_kernel: Counter,
    /// 1 once the kernel has filtered, and nobody counted what it rejected.
    pub(crate) filtered_unseen: Counter,
    /// Packets to forward that found the TX queue full.
    pub tx_full: Counter,
    /// Bytes of the packets that were filtered or found the TX queue full, if known.
    pub(crate) undelivered_bytes: Counter,
    /// System calls made to receive, waiting included.
    pub system_calls: Counter,
}

impl RxCounters {
    /// Stands in a counter that the system does not provide.
    pub const UNKNOWN: u64 = u64::MAX;

    /// All zero.
    pub fn new(queue: u16, class: Class) -> Self {
        Self {
            number: queue,
            class,
            interface: None,
            role: Role::Whole,
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

    /// Of one interface of several that have a queue of this number.
    pub(crate) fn named(interface: Arc<str>, queue: u16, class: Class) -> Self {
        Self { interface: Some(interface), ..Self::new(queue, class) }
    }

    /// Of one interface of several whose packets come through the same rings.
    pub(crate) fn of_interface(interface: Arc<str>, queue: u16, class: Class) -> Self {
        Self { interface: Some(interface), role: Role::Part, ..Self::new(queue, class) }
    }

    /// Of what those rings lost, of whichever interface.
    pub(crate) fn of_rings(port: Arc<str>) -> Self {
        let role = Role::Rings;
        Self { interface: Some(port), role, ..Self::new(0, Class::Other) }
    }

    /// The queue's number; `None` for packets that are tied to no queue ([`Class::Other`]).
    pub fn queue(&self) -> Option<u16> {
        (self.class != Class::Other).then_some(self.number)
    }

    /// The class of all packets counted here.
    pub fn class(&self) -> Class {
        self.class
    }

    /// Counts packets of so many bytes that were filtered or found no room; `None` if the bytes are
    /// unknown.
    pub(crate) fn undelivered(&self, bytes: Option<u64>) {
        match bytes {
            _ if self.undelivered_bytes.value() == Self::UNKNOWN => {}
            Some(bytes) => self.undelivered_bytes.add(bytes),
            None => self.undelivered_bytes.set(Self::UNKNOWN),
        }
    }

    /// Counts packets of so many bytes that were received and found no room on their way to a file.
    /// Only the thread that receives may call this.
    pub fn count_unstored(&self, packets: u64, bytes: u64) {
        self.writer.add(packets);
        self.writer_bytes.add(bytes);
    }

    /// Counts packets that were on their way to a file and did not reach it; `None` if their bytes
    /// are unknown. Only the thread that writes may call this.
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

    /// A reading of all counters. `port` is the position of the port in the command.
    pub fn snapshot(&self, port: usize) -> QueueStats {
        let known = |counter: &Counter| Some(counter.value()).filter(|n| *n != Self::UNKNOWN);
        // Each counter is at most a batch old. What became of packets is read once, and before how
        // many there were: so the sum never goes back, and `packets` is never short of what is
        // taken from it.
        let tx_full = self.tx_full.value();
        let unwritten = self.writer.value() + self.unwritten.value();
        let in_rings = |counter| known(counter).filter(|_| self.role != Role::Part);
        let dropped = Dropped {
            is_part: self.role == Role::Part,
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
            filtered: filtered.filter(|_| self.role != Role::Part),
            dropped,
        }
    }
}

/// What counters are of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    /// Of rings of their own.
    Whole,
    /// Of one of several interfaces that share rings. What the rings lost, or their filter
    /// rejected, is counted with them.
    Part,
    /// Of the loss of these rings, and what their filter rejected.
    Rings,
}

/// The counters of one transmitting end.
#[derive(Debug)]
#[repr(align(128))]
pub struct TxCounters {
    /// The queue's number.
    pub queue: u16,
    /// Frames handed to the interface.
    pub packets: Counter,
    /// Their bytes.
    pub bytes: Counter,
    /// Frames that could not be sent: too long for the port, refused by the kernel, or still unsent
    /// when the end was dropped.
    pub errors: Counter,
    /// Of these, those whose pending work could not be done: a checksum at an unknown place, or
    /// segmentation at a port that does not cut.
    pub(crate) unfinished: Counter,
    /// Of these, those of a length that the interface does not take.
    pub wrong_length: Counter,
    /// Of these, those that the kernel refused one by one.
    pub refused: Counter,
    /// The errno of the first one of those; 0 without one.
    pub(crate) refused_errno: Counter,
    /// Of these, those that had been taken and were not sent when the end came.
    pub(crate) unsent: Counter,
    /// The errno that blocks frames now: `ENETDOWN` while the interface is down, `ENXIO` once it is
    /// gone; 0 if nothing does.
    pub(crate) held_errno: Counter,
    /// System calls made to transmit, waiting included.
    pub system_calls: Counter,
    /// Frames that were copied, because they lie in memory that the port cannot send from.
    pub copied: Counter,
    /// How often the kernel was woken because nothing had been sent for a while although frames
    /// waited.
    pub stalls: Counter,
    /// Frames that may have left by another queue, because they were sent from a CPU that is not
    /// one of the queue's ([`Tx::bind`](crate::port::Tx::bind)).
    pub strayed: Counter,
}

impl TxCounters {
    /// All zero.
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

    /// Counts packets that were sent past a [`Tx`](crate::port::Tx), by the kernel itself. Only the
    /// owning thread may call this.
    pub fn count(&self, packets: u64, bytes: u64) {
        self.packets.add(packets);
        self.bytes.add(bytes);
    }

    /// Counts packets that were handed over past a [`Tx`](crate::port::Tx) and dropped by the
    /// interface. Only the owning thread may call this.
    pub fn count_refused(&self, packets: u64) {
        self.errors.add(packets);
        self.refused.add(packets);
    }

    /// `n` frames have a length that the interface does not take.
    pub(crate) fn of_wrong_length(&self, n: u64) {
        self.errors.add(n);
        self.wrong_length.add(n);
    }

    /// The kernel refused one frame, and would again.
    pub(crate) fn refuse(&self, error: &io::Error) {
        self.errors.add(1);
        self.refused.add(1);
        if self.refused_errno.value() == 0 {
            self.refused_errno.set(errno(error));
        }
    }

    /// Frames taken are blocked by `error`, or free to go.
    pub(crate) fn hold(&self, error: Option<&io::Error>) {
        self.held_errno.set(error.map_or(0, errno));
    }

    /// `n` frames were taken and will never be sent.
    pub(crate) fn give_up(&self, n: u64) {
        self.errors.add(n);
        self.unsent.add(n);
    }

    /// A reading of all counters. `port` is the position of the port in the command.
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
    /// Position of the port in the command.
    pub port: usize,
    /// Queue number.
    pub queue: u16,
    /// Frames handed to the interface.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Frames that could not be sent.
    pub errors: u64,
    /// Of these, those whose pending work could not be done.
    pub unfinished: u64,
    /// Of these, those of a length that the interface does not take.
    pub wrong_length: u64,
    /// Of these, those that the kernel refused to send.
    pub refused: u64,
    /// Symbol of the errno of the first one, such as `EINVAL`.
    pub refused_errno: Option<&'static str>,
    /// Of these, those that had been taken and were not sent when the end came.
    pub unsent: u64,
    /// What blocks frames: `ENETDOWN` while the interface is down, `ENXIO` once it is gone.
    pub held_errno: Option<&'static str>,
    /// Frames that were copied, because they lie in memory that the port cannot send from.
    pub copied: u64,
    /// How often the kernel had to be woken from a stall.
    pub stalls: u64,
    /// Frames that may have left by another queue: something had moved the sending thread to a CPU
    /// that is not one of the queue's.
    pub strayed: u64,
}

/// As in a counter: 0 for an error that is not the kernel's.
fn errno(error: &io::Error) -> u64 {
    error.raw_os_error().and_then(|errno| u64::try_from(errno).ok()).unwrap_or(0)
}

/// A reading of one receiving end.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(Serialize))]
#[non_exhaustive]
pub struct QueueStats {
    /// Position of the port in the command.
    pub port: usize,
    /// The interface, of a port that has several (`any`). The one of that port's own name has what
    /// was lost in the rings that all of them share, and what their filter rejected.
    #[cfg_attr(
        feature = "serde",
        serde(skip_serializing_if = "Option::is_none", serialize_with = "text")
    )]
    pub interface: Option<Arc<str>>,
    /// Queue number; `None` for packets tied to no queue.
    pub queue: Option<u16>,
    /// `rx`, `tx` or `other`.
    pub class: &'static str,
    /// Packets that the masks selected: filtered, delivered and dropped together.
    pub received: Option<u64>,
    /// Packets delivered to the consumer.
    pub packets: u64,
    /// Bytes on the wire of the packets delivered.
    pub bytes: Option<u64>,
    /// Of the packets received, those merged into the frame of another one: so many fewer frames
    /// were handed on. They still count as delivered, filtered or dropped.
    pub merged: u64,
    /// Packets that a filter rejected; `None` where unknown. See [`QueueStats::filtered_here`].
    pub filtered: Option<u64>,
    /// Packets lost, by reason.
    pub dropped: Dropped,
}

impl QueueStats {
    /// Of packets that came from no port, all of them delivered.
    pub fn delivered(packets: u64, bytes: u64) -> Self {
        let counters = RxCounters::new(0, Class::Other);
        counters.packets.add(packets);
        counters.bytes.add(bytes);
        counters.snapshot(0)
    }

    /// Packets that a filter rejected and that are counted here: none for an interface of several,
    /// which has them in another row. `None` if they are unknown.
    pub fn filtered_here(&self) -> Option<u64> {
        self.filtered.or_else(|| self.received.and(self.dropped.is_part.then_some(0)))
    }
}

#[cfg(feature = "serde")]
/// serde writes shared text only with a feature that all its users would get.
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

/// Packets lost, by reason; `None` where unknown.
#[derive(Clone, Copy, Debug, Default)]
#[cfg_attr(feature = "serde", derive(Serialize))]
#[non_exhaustive]
pub struct Dropped {
    /// In the kernel, for lack of ring space.
    pub kernel: Option<u64>,
    /// In user space, for lack of frames.
    pub ring_full: Option<u64>,
    /// Because the writer was too slow.
    pub writer: Option<u64>,
    /// Because their sender asked for offloads that make no sense (`tap:`).
    pub bad_header: Option<u64>,
    /// Because the TX queue that they were forwarded to was full.
    pub tx_full: Option<u64>,
    /// What was lost in the rings is counted elsewhere, for several interfaces together.
    #[cfg_attr(feature = "serde", serde(skip))]
    pub(crate) is_part: bool,
}

impl Dropped {
    /// The sum of what is counted here; `None` if a part is unknown.
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
