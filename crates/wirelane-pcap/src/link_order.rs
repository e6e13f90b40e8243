//! Link headers whose numbers are in the byte order of the machine that captured.
//!
//! Only the file states this order; packets in memory have no such field, and files are written in
//! the order of this machine. So the reader converts such a header at once. libpcap converts the
//! same link types (`swap_pseudo_headers` in pcap-util.c), except for the first two. Its filter
//! compiler handles those: it asks the open file for its order (`gen_loopback_linktype` in
//! gencode.c), so a filter for one file is not valid for other sources.

const NULL: u16 = 0;
const ENC: u16 = 109;
const LINUX_SLL: u16 = 113;
const USB_LINUX: u16 = 189;
const USB_LINUX_MMAPPED: u16 = 220;
const NFLOG: u16 = 239;

/// Converts the captured part of the link header at the start of `packet` from the other byte order
/// to the order of this machine.
pub(crate) fn to_native(link_type: u16, packet: &mut [u8]) {
    match link_type {
        // The address family.
        NULL => swap(packet, 0, 4),
        // Address family, (SPI, in network order,) flags.
        ENC => [0, 8].into_iter().for_each(|at| swap(packet, at, 4)),
        LINUX_SLL => can_id(packet),
        USB_LINUX => usb(packet, false),
        USB_LINUX_MMAPPED => usb(packet, true),
        NFLOG => nflog(packet),
        _ => {}
    }
}

/// The identifier of a CAN frame behind a "cooked" header, which itself is in network order.
fn can_id(packet: &mut [u8]) {
    const CAN: [u8; 2] = [0, 0x0c];
    const CAN_FD: [u8; 2] = [0, 0x0d];
    if packet.get(14..16).is_some_and(|protocol| protocol == CAN || protocol == CAN_FD) {
        swap(packet, 16, 4);
    }
}

/// The header of usbmon (`Documentation/usb/usbmon.rst` of Linux): 48 bytes, or 64 and descriptors
/// of isochronous transfers.
fn usb(packet: &mut [u8], is_long: bool) {
    const ISOCHRONOUS: u8 = 0;
    let is_isochronous = packet.get(9) == Some(&ISOCHRONOUS);
    // id, bus, seconds, microseconds, status, length, captured length
    for (at, len) in [(0, 8), (12, 2), (16, 8), (24, 4), (28, 4), (32, 4), (36, 4)] {
        swap(packet, at, len);
    }
    if is_isochronous {
        // Errors and number of descriptors; otherwise the packet of a control transfer.
        [40, 44].into_iter().for_each(|at| swap(packet, at, 4));
    }
    if !is_long {
        return;
    }
    // interval, first frame, flags, number of descriptors
    [48, 52, 56, 60].into_iter().for_each(|at| swap(packet, at, 4));
    let count = packet.get(60..).and_then(<[u8]>::first_chunk).map(|n| u32::from_ne_bytes(*n));
    if let (true, Some(count), Some((_, descriptors))) =
        (is_isochronous, count, packet.split_at_mut_checked(64))
    {
        for descriptor in descriptors.chunks_mut(16).take(count as usize) {
            // status, offset, length
            [0, 4, 8].into_iter().for_each(|at| swap(descriptor, at, 4));
        }
    }
}

/// Length and type of every attribute of a message of NFLOG, version 0.
fn nflog(packet: &mut [u8]) {
    let Some(([_, 0, _, _], mut rest)) = packet.split_first_chunk_mut::<4>() else { return };
    while rest.len() >= 4 {
        [0, 2].into_iter().for_each(|at| swap(rest, at, 2));
        let len = rest.first_chunk().map_or(0, |len| u16::from_ne_bytes(*len));
        let len = usize::from(len).next_multiple_of(4);
        rest = match rest.split_at_mut_checked(len) {
            Some((_, next)) if len >= 4 => next,
            _ => return,
        };
    }
}

