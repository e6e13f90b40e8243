//! What a field holds from packet to packet.

/// What a field holds in packet 0, 1, 2 … of its stream, as an unsigned number of the field's
/// width.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Values {
    /// Always the same.
    Constant(u128),
    /// In turn, again from the front after the last. Never empty.
    List(Vec<u128>),
    /// `start`, `start + step` … for `count` packets, then from `start` again. Wraps in the width
    /// of the field; a falling counter has a step that wraps.
    Counter {
        /// The first value.
        start: u128,
        /// From one packet to the next.
        step: u128,
        /// Different packets; at least 1.
        count: u64,
    },
    /// Uniformly distributed, both limits included. The value of packet k depends on `seed` and k
    /// alone.
    Random {
        /// The lowest value.
        low: u128,
        /// The highest value.
        high: u128,
        /// Another seed, other values.
        seed: u64,
    },
}
