//! The flow table: entries of 192 bytes, an index with 8 bytes per place, and a timer wheel.

mod entry;
mod index;
mod slab;
mod wheel;

pub(crate) use self::entry::{FlowEntry, SegmentOrder, SequenceProgress, time_before};
pub(crate) use self::index::HashIndex;
pub use self::slab::Room;
pub(crate) use self::slab::Slab;
pub(crate) use self::wheel::Wheel;
