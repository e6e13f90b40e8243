//! What became of packets that somebody looks at while they are captured.

/// Packets that were to be shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Viewed {
    /// The view has had them.
    pub shown: u64,
    /// It has not: it was slower than they came, or had failed.
    pub missed: u64,
}
