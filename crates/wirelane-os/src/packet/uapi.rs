//! The structures and constants of `linux/if_packet.h`, `linux/filter.h` and `linux/virtio_net.h`.
//!
//! Sizes and offsets are asserted at compile time. Names are the kernel's names in Rust's case,
//! without the `tp_` prefixes.

use std::mem::{offset_of, size_of};

/// Asserts the size of a structure and the offset of every field.
macro_rules! layout {
    ($type:ty, $size:expr, { $($field:ident: $offset:expr),* $(,)? }) => {
        const _: () = assert!(size_of::<$type>() == $size);
        $(const _: () = assert!(offset_of!($type, $field) == $offset);)*
    };
}

/// `struct tpacket_req`: the rings of versions 1 and 2.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct TpacketReq {
    /// Bytes per block; a multiple of the page size.
    pub block_size: u32,
    /// Number of blocks.
    pub block_nr: u32,
    /// Bytes per frame; a multiple of [`TPACKET_ALIGNMENT`].
    pub frame_size: u32,
    /// Number of frames in all blocks.
    pub frame_nr: u32,
}
layout!(TpacketReq, 16, { block_size: 0, block_nr: 4, frame_size: 8, frame_nr: 12 });

/// `struct tpacket_req3`: the rings of version 3.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct TpacketReq3 {
    /// Bytes per block; a multiple of the page size.
    pub block_size: u32,
    /// Number of blocks.
    pub block_nr: u32,
    /// Bytes per frame; version 3 packs packets and uses this only to check the request.
    pub frame_size: u32,
    /// Number of frames in all blocks.
    pub frame_nr: u32,
    /// Milliseconds after which a partly filled block is handed over; 0 lets the kernel choose.
    pub retire_blk_tov: u32,
    /// Bytes of private space at the head of each block.
    pub sizeof_priv: u32,
    /// `TP_FT_REQ_*`.
    pub feature_req_word: u32,
}
layout!(TpacketReq3, 28, {
    block_size: 0, block_nr: 4, frame_size: 8, frame_nr: 12, retire_blk_tov: 16, sizeof_priv: 20, feature_req_word: 24,
});

/// `struct tpacket_bd_ts`: a time stamp in a block descriptor; the kernel fills the fraction in
/// nanoseconds.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct TpacketBdTs {
    /// Seconds since the epoch.
    pub sec: u32,
    /// Nanoseconds.
    pub nsec: u32,
}
layout!(TpacketBdTs, 8, { sec: 0, nsec: 4 });

/// `struct tpacket_hdr_v1`: the state of one block.
///
/// `block_status` passes the ownership: read it with acquire and write it with release ordering, at
/// [`BLOCK_STATUS_OFFSET`] from the start of the block. The other fields belong to user space only
/// while it contains [`TP_STATUS_USER`].
#[repr(C, align(8))]
#[derive(Clone, Copy, Debug, Default)]
pub struct TpacketHdrV1 {
    /// `TP_STATUS_*`.
    pub block_status: u32,
    /// Packets in this block.
    pub num_pkts: u32,
    /// Bytes from the start of the block to the first [`Tpacket3Hdr`].
    pub offset_to_first_pkt: u32,
    /// Used bytes of the block, including this descriptor.
    pub blk_len: u32,
    /// Counts blocks from 1 across the ring.
    pub seq_num: u64,
    /// Time of the first packet, or of opening the block when it is empty.
    pub ts_first_pkt: TpacketBdTs,
    /// Time of the last packet, or of closing the block.
    pub ts_last_pkt: TpacketBdTs,
}
layout!(TpacketHdrV1, 40, {
    block_status: 0, num_pkts: 4, offset_to_first_pkt: 8, blk_len: 12, seq_num: 16, ts_first_pkt: 24, ts_last_pkt: 32,
});

/// `struct tpacket_block_desc`, with which every block of a version 3 RX ring begins.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct TpacketBlockDesc {
    /// The socket's ring version as a number: 2 for `TPACKET_V3`.
    pub version: u32,
    /// Bytes from the start of the block to the private space.
    pub offset_to_priv: u32,
    /// `hdr.bh1`.
    pub bh1: TpacketHdrV1,
}
layout!(TpacketBlockDesc, 48, { version: 0, offset_to_priv: 4, bh1: 8 });

