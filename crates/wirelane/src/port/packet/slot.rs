//! The headers and metadata around a packet in a block.
#![allow(unsafe_code)]

use std::ptr::NonNull;

use wirelane_os::packet::{
    TP_STATUS_VLAN_TPID_VALID, TPACKET3_HDRLEN, Tpacket2Hdr, Tpacket3Hdr, VirtioNetHdr,
};

use super::ring::VLAN_TAG;
use crate::frame::{Frame, Meta, OFFLOAD_BYTES, Offload, PartialChecksum};

/// The least distance of a packet from the start of its header in the kernel.
pub(super) const MAC_LEAST: usize = size_of::<Meta>() + VLAN_TAG;
const _: () = assert!(TPACKET3_HDRLEN + 10 - MAC_LEAST >= OFFLOAD_BYTES);

/// Bytes of the two addresses before a tag.
const ADDRESSES: usize = 12;

/// Reads the kernel's header of a slot, converted to the header of blocks.
///
/// # Safety
/// `start` is an open slot.
#[inline(always)]
pub(super) unsafe fn read_slot(start: NonNull<u8>) -> Tpacket3Hdr {
    // SAFETY: a slot is longer, and aligned to more; any bytes are a valid header.
    let header = unsafe { start.cast::<Tpacket2Hdr>().read() };
    Tpacket3Hdr {
        sec: header.sec,
        nsec: header.nsec,
        snaplen: header.snaplen,
        len: header.len,
        status: header.status,
        mac: header.mac,
        net: header.net,
        vlan_tci: header.vlan_tci.into(),
        vlan_tpid: header.vlan_tpid,
        ..Tpacket3Hdr::default()
    }
}

/// Nanoseconds since the Unix epoch.
#[inline(always)]
pub(super) fn timestamp(header: &Tpacket3Hdr) -> u64 {
    u64::from(header.sec) * 1_000_000_000 + u64::from(header.nsec)
}

/// The bytes of the tag that the device or kernel stripped.
fn tag(header: &Tpacket3Hdr) -> [u8; VLAN_TAG] {
    const TPID_8021Q: u16 = 0x8100;
    let known = header.status & TP_STATUS_VLAN_TPID_VALID != 0;
    let [a, b] = if known { header.vlan_tpid } else { TPID_8021Q }.to_be_bytes();
    let [c, d] = (header.vlan_tci as u16).to_be_bytes();
    [a, b, c, d]
}

/// Restores the VLAN tag that the device or kernel stripped, after the two addresses of a packet in
/// a frame with headroom.
#[cold]
pub(super) fn restore_vlan_of(frame: &mut Frame, header: &Tpacket3Hdr) {
    if frame.len() < ADDRESSES || !frame.prepend(VLAN_TAG) {
        return;
    }
    let data = frame.data_mut();
    data.copy_within(VLAN_TAG..VLAN_TAG + ADDRESSES, 0);
    if let Some(place) = data.get_mut(ADDRESSES..ADDRESSES + VLAN_TAG) {
        place.copy_from_slice(&tag(header));
    }
}

/// Restores the VLAN tag that the device or kernel stripped, after the two addresses.
///
/// # Safety
/// `meta` describes a packet that the caller owns, with at least `VLAN_TAG` bytes before it.
#[cold]
pub(super) unsafe fn restore_vlan(meta: &mut Meta, header: &Tpacket3Hdr, snaplen: u32) {
    meta.original_len += VLAN_TAG as u32;
    if (meta.len as usize) < ADDRESSES {
        return;
    }
    let tag = tag(header);
    // SAFETY: by the contract, the bytes from 4 before the packet to its 12th are ours.
    unsafe {
        let start = meta.data.sub(VLAN_TAG);
        std::ptr::copy(meta.data.as_ptr(), start.as_ptr(), ADDRESSES);
        start.add(ADDRESSES).cast::<[u8; 4]>().write_unaligned(tag);
        meta.data = start;
    }
    meta.headroom -= VLAN_TAG as u32;
    meta.room += VLAN_TAG as u32;
    meta.len = (meta.len + VLAN_TAG as u32).min(snaplen);
}

/// Marks a frame for segmentation as the kernel's `header` describes. The header's offsets refer to
/// the packet before a tag of `tag` bytes was inserted.
#[cold]
pub(super) fn leave_cutting(frame: &mut Frame, header: &VirtioNetHdr, tag: u16) {
    // A packet that needs an unknown kind of segmentation must not be sent unchanged.
    let unknown = || Offload { checksum: Some(PartialChecksum::UNKNOWN), ..Offload::default() };
    let mut offload = Offload::from_virtio(header).unwrap_or_else(unknown);
    if let Some(place) = &mut offload.checksum {
        place.start = place.start.saturating_add(tag);
    }
    // The room in front of the packet is larger than the offload (`MAC_LEAST`).
    let fits = frame.set_offload(offload);
    debug_assert!(fits);
}

/// Prefetches a later header and the start of its packet from the cache of the CPU that received
/// it. Assumes that packets are about as long as this one.
#[inline(always)]
pub(super) fn prefetch(start: NonNull<u8>, slot: usize) {
    const AHEAD: usize = 4;
    const LINE: usize = 64;
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch reads nothing, whatever the address.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let header = start.as_ptr().wrapping_add(AHEAD * slot).cast_const();
        _mm_prefetch::<_MM_HINT_T0>(header.cast());
        _mm_prefetch::<_MM_HINT_T0>(header.wrapping_add(LINE).cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (start, slot, AHEAD, LINE);
}
