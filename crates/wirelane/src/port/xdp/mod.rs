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
//! program runs in the network stack. `mode=auto` uses the first that works, and
//! [`PortInfo::negotiation`](super::PortInfo) explains why the others do not. A mode that you name
//! is required: if the driver refuses it, opening fails.
//!
//! Packets that a port takes do not reach the host, unlike with `packet:`. So
//! [`OpenOptions::take`](super::OpenOptions::take) must name them. Packets that keep the host
//! reachable remain with it unless [`Take`](super::Take) includes the management packets. All other
//! packets continue up the stack unchanged.
//!
#![doc = include_str!("options.md")]
//!
//! [`Frame::rx_hash`](crate::Frame::rx_hash) and
//! [`Frame::hardware_timestamp`](crate::Frame::hardware_timestamp) return the driver's metadata of
//! a packet. [`Tx::sent`](super::Tx::sent) returns transmitted packets with their times. A
//! forwarder refuses drivers that change packets
//! ([`OpenOptions::forwarder`](super::OpenOptions::forwarder)).
//!
//! Reading order: `config`, `plan` (decisions before the first attempt), `negotiate` and `attempt`
//! (which mode, and why), `metadata` (requests to the driver), `program`, `tags`, `hints` and
//! `management` (the destination of each packet, and its metadata), `queue` (the kernel's side),
//! `fill`, `idle` and `rx`, `tx`, `control` (masks and stop), `assemble` and `describe`, `open`
//! (all steps in order).
//!
//! AF_XDP knows one class: received packets by RX queue. The mask is the set of XSKMAP entries.
//! Packets of other queues go up the stack.
//!
//! At a stop, the port removes the entries, detaches the program, and calls
//! [`membarrier`](https://github.com/torvalds/linux/blob/v6.18/kernel/sched/membarrier.c). The call
//! returns after every CPU has left its receive cycle, so all packets that met the program are in
//! the rings, and draining them is exact. A port that sends in zero copy keeps its program until it
//! is closed.
//!
//! The program is attached by a BPF link. The kernel removes it with the process, even after
//! SIGKILL. The port also detaches it explicitly, because a thread that is starting another program
//! has copies of all descriptors. A new filter is a new program in the same link, so each packet
//! meets either the old or the new filter. A foreign program is named in the error and never
//! replaced. Nothing is pinned, so `/sys/fs/bpf` is not needed.
//!
//! The kernel frees the queue of a closed socket late
//! ([`xp_release_deferred`](https://github.com/torvalds/linux/blob/v6.18/net/xdp/xsk_buff_pool.c)),
//! so the port retries a busy queue for two seconds. In generic mode, packets of a veth's queue q +
//! 1 arrive by queue q: the kernel misreads the number that veth records, and the port adds a note.
//!
//! A bare name that may take all packets falls back to AF_PACKET when no mode works.

mod assemble;
mod attempt;
mod config;
mod control;
mod describe;
mod fill;
mod hints;
mod idle;
mod launch;
pub(crate) mod management;
mod mask;
mod metadata;
mod mode;
mod negotiate;
pub(crate) mod open;
mod plan;
mod program;
mod queue;
mod rx;
mod tags;
mod tx;

pub(crate) use self::open::XdpPort;