/// Offset of `bh1.block_status` in a block.
pub const BLOCK_STATUS_OFFSET: usize =
    offset_of!(TpacketBlockDesc, bh1) + offset_of!(TpacketHdrV1, block_status);

/// Offset of `bh1.num_pkts` in a block. The kernel increments it while it fills the block
/// (`prb_fill_curr_block`).
pub const BLOCK_PACKETS_OFFSET: usize =
    offset_of!(TpacketBlockDesc, bh1) + offset_of!(TpacketHdrV1, num_pkts);

/// `struct tpacket3_hdr`, before every packet of a version 3 ring, with its variant 1 in place.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Tpacket3Hdr {
    /// Bytes from this header to the next one, 0 for the last of a block. On a TX ring it must be
    /// 0.
    pub next_offset: u32,
    /// Seconds since the epoch.
    pub sec: u32,
    /// Nanoseconds.
    pub nsec: u32,
    /// Bytes captured.
    pub snaplen: u32,
    /// Bytes on the wire. On a TX ring: the bytes to send.
    pub len: u32,
    /// `TP_STATUS_*`.
    pub status: u32,
    /// Bytes from this header to the link-layer header.
    pub mac: u16,
    /// Bytes from this header to the network header.
    pub net: u16,
    /// The receive hash, if requested and computed by the device or the kernel.
    pub rxhash: u32,
    /// The VLAN tag that was removed from the packet, valid with [`TP_STATUS_VLAN_VALID`].
    pub vlan_tci: u32,
    /// Its EtherType, valid with [`TP_STATUS_VLAN_TPID_VALID`].
    pub vlan_tpid: u16,
    /// Padding.
    pub padding: u16,
    /// Padding.
    pub reserved: [u8; 8],
}
layout!(Tpacket3Hdr, 48, {
    next_offset: 0, sec: 4, nsec: 8, snaplen: 12, len: 16, status: 20, mac: 24, net: 26, rxhash: 28, vlan_tci: 32,
    vlan_tpid: 36, padding: 38, reserved: 40,
});

/// `struct tpacket2_hdr`, at the start of every frame of a version 2 ring.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Tpacket2Hdr {
    /// `TP_STATUS_*`.
    pub status: u32,
    /// Bytes on the wire. On a TX ring: the bytes to send.
    pub len: u32,
    /// Bytes captured.
    pub snaplen: u32,
    /// Bytes from this header to the link-layer header.
    pub mac: u16,
    /// Bytes from this header to the network header.
    pub net: u16,
    /// Seconds since the epoch.
    pub sec: u32,
    /// Nanoseconds.
    pub nsec: u32,
    /// The VLAN tag that was removed from the packet, valid with [`TP_STATUS_VLAN_VALID`].
    pub vlan_tci: u16,
    /// Its EtherType, valid with [`TP_STATUS_VLAN_TPID_VALID`].
    pub vlan_tpid: u16,
    /// Padding.
    pub padding: [u8; 4],
}
layout!(Tpacket2Hdr, 32, {
    status: 0, len: 4, snaplen: 8, mac: 12, net: 14, sec: 16, nsec: 20, vlan_tci: 24, vlan_tpid: 26, padding: 28,
});

/// `struct sockaddr_ll`; in an RX ring it follows the aligned packet header
/// ([`SOCKADDR_LL_OFFSET_V3`]).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct SockaddrLl {
    /// `AF_PACKET`.
    pub family: u16,
    /// EtherType, in network byte order.
    pub protocol: u16,
    /// Interface index.
    pub ifindex: i32,
    /// `ARPHRD_*`.
    pub hatype: u16,
    /// `PACKET_HOST` or a similar constant, e.g. [`PACKET_OUTGOING`].
    pub pkttype: u8,
    /// Bytes of `addr` in use.
    pub halen: u8,
    /// The sender's link-layer address.
    pub addr: [u8; 8],
}
layout!(SockaddrLl, 20, { family: 0, protocol: 2, ifindex: 4, hatype: 8, pkttype: 10, halen: 11, addr: 12 });

