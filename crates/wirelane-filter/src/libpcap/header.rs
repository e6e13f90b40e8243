//! Capture files for libpcap to read.

/// A pcap file without packets, in the byte order of this machine.
#[must_use]
pub fn file_header(link_type: i32, snaplen: i32) -> Vec<u8> {
    let magic = 0xa1b2_c3d4_u32.to_ne_bytes();
    let version = [2_u16, 4].map(u16::to_ne_bytes).concat();
    let limits = [snaplen, link_type].map(i32::to_ne_bytes).concat();
    [&magic[..], &version, &[0; 8], &limits].concat()
}
