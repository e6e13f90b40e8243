//! The figures of one measurement.

use super::loops::SIZES;

/// The figures of one measurement.
#[derive(Clone, Debug, Default)]
pub(super) struct PortSample {
    /// Packets per second: received by rxdrop, sent by txpush and l2fwd.
    pub(super) packets_per_s: f64,
    /// The number of these packets in the measured time.
    pub(super) packets: u64,
    /// The cost of the port's threads; `None` if there is no port.
    pub(super) threads: Option<ThreadCost>,
    /// CPU time per packet of another program, in nanoseconds.
    pub(super) cpu_ns: Option<f64>,
    /// Packets that the load sent per second, if there is one.
    pub(super) offered_per_s: Option<f64>,
    /// CPU time of the sender per packet, in nanoseconds. It includes the path to the receiver's
    /// ring, and waking the receiver up.
    pub(super) sender_ns: Option<f64>,
    /// Packets lost, as shares of the packets that arrived at the interface.
    pub(super) lost: Option<LossShares>,
}

impl PortSample {
    /// CPU time per packet of the receiver, or of the sender in `txpush`, in nanoseconds.
    pub(super) fn cpu_ns(&self) -> Option<f64> {
        let own = self.threads.as_ref().map(|threads| threads.user_ns + threads.system_ns);
        own.or(self.cpu_ns)
    }
}

/// The cost of a port's threads for its packets.
#[derive(Clone, Debug, Default)]
pub(super) struct ThreadCost {
    /// CPU time per packet in user space, in nanoseconds.
    pub(super) user_ns: f64,
    /// CPU time per packet in the kernel.
    pub(super) system_ns: f64,
    /// Packets per system call; `None` if there was none.
    pub(super) packets_per_call: Option<f64>,
    /// Shares of the batches that had 1, 2 to 3, 4 to 7, … packets.
    pub(super) batches: [f64; SIZES],
    /// Packets per batch.
    pub(super) batch: f64,
}

/// Packets lost, as shares of the packets that arrived at the interface.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct LossShares {
    /// By the interface or its driver, before they reached the port.
    pub(super) interface: f64,
    /// Counted by the kernel for the port.
    pub(super) kernel: f64,
    /// Lost because the ring had no free frame.
    pub(super) ring_full: f64,
    /// Received, but dropped because the TX ring was full.
    pub(super) tx_full: f64,
}

impl LossShares {
    /// All together.
    pub(super) fn total(&self) -> f64 {
        self.interface + self.kernel + self.ring_full + self.tx_full
    }
}

/// The properties of the opened port.
#[derive(Clone, Debug, Default)]
pub(super) struct Nature {
    pub(super) backend: &'static str,
    pub(super) mode: String,
    pub(super) queues: u64,
    /// The interface, if it is the user's, and its sender.
    pub(super) interface: Option<String>,
    pub(super) load: Option<String>,
    /// The port to which it forwards, and its mode.
    pub(super) to: Option<[String; 2]>,
}