/// `struct tpacket_stats_v3`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct TpacketStatsV3 {
    /// Packets that passed the filter, including dropped ones.
    pub packets: u32,
    /// Packets that found no room.
    pub drops: u32,
    /// How often the ring was full; only version 3 fills this.
    pub freeze_q_cnt: u32,
}
layout!(TpacketStatsV3, 12, { packets: 0, drops: 4, freeze_q_cnt: 8 });

/// `struct packet_mreq`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct PacketMreq {
    /// Interface index.
    pub ifindex: i32,
    /// `PACKET_MR_*`.
    pub kind: u16,
    /// Bytes of `address` in use.
    pub alen: u16,
    /// The address, for the kinds that have one.
    pub address: [u8; 8],
}
layout!(PacketMreq, 16, { ifindex: 0, kind: 4, alen: 6, address: 8 });

/// `struct sock_filter`: one instruction of classic BPF.
pub use wirelane_filter::Instruction as SockFilter;

/// `struct sock_fprog`. Its padding is a field: valgrind reports uninitialised bytes, although the
/// kernel does not read them.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct SockFprog {
    len: u16,
    padding: [u8; size_of::<usize>() - 2],
    filter: *const SockFilter,
}
layout!(SockFprog, 2 * size_of::<usize>(), { len: 0, filter: size_of::<usize>() });

impl SockFprog {
    /// Points to `len` instructions at `filter`.
    pub(crate) fn new(len: u16, filter: *const SockFilter) -> Self {
        Self { len, padding: [0; size_of::<usize>() - 2], filter }
    }
}

/// `struct virtio_net_hdr` (the legacy layout of 10 bytes), before each packet with
/// `PACKET_VNET_HDR` or `IFF_VNET_HDR`; in host byte order.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VirtioNetHdr {
    /// `VIRTIO_NET_HDR_F_*`.
    pub flags: u8,
    /// `VIRTIO_NET_HDR_GSO_*`.
    pub gso_type: u8,
    /// Bytes of all headers, for a packet to be segmented.
    pub hdr_len: u16,
    /// Payload bytes per segment.
    pub gso_size: u16,
    /// Offset at which the checksum starts to cover, with [`VIRTIO_NET_HDR_F_NEEDS_CSUM`].
    pub csum_start: u16,
    /// Offset of the checksum field from `csum_start`.
    pub csum_offset: u16,
}
layout!(VirtioNetHdr, 10, { flags: 0, gso_type: 1, hdr_len: 2, gso_size: 4, csum_start: 6, csum_offset: 8 });

impl VirtioNetHdr {
    /// The bytes to pass to the kernel.
    pub fn as_bytes(&self) -> &[u8] {
        // SAFETY: plain integers without padding between or after them, as asserted above.
        unsafe { std::slice::from_raw_parts(std::ptr::from_ref(self).cast(), size_of::<Self>()) }
    }

    /// The bytes for the kernel to overwrite.
    pub fn as_bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `as_bytes`; every value of the bytes is one of the integers.
        unsafe {
            std::slice::from_raw_parts_mut(std::ptr::from_mut(self).cast(), size_of::<Self>())
        }
    }
}

/// The checksum is partial: complete it from `csum_start` on.
pub const VIRTIO_NET_HDR_F_NEEDS_CSUM: u8 = 1;
/// No segmentation.
pub const VIRTIO_NET_HDR_GSO_NONE: u8 = 0;
/// TCP over IPv4.
pub const VIRTIO_NET_HDR_GSO_TCPV4: u8 = 1;
/// UDP fragmentation.
pub const VIRTIO_NET_HDR_GSO_UDP: u8 = 3;
/// TCP over IPv6.
pub const VIRTIO_NET_HDR_GSO_TCPV6: u8 = 4;
/// UDP segmentation; Linux 6.2.
pub const VIRTIO_NET_HDR_GSO_UDP_L4: u8 = 5;
/// A flag in addition to a type: TCP with ECN.
pub const VIRTIO_NET_HDR_GSO_ECN: u8 = 0x80;

/// Alignment of the packet headers in a ring.
pub const TPACKET_ALIGNMENT: usize = 16;
/// Offset of the [`SockaddrLl`] of a packet from its [`Tpacket2Hdr`].
pub const SOCKADDR_LL_OFFSET_V2: usize =
    size_of::<Tpacket2Hdr>().next_multiple_of(TPACKET_ALIGNMENT);
