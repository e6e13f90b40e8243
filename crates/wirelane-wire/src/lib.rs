//! Packet headers as checked views and plain values, the internet checksum, and receive-side scaling.
//!
//! Every header comes in two forms. A **view** (`Ipv4View`) borrows the bytes of a packet: its
//! constructor checks every length that the accessors depend on, so no accessor can fail or panic.
//! A **value** (`Ipv4`) is a plain structure that is parsed from a view and emitted into a buffer.
//! `X::parse(&XView::new(bytes)?)` after `x.emit(&mut bytes)?` gives `x` back.
//!
//! Multi-byte fields are big-endian on the wire and host integers here. Buffers always start at the
//! first byte of the header; [`EthernetView::payload`] and its siblings step to the next one.
//!
//! Reading order: [`ethernet`], [`vlan`], [`ipv4`], [`ipv6`], [`udp`], [`tcp`], the tunnels [`vxlan`],
//! [`geneve`] and [`gre`], then [`checksum`], and finally [`flow`] and [`rss`], which use all of them.
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

#[cfg(test)]
extern crate std;

pub mod ethernet;
pub mod vlan;

pub mod ipv4;
pub mod ipv6;
pub mod protocol;

pub mod tcp;
pub mod udp;

pub mod geneve;
pub mod gre;
pub mod vxlan;

pub mod checksum;

pub mod flow;
pub mod rss;

mod error;
mod field;

pub use error::WireError;
pub use ethernet::{EtherType, Ethernet, EthernetView, MacAddr};
pub use flow::{Addresses, FlowKey, Layers, Ports};
pub use geneve::{Geneve, GeneveView};
pub use gre::{Gre, GreView};
pub use ipv4::{Ipv4, Ipv4View};
pub use ipv6::{Fragment, FragmentView, Ipv6, Ipv6View};
pub use protocol::Protocol;
pub use rss::{HashInput, IndirectionTable, ToeplitzKey, ToeplitzTable};
pub use tcp::{Tcp, TcpFlags, TcpView};
pub use udp::{Udp, UdpView};
pub use vlan::{Vlan, VlanView};
pub use vxlan::{Vxlan, VxlanView};
