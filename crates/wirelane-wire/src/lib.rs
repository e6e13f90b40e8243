//! Packet headers as checked views and plain values, the internet checksum, and receive-side
//! scaling.
//!
//! Every header has up to three forms. A **view** (`Ipv4View`) borrows the bytes of a packet: its
//! constructor checks every length that the accessors depend on, so no accessor can fail or panic.
//! A **value** (`Ipv4`) is a plain structure that is parsed from a view and emitted into a buffer.
//! `X::parse(&XView::new(bytes)?)` after `x.emit(&mut bytes)?` gives `x` back. A **mutable view**
//! (`Ipv4Mut`) changes fields in place and keeps the checksum of its header right.
//!
//! For whole frames, [`Layers`] and [`FlowKey`] read, [`PacketMut`] changes, and [`packet`] builds.
//!
//! Multi-byte fields are big-endian on the wire and host integers here. Buffers always start at the
//! first byte of the header; [`EthernetView::payload`] and similar accessors return the next one.
//!
//! For the crates that print, [`text`] escapes untrusted text, and [`date`] formats a day.
//!
//! Reading order: [`ethernet`], [`vlan`], [`arp`], [`ipv4`], [`ipv6`], [`udp`], [`tcp`],
//! [`icmpv4`], [`icmpv6`], [`ndp`], the tunnels [`vxlan`], [`geneve`] and [`gre`], then
//! [`checksum`], and finally [`link`], [`flow`], [`rewrite`], [`packet`] and [`rss`], which use all
//! of them.
//!
//! ```
//! use wirelane_wire::{FlowKey, HashInput, IndirectionTable, ToeplitzKey};
//!
//! /// The receive queue that a four-queue NIC would choose, or `None` for what is not IP.
//! fn queue(frame: &[u8]) -> Option<u16> {
//!     let flow = FlowKey::parse(frame).ok()??;
//!     let hash = ToeplitzKey::MICROSOFT.hash(HashInput::with_ports(&flow).bytes());
//!     Some(IndirectionTable::<128>::spread(4).queue(hash))
//! }
//! # assert_eq!(queue(&[0; 60]), None);
//! ```
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod ethernet;
pub mod vlan;

pub mod arp;
pub mod ipv4;
pub mod ipv6;
pub mod protocol;

pub mod icmpv4;
pub mod icmpv6;
pub mod ndp;

pub mod tcp;
pub mod udp;

pub mod geneve;
pub mod gre;
pub mod tunnel;
pub mod vxlan;

pub mod checksum;

pub mod flow;
pub mod internet;
pub mod link;
pub mod packet;
pub mod rewrite;
pub mod rss;

pub mod date;
pub mod text;

mod error;
mod field;
mod header;
mod setters;

pub use arp::{Arp, ArpOperation, ArpView};
pub use error::WireError;
pub use ethernet::{EtherType, Ethernet, EthernetMut, EthernetView, MacAddr};
pub use flow::{Addresses, FlowKey, Layers, Ports};
pub use geneve::{Geneve, GeneveView};
pub use gre::{Gre, GreView};
pub use icmpv4::{Echo, Icmpv4, Icmpv4Mut, Icmpv4View};
pub use icmpv6::{Icmpv6, Icmpv6Mut, Icmpv6View};
pub use internet::Internet;
pub use ipv4::{Ipv4, Ipv4Mut, Ipv4View};
pub use ipv6::{Fragment, FragmentView, Ipv6, Ipv6Mut, Ipv6View};
pub use link::Link;
pub use ndp::{Neighbor, NeighborMessage, NeighborView};
pub use packet::Packet;
pub use protocol::Protocol;
pub use rewrite::PacketMut;
pub use rss::{HashInput, IndirectionTable, ToeplitzKey, ToeplitzTable};
pub use tcp::{Tcp, TcpFlags, TcpMut, TcpView};
pub use tunnel::{Tunnel, TunnelKind};
pub use udp::{Udp, UdpMut, UdpView};
pub use vlan::{Vlan, VlanView};
pub use vxlan::{Vxlan, VxlanView};

/// Compiles the example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