/// Offset of the [`SockaddrLl`] of a packet from its [`Tpacket3Hdr`].
pub const SOCKADDR_LL_OFFSET_V3: usize =
    size_of::<Tpacket3Hdr>().next_multiple_of(TPACKET_ALIGNMENT);
/// `TPACKET3_HDRLEN`.
pub const TPACKET3_HDRLEN: usize = SOCKADDR_LL_OFFSET_V3 + size_of::<SockaddrLl>();
/// `TPACKET2_HDRLEN`.
pub const TPACKET2_HDRLEN: usize = SOCKADDR_LL_OFFSET_V2 + size_of::<SockaddrLl>();

/// The block or frame belongs to the kernel.
pub const TP_STATUS_KERNEL: u32 = 0;
/// The block or frame belongs to user space.
pub const TP_STATUS_USER: u32 = 1 << 0;
/// A packet that is longer than the frame is queued on the socket.
pub const TP_STATUS_COPY: u32 = 1 << 1;
/// Packets were dropped since the statistics were last read.
pub const TP_STATUS_LOSING: u32 = 1 << 2;
/// The device still has to compute the checksum (outgoing packets).
pub const TP_STATUS_CSUMNOTREADY: u32 = 1 << 3;
/// `vlan_tci` is valid.
pub const TP_STATUS_VLAN_VALID: u32 = 1 << 4;
/// The block was handed over at its timeout.
pub const TP_STATUS_BLK_TMO: u32 = 1 << 5;
/// `vlan_tpid` is valid; Linux 3.14.
pub const TP_STATUS_VLAN_TPID_VALID: u32 = 1 << 6;
/// TX: the frame is free.
pub const TP_STATUS_AVAILABLE: u32 = 0;
/// TX: user space requests sending the frame.
pub const TP_STATUS_SEND_REQUEST: u32 = 1 << 0;
/// TX: the device is sending the frame.
pub const TP_STATUS_SENDING: u32 = 1 << 1;
/// TX: the frame was refused.
pub const TP_STATUS_WRONG_FORMAT: u32 = 1 << 2;

/// `tpacket_req3.feature_req_word`: fill `rxhash`.
pub const TP_FT_REQ_FILL_RXHASH: u32 = 1;

/// `ETH_P_ALL` in network byte order: every protocol, both directions.
pub const ETH_P_ALL_BE: u16 = 0x0003u16.to_be();

/// `sockaddr_ll.pkttype`: to this host.
pub const PACKET_HOST: u8 = 0;
/// `sockaddr_ll.pkttype`: link-layer broadcast.
pub const PACKET_BROADCAST: u8 = 1;
/// `sockaddr_ll.pkttype`: sent by this host.
pub const PACKET_OUTGOING: u8 = 4;
/// [`SockaddrLl::pkttype`] of looped-back copies of the host's multicast, which packet rings skip.
pub const PACKET_LOOPBACK: u8 = 5;

/// Options at level `SOL_PACKET`, with the kernel version of those newer than 2.6.27.
pub(crate) mod option {
    pub(crate) const ADD_MEMBERSHIP: i32 = 1;
    pub(crate) const DROP_MEMBERSHIP: i32 = 2;
    pub(crate) const RX_RING: i32 = 5;
    pub(crate) const STATISTICS: i32 = 6;
    pub(crate) const COPY_THRESH: i32 = 7;
    /// Linux 2.6.27.
    pub(crate) const VERSION: i32 = 10;
    /// Linux 2.6.27.
    pub(crate) const RESERVE: i32 = 12;
    /// Linux 2.6.31.
    pub(crate) const TX_RING: i32 = 13;
    /// Linux 2.6.34.
    pub(crate) const VNET_HDR: i32 = 15;
    /// Linux 3.1.
    pub(crate) const FANOUT: i32 = 18;
    /// Linux 3.14.
    pub(crate) const QDISC_BYPASS: i32 = 20;
    /// Linux 4.3.
    pub(crate) const FANOUT_DATA: i32 = 22;
    /// Linux 4.20.
    pub(crate) const IGNORE_OUTGOING: i32 = 23;
    /// `PACKET_MR_PROMISC`.
    pub(crate) const MR_PROMISC: u16 = 1;
}
