//! `xdp:IF`: an interface through AF_XDP, one socket per queue over shared frame memory.
//!
//! ```text
//!                 ┌──────────────── region: pools of all queues ────────────────┐
//!   packet ─▶ program ─▶ XSKMAP[queue] ─▶ RX ring ─▶ Rx ─▶ Frame ─▶ Tx ─▶ TX ring ─▶ wire
//!              │             ▲ mask            fill ring ◀─┘   ▲      └▶ completion ring
//!              └─ host       └ Control                         └── of any port of the region
//! ```
//!
//! The modes, best first: *zero copy*, in which the device itself reads and writes the frames;
//! *native*, in which the program runs in the driver and the kernel copies; *generic*, in which the
//! program runs in the network stack. `mode=auto` takes the first that works, and
//! [`PortInfo::negotiation`](super::PortInfo) says why the others do not. A mode that you name is
//! required: if the driver refuses it, opening fails.
//!
//! Packets that a port takes do not reach the host, unlike with `packet:`. So
//! [`OpenOptions::take`](super::OpenOptions) must name them, and packets that keep the host
//! reachable stay with it unless [`OpenOptions::take_management`](super::OpenOptions) is set. All
//! other packets go up the stack untouched.
//!
#![doc = include_str!("options.md")]
//!
//! [`Frame::rx_hash`](crate::Frame::rx_hash) and
//! [`Frame::hardware_timestamp`](crate::Frame::hardware_timestamp) have the driver's metadata of a
//! packet. [`Tx::sent`](super::Tx::sent) returns transmitted packets with their times. A forwarder
//! sets [`Forwarding::intact`](super::Forwarding::intact).
//!
//! Reading order: `config`, `plan` (what is decided before anything is tried), `negotiate` and
//! `attempt` (which mode, and why), `metadata` (what the driver is asked), `program`, `tags`,
//! `hints` and `management` (who gets which packet, and what comes with it), `queue` (the kernel's
//! side), `fill`, `idle` and `rx`, `tx`, `control` (masks and stop), `assemble` and `describe`,
//! `open` (all of it in its order).

mod assemble;
mod attempt;
mod config;
mod control;
mod describe;
mod fill;
mod hints;
mod idle;
mod launch;
mod management;
mod mask;
mod metadata;
mod mode;
mod negotiate;
mod open;
mod plan;
mod program;
mod queue;
mod rx;
mod tags;
mod tx;

pub use self::management::keeps_tcp;
pub use self::open::XdpPort;
