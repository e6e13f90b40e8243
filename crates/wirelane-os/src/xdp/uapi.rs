//! The structures and constants of `linux/if_xdp.h`.
//!
//! Sizes and offsets are asserted at compile time. AF_XDP exists since Linux 4.18; later additions
//! name their version.

use std::mem::{offset_of, size_of};

use crate::socket::Plain;

/// Asserts the size of a structure and the offset of every field.
macro_rules! layout {
    ($type:ty, $size:expr, { $($field:ident: $offset:expr),* $(,)? }) => {
        const _: () = assert!(size_of::<$type>() == $size);
        $(const _: () = assert!(offset_of!($type, $field) == $offset);)*
    };
}

/// `struct sockaddr_xdp`: the address to bind a socket to.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct SockaddrXdp {
    /// `AF_XDP`.
    pub family: u16,
    /// `XDP_*` bind flags.
    pub flags: u16,
    /// Interface index.
    pub ifindex: u32,
    /// Queue of the interface.
    pub queue_id: u32,
    /// With [`XDP_SHARED_UMEM`]: the socket whose UMEM to use.
    pub shared_umem_fd: u32,
}
layout!(SockaddrXdp, 16, { family: 0, flags: 2, ifindex: 4, queue_id: 8, shared_umem_fd: 12 });

/// `struct xdp_umem_reg`: memory for receiving and sending.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct XdpUmemReg {
    /// First byte; page-aligned.
    pub addr: u64,
    /// Bytes.
    pub len: u64,
    /// Bytes per chunk.
    pub chunk_size: u32,
    /// Bytes that the kernel reserves in a chunk, in addition to [`XDP_PACKET_HEADROOM`].
    pub headroom: u32,
    /// `XDP_UMEM_*`; Linux 5.4.
    pub flags: u32,
    /// Bytes of [metadata](XDP_UMEM_TX_METADATA_LEN) before a packet to send; Linux 6.8.
    pub tx_metadata_len: u32,
}
layout!(XdpUmemReg, 32, {
    addr: 0, len: 8, chunk_size: 16, headroom: 20, flags: 24, tx_metadata_len: 28,
});
// SAFETY: integers that fill the structure.
unsafe impl Plain for XdpUmemReg {}

/// `struct xdp_ring_offset`: offsets of the parts of a mapped ring.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct XdpRingOffset {
    /// The producer's index, a 32-bit word.
    pub producer: u64,
    /// The consumer's index, a 32-bit word.
    pub consumer: u64,
    /// The elements.
    pub desc: u64,
    /// `XDP_RING_*`, a 32-bit word; Linux 5.4.
    pub flags: u64,
}
layout!(XdpRingOffset, 32, { producer: 0, consumer: 8, desc: 16, flags: 24 });

/// `struct xdp_mmap_offsets`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct XdpMmapOffsets {
    /// Received packets, from the kernel.
    pub rx: XdpRingOffset,
    /// Packets to send, to the kernel.
    pub tx: XdpRingOffset,
    /// The fill ring: chunks to receive into, to the kernel.
    pub fr: XdpRingOffset,
    /// The completion ring: packets sent, from the kernel.
    pub cr: XdpRingOffset,
}
layout!(XdpMmapOffsets, 128, { rx: 0, tx: 32, fr: 64, cr: 96 });
// SAFETY: integers that fill the structure.
unsafe impl Plain for XdpMmapOffsets {}

/// `struct xdp_statistics`: counted by the kernel since the socket was made.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct XdpStatistics {
    /// Packets dropped because no chunk was available, or because they were too long (copy mode).
    pub rx_dropped: u64,
    /// Invalid descriptors of the fill ring.
    pub rx_invalid_descs: u64,
    /// Descriptors of the TX ring that the kernel skipped, without a completion.
    pub tx_invalid_descs: u64,
    /// Packets dropped because the RX ring was full; Linux 5.9.
    pub rx_ring_full: u64,
    /// How often the kernel needed a chunk while the fill ring was empty; Linux 5.9.
    pub rx_fill_ring_empty_descs: u64,
    /// How often the kernel read an empty TX ring; Linux 5.9.
    pub tx_ring_empty_descs: u64,
}
layout!(XdpStatistics, 48, {
    rx_dropped: 0, rx_invalid_descs: 8, tx_invalid_descs: 16, rx_ring_full: 24, rx_fill_ring_empty_descs: 32,
    tx_ring_empty_descs: 40,
});
// SAFETY: integers that fill the structure.
unsafe impl Plain for XdpStatistics {}

