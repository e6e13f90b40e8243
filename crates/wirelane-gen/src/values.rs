//! The values of a field over the packets of a stream.

/// The values of a field in packets 0, 1, 2 … of its stream, as unsigned numbers of the field's
/// width.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Values {
    /// The same value in each packet.
    Constant(u128),
    /// The values in turn, repeated. Never empty.
    List(Vec<u128>),
    /// `start`, `start + step` … for `count` packets, then again from `start`. Wraps at the width
    /// of the field; a descending counter has a step that wraps.
    Counter {
        /// The first value.
        start: u128,
        /// The difference between two packets.
        step: u128,
        /// The number of packets until the counter repeats; at least 1.
        count: u64,
    },
    /// Uniformly distributed, including both limits. The value of packet k depends only on `seed`
    /// and k.
    Random {
        /// The lowest value.
        low: u128,
        /// The highest value.
        high: u128,
        /// The seed of the values.
        seed: u64,
    },
}
