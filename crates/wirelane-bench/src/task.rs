//! The three tasks of a receiver or sender.

/// The work of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    /// Receive and free.
    Rxdrop,
    /// Fill frames and send.
    Txpush,
    /// Receive, swap the addresses, and send back through the same queue.
    L2fwd,
}

impl Task {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Rxdrop, Self::Txpush, Self::L2fwd];

    /// Its name in the 2018 AF_XDP zero-copy paper and in the rows.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Rxdrop => "rxdrop",
            Self::Txpush => "txpush",
            Self::L2fwd => "l2fwd",
        }
    }
}

/// The case of [`Task::Rxdrop`] with a fixed rate of packets.
pub(crate) const PACED: &str = "rxdrop-paced";
/// These rates, in packets per second. The first one leaves a receiver time to sleep.
pub(crate) const RATES: [u64; 5] = [500_000, 1_000_000, 1_500_000, 2_000_000, 3_000_000];