/// `struct xdp_desc`: an element of the RX and the TX ring. Elements of the fill and the completion
/// ring are 64-bit addresses.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct XdpDesc {
    /// Offset of the packet in the UMEM. With unaligned chunks, the lower 48 bits are the chunk and
    /// the upper 16 the offset in it; see [`XdpDesc::address`].
    pub addr: u64,
    /// Bytes.
    pub len: u32,
    /// `XDP_PKT_CONTD`, `XDP_TX_METADATA`.
    pub options: u32,
}
layout!(XdpDesc, 16, { addr: 0, len: 8, options: 12 });

impl XdpDesc {
    /// Offset of the packet, for both kinds of chunks.
    #[inline(always)]
    pub fn address(&self) -> u64 {
        address(self.addr)
    }
}

/// The offset that an address of a ring refers to, for both kinds of chunks: in an aligned one, the
/// upper bits are 0.
#[inline(always)]
pub fn address(raw: u64) -> u64 {
    const SHIFT: u32 = 48;
    (raw & ((1 << SHIFT) - 1)) + (raw >> SHIFT)
}

/// `struct xsk_tx_metadata`, only the requests: operations on a packet to send. It ends where the
/// packet begins, and is used if the descriptor has [`XDP_TX_METADATA`]. Linux 6.8; the last field
/// since 6.15.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct XskTxMetadata {
    /// [`XDP_TXMD_FLAGS_TIMESTAMP`], [`XDP_TXMD_FLAGS_CHECKSUM`], [`XDP_TXMD_FLAGS_LAUNCH_TIME`].
    pub flags: u64,
    /// First byte that the checksum covers, from the start of the packet.
    pub csum_start: u16,
    /// Offset of the checksum field from `csum_start`.
    pub csum_offset: u16,
    /// Reserved.
    pub reserved: u32,
    /// The time to send the packet, for devices that support it.
    pub launch_time: u64,
}
layout!(XskTxMetadata, 24, { flags: 0, csum_start: 8, csum_offset: 10, reserved: 12, launch_time: 16 });

impl XskTxMetadata {
    /// Requests the checksum, in addition to earlier requests.
    pub fn checksum(self, csum_start: u16, csum_offset: u16) -> Self {
        Self { flags: self.flags | XDP_TXMD_FLAGS_CHECKSUM, csum_start, csum_offset, ..self }
    }

    /// Requests the time of sending, in addition to earlier requests.
    pub fn timestamp(self) -> Self {
        Self { flags: self.flags | XDP_TXMD_FLAGS_TIMESTAMP, ..self }
    }

    /// Requests sending at this time of the device's clock, in addition to earlier requests.
    pub fn launch(self, launch_time: u64) -> Self {
        Self { flags: self.flags | XDP_TXMD_FLAGS_LAUNCH_TIME, launch_time, ..self }
    }

    /// Whether there is no request.
    pub fn is_none(&self) -> bool {
        self.flags == 0
    }

    /// The time when the packet was sent: in copy mode on the kernel's TAI clock, otherwise on the
    /// clock of the device. The kernel overwrites the request with it (`xsk_tx_metadata_complete`,
    /// `xsk_destruct_skb`).
    pub fn left_at(bytes: &[u8; size_of::<Self>()]) -> u64 {
        u64::from_ne_bytes(bytes.as_chunks::<8>().0[1])
    }

    /// The bytes in memory.
    #[inline(always)]
    pub fn bytes(&self) -> [u8; size_of::<Self>()] {
        let mut bytes = [0; size_of::<Self>()];
        bytes[..8].copy_from_slice(&self.flags.to_ne_bytes());
        bytes[8..10].copy_from_slice(&self.csum_start.to_ne_bytes());
        bytes[10..12].copy_from_slice(&self.csum_offset.to_ne_bytes());
        bytes[16..].copy_from_slice(&self.launch_time.to_ne_bytes());
        bytes
    }
}

/// Options of `SOL_XDP`.
pub(crate) mod option {
    pub(crate) const MMAP_OFFSETS: i32 = 1;
    pub(crate) const RX_RING: i32 = 2;
    pub(crate) const TX_RING: i32 = 3;
    pub(crate) const UMEM_REG: i32 = 4;
    pub(crate) const UMEM_FILL_RING: i32 = 5;
    pub(crate) const UMEM_COMPLETION_RING: i32 = 6;
    pub(crate) const STATISTICS: i32 = 7;
    /// Linux 5.3.
    pub(crate) const OPTIONS: i32 = 8;
    /// Linux 6.17.
    pub(crate) const MAX_TX_SKB_BUDGET: i32 = 9;
}

