//! `packet:IF`: an interface through AF_PACKET, with one ring per queue and class. Rings are
//! TPACKET_V3, or TPACKET_V2 if packets must be handed over at once.
//!
//! ```text
//!                    ┌─ program: received, queue 0 ─▶ ring ─▶ Rx rx 0
//!   every packet of  ├─ program: received, queue 1 ─▶ ring ─▶ Rx rx 1
//!   the interface    ├─ program: outgoing, queue 0 ─▶ ring ─▶ Rx tx 0
//!                    └─ program: no queue ──────────▶ ring ─▶ Rx other
//! ```
//!
//! The program decides in the kernel, so packets of queues that are not selected never reach user
//! space. Each queue and class has a separate ring, and so a separate drop counter: a shared ring
//! could not tell whose packet it lost. Rings exist for all queues that the spec names, selected or
//! not, because masks may change after privileges were dropped. Rings that the masks exclude at
//! first are small, unless `ring=` or `--ring` sets the size.
//!
//! The sockets of all rings form a fanout group. Its program examines the same two fields and
//! offers a packet only to the ring that may take it. Without it the kernel would offer every
//! packet to every ring in turn, and the cost of a packet would grow with the number of queues.
//! With CAP_BPF the group's program also counts the packets that it gives to each ring. So the
//! number of packets that the filter rejects is known for any later filter: see `fanout` and
//! `rejections`.
//!
#![doc = include_str!("options.md")]
//!
//! With `share`, a port is a member of a fanout group that other ports join by its number. It has
//! one ring for all queues and classes, since a socket is in only one group. The kernel does not
//! report the queue of each packet in a ring, so all packets count as OTHER; masks still select by
//! queue and class. See `membership`.
//!
//! The kernel detaches the sockets from an interface that is set down, and attaches them again when
//! it is set up. When it is removed, every [`Rx`](super::Rx) fails once. With
//! [`OpenOptions::wait`](super::OpenOptions::wait) the sockets are instead bound to the next
//! interface of its name. Rings and programs are kept, so no privilege is needed. A socket in a
//! fanout group cannot be bound again, so such a port has no group.
//!
//! With `vnet=auto` a program that segments frames uses
//! [`OpenOptions::forwarder`](super::OpenOptions::forwarder); see `tx`. Packets of local senders,
//! and packets that the kernel has merged (GRO), can be longer than the MTU. With the options of a
//! forwarder, each such frame describes its segmentation
//! ([`Frame::offload`](crate::Frame::offload)).
//!
//! VLAN tags do not count towards the MTU: a full packet can have two. A veth pair or a bridge
//! drops packets that exceed the MTU of the receiving end by more than one tag
//! (`is_skb_forwardable`): that end needs an MTU of 4 bytes more.
//!
//! The kernel chooses the TX queue of sent packets, by the flow or by the sending CPU: see
//! [`PortInfo::tx_queues`](super::PortInfo) and [`XpsBindings`](super::XpsBindings). Frames of a
//! flow leave in order if the sending thread stays on one CPU, and on most devices even if it
//! moves: see `tx`.
//!
//! Reading order: `plan` (what is decided before a socket is opened), `port/steering/selection`
//! (the ring of each packet), `ring` (the memory), `rings` (opening them), `fanout` (the group's
//! program) and `rejections` (what the rings' programs reject), `membership` (in the group of
//! several ports), `slot`, `long`, `setup` and `rx` (the walk), `link` (the interface appears and
//! disappears), `idle` (when to wake), `control` (masks and stop), `tx_ring`, `home`, `refused`,
//! `under_way` and `tx`, `any` (all interfaces), `open`.
//!
//! A new mask replaces the program of each socket whose answer changes, between two packets
//! ([`sk_attach_filter`](https://github.com/torvalds/linux/blob/v6.18/net/core/filter.c)). Other
//! sockets are not touched. Excluded queues have rings of 2 MiB, because the kernel clears ring
//! memory page by page, and most of these rings are never used. For the same reason, a program that
//! ends after a few packets (`-c`) has rings with 5 KiB per packet and at least 512 KiB; the
//! default is up to 16 MiB.
//!
//! Opening has the same steps as `xdp:`, without modes, and falls back to smaller rings when memory
//! is short.
//!
//! The port of a forwarder sets PACKET_IGNORE_OUTGOING. Otherwise the kernel copies every sent
//! packet for the receiving rings, whose programs reject it
//! ([`dev_queue_xmit_nit`](https://github.com/torvalds/linux/blob/v6.18/net/core/dev.c)).
//!
//! Each packet that a forwarder receives has a `virtio_net_hdr`, which distinguishes a merged frame
//! from a long packet. Such frames are segmented regardless of the switches.

pub(in crate::port) mod any;
mod assignment;
mod config;
pub(crate) mod control;
mod fanout;
mod gauge;
mod handover;
mod home;
mod idle;
mod link;
mod long;
mod membership;
pub(crate) mod open;
mod parallel;
mod plan;
mod refused;
mod rejections;
mod ring;
mod rings;
mod rx;
mod setup;
mod slot;
mod tx;
mod tx_ring;
mod under_way;

pub(crate) use self::open::PacketPort;
