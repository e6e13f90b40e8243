//! Counts of packets that a view shows during a capture.

/// Packets passed to a view.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Viewed {
    /// Packets that the view has received.
    pub shown: u64,
    /// Packets that the view has missed: it was too slow, or had failed.
    pub missed: u64,
}
