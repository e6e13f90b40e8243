//! The index of a segment: which of its extents hold packets with a key.
//!
//! # What a packet's keys are
//!
//! The keys of a packet are exactly the values that programs compiled by libpcap load from it:
//! bytes at fixed offsets of the captured part, whether or not they are meaningful there. An offset
//! that is not wholly captured gives no key; there, the load rejects the packet. This holds for
//! every packet, also for a malformed one: if a program loaded a value under the conditions of a
//! row, and continued because of the value, the packet has the value as a key.
//!
//! `[a:b]` is the big-endian number of `b` bytes at offset `a`. `t` is the offset of the type and
//! `n` the offset of the network header ([`Layout`]):
//!
//! | link type | `t` | `n` | tags |
//! |---|---|---|---|
//! | 1, Ethernet | 12 | 14 | yes |
//! | 113, Linux cooked (SLL) | 14 | 16 | no |
//! | 276, Linux cooked v2 (SLL2) | 0 | 20 | no |
//! | 101, raw IP | none: the type is 0x0800 where `[0:1] & 0xf0` is 0x40, 0x86dd where it is 0x60 | 0 | no |
//! | any other | no keys | | |
//!
//! With tags: up to two times, while `[t:2]` is 0x8100, 0x88a8 or 0x9100, `t` and `n` grow by 4.
//! Rows of `EtherType` and `Vlan` apply to each of these `t`; the others to the last.
//!
//! | field | value | where |
//! |---|---|---|
//! | `EtherType` | `[t:2]` | always; and of the raw IP packets above |
//! | `Vlan` | `[t+2:2] & 0xfff` | `[t:2]` is one of the tags above, up to two times |
//! | `Protocol` | `[n+9:1]` | type 0x0800 |
//! | `Protocol` | `[n+6:1]` | type 0x86dd |
//! | `Protocol` | `[n+40:1]` | type 0x86dd, `[n+6:1]` is 44 |
//! | `Ipv4` | `[n+12:4]`, `[n+16:4]` | type 0x0800 |
//! | `Ipv4` | `[n+14:4]`, `[n+24:4]` | type 0x0806 or 0x8035 |
//! | `Ipv6` | `[n+8:16]`, `[n+24:16]` | type 0x86dd. If the captured part ends inside: the words of 4 bytes before its end, then zeros; no key without a whole word |
//! | `Port` | `[n+x:2]`, `[n+x+2:2]`, `x` = 4 × (`[n:1] & 0xf`) | type 0x0800, `[n+9:1]` is 6, 17 or 132, `[n+6:2] & 0x1fff` is 0 |
//! | `Port` | `[n+40:2]`, `[n+42:2]` | type 0x86dd, `[n+6:1]` is 6, 17 or 132 |
//! | `Flow` | [`FlowId::key`] | the packet has a [`FlowId`]; no program loads it |
//!
//! A program may test a prefix of an IPv6 address, word by word. The range of all addresses with
//! this prefix includes the key, even if the packet is cut after the tested words.
//!
//! # How an index is made and read
//!
//! ```text
//!  packet ─▶ keys ─▶ IndexBuilder: tables per field, a log per extent ─▶ file ─▶ Index: lookup
//! ```

mod build;
mod ends;
mod flow;
mod format;
mod gather;
mod keys;
mod layout;
mod load;
mod read;
mod sets;
mod table;
mod written;

pub use self::build::IndexBuilder;
pub use self::flow::FlowId;
pub use self::keys::keys;
pub use self::layout::{Layout, TAGS};
pub use self::read::Index;

#[cfg(test)]
mod filter_tests;
#[cfg(test)]
mod samples;