/// Swaps the number of `len` bytes at `at`, if the packet contains all of it.
fn swap(bytes: &mut [u8], at: usize, len: usize) {
    if let Some(number) = bytes.get_mut(at..at + len) {
        number.reverse();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `0, 1, 2, …`, with some bytes set.
    fn packet(len: usize, set: &[(usize, &[u8])]) -> Vec<u8> {
        let mut packet: Vec<u8> = (0..len).map(|i| i as u8 | 0x80).collect();
        set.iter().for_each(|(at, bytes)| packet[*at..*at + bytes.len()].copy_from_slice(bytes));
        packet
    }

    fn turned(link_type: u16, packet: &[u8]) -> Vec<u8> {
        let mut packet = packet.to_vec();
        to_native(link_type, &mut packet);
        packet
    }

    /// The places where two packets differ.
    fn changed(one: &[u8], other: &[u8]) -> Vec<usize> {
        (0..one.len()).filter(|i| one[*i] != other[*i]).collect()
    }

    fn places(ranges: &[(usize, usize)]) -> Vec<usize> {
        ranges.iter().flat_map(|(start, end)| *start..*end).collect()
    }

    #[test]
    fn only_what_is_in_host_order_is_turned() {
        let isochronous = (9, &[0_u8][..]);
        let one = 1_u32.swap_bytes().to_ne_bytes();
        let can = (14, &[0_u8, 0x0c][..]);
        for (link_type, packet, expected) in [
            (1, packet(99, &[]), places(&[])),
            (108, packet(99, &[]), places(&[])),
            (NULL, packet(99, &[]), places(&[(0, 4)])),
            (ENC, packet(99, &[]), places(&[(0, 4), (8, 12)])),
            (LINUX_SLL, packet(99, &[]), places(&[])),
            (LINUX_SLL, packet(99, &[can]), places(&[(16, 20)])),
            (USB_LINUX, packet(99, &[]), places(&[(0, 8), (12, 14), (16, 40)])),
            (USB_LINUX, packet(99, &[isochronous]), places(&[(0, 8), (12, 14), (16, 48)])),
            (USB_LINUX_MMAPPED, packet(99, &[]), places(&[(0, 8), (12, 14), (16, 40), (48, 64)])),
        ] {
            let turned = turned(link_type, &packet);
            assert_eq!(changed(&packet, &turned), expected, "{link_type}");
        }
        // One descriptor of an isochronous transfer, and data.
        let sent = packet(99, &[isochronous, (60, &one)]);
        let turned = turned(USB_LINUX_MMAPPED, &sent);
        let expected = places(&[(0, 8), (12, 14), (16, 60), (60, 61), (63, 64), (64, 76)]);
        assert_eq!(changed(&sent, &turned), expected);
    }

    #[test]
    fn attributes_of_nflog_are_turned_one_by_one() {
        let other = |value: u16| value.swap_bytes().to_ne_bytes();
        let attribute = |kind: u16, value: &[u8], order: fn(u16) -> [u8; 2]| {
            let mut bytes = [order(value.len() as u16 + 4), order(kind)].concat();
            bytes.extend_from_slice(value);
            bytes.resize(bytes.len().next_multiple_of(4), 7);
            bytes
        };
        let message = |order: fn(u16) -> [u8; 2]| {
            let parts = [attribute(1, b"abcd", order), attribute(9, b"x", order)];
            [&[2, 0, 0, 5][..], &parts.concat()].concat()
        };
        assert_eq!(turned(NFLOG, &message(other)), message(u16::to_ne_bytes));
        // A message of another version.
        let mut strange = message(other);
        strange[1] = 1;
        assert_eq!(turned(NFLOG, &strange), strange);
    }

    #[test]
    fn what_was_cut_off_does_no_harm() {
        let whole = packet(99, &[(1, &[0]), (6, &[0, 4]), (9, &[0]), (14, &[0, 0x0c])]);
        for link_type in [NULL, ENC, LINUX_SLL, USB_LINUX, USB_LINUX_MMAPPED, NFLOG] {
            for len in 0..whole.len() {
                assert_eq!(turned(link_type, &whole[..len]).len(), len);
            }
        }
    }
}