/// Offsets at which the rings are mapped.
pub(crate) mod page_offset {
    pub(crate) const RX_RING: u64 = 0;
    pub(crate) const TX_RING: u64 = 0x8000_0000;
    pub(crate) const FILL_RING: u64 = 0x1_0000_0000;
    pub(crate) const COMPLETION_RING: u64 = 0x1_8000_0000;
}

/// Address family of the sockets.
pub const AF_XDP: u16 = 44;
/// Level of the socket options.
pub const SOL_XDP: i32 = 283;

/// Bind: use the UMEM of another socket; across queues and interfaces since Linux 5.10. Excludes
/// the other flags.
pub const XDP_SHARED_UMEM: u16 = 1 << 0;
/// Bind: let the kernel copy.
pub const XDP_COPY: u16 = 1 << 1;
/// Bind: let the device read and write the UMEM, or fail.
pub const XDP_ZEROCOPY: u16 = 1 << 2;
/// Bind: the rings indicate when the kernel must be woken up; Linux 5.4.
pub const XDP_USE_NEED_WAKEUP: u16 = 1 << 3;
/// Bind: packets may have several descriptors; Linux 6.6.
pub const XDP_USE_SG: u16 = 1 << 4;

/// UMEM: chunks begin anywhere and have any size; Linux 5.4.
pub const XDP_UMEM_UNALIGNED_CHUNK_FLAG: u32 = 1 << 0;
/// UMEM: `tx_metadata_len` is valid; Linux 6.11 requires this flag.
pub const XDP_UMEM_TX_METADATA_LEN: u32 = 1 << 2;

/// Ring flags: the kernel sleeps and must be woken up for this ring; Linux 5.4.
pub const XDP_RING_NEED_WAKEUP: u32 = 1 << 0;

/// `XDP_OPTIONS`: the socket is in zero-copy mode.
pub const XDP_OPTIONS_ZEROCOPY: u32 = 1 << 0;

/// Descriptor: the packet continues in the next one; Linux 6.6.
pub const XDP_PKT_CONTD: u32 = 1 << 0;
/// Descriptor to send: metadata precedes the packet; Linux 6.8.
pub const XDP_TX_METADATA: u32 = 1 << 1;

/// Metadata: requests the time of sending; Linux 6.8.
pub const XDP_TXMD_FLAGS_TIMESTAMP: u64 = 1 << 0;
/// Metadata: requests the checksum; Linux 6.8.
pub const XDP_TXMD_FLAGS_CHECKSUM: u64 = 1 << 1;
/// Metadata: requests sending at a given time; Linux 6.15.
pub const XDP_TXMD_FLAGS_LAUNCH_TIME: u64 = 1 << 2;

/// Bytes that the kernel reserves before every received packet (`include/uapi/linux/bpf.h`).
pub const XDP_PACKET_HEADROOM: u32 = 256;
/// The smallest chunk (`net/xdp/xdp_umem.c`); the largest is a page.
pub const XDP_UMEM_MIN_CHUNK_SIZE: u32 = 2048;
/// Packets that one `sendto` sends in copy mode, unless
/// [`XDP_MAX_TX_SKB_BUDGET`](super::XskSocket::set_tx_budget) changes it (`net/xdp/xsk.c`).
pub const TX_BATCH_SIZE: u32 = 32;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_lie_where_the_kernel_looks() {
        let all =
            XskTxMetadata::default().timestamp().checksum(14, 16).launch(0x0102_0304_0506_0708);
        let bytes = all.bytes();
        assert_eq!(bytes[..8], 7u64.to_ne_bytes());
        assert_eq!(bytes[8..12], [14u16.to_ne_bytes(), 16u16.to_ne_bytes()].concat());
        assert_eq!(bytes[16..], 0x0102_0304_0506_0708_u64.to_ne_bytes());
        assert!(!all.is_none() && XskTxMetadata::default().is_none());
    }

    #[test]
    fn addresses_of_both_kinds_of_chunks() {
        assert_eq!(address(0x12_3456), 0x12_3456);
        assert_eq!(XdpDesc { addr: 256 << 48 | 3000, len: 60, options: 0 }.address(), 3256);
    }
}
