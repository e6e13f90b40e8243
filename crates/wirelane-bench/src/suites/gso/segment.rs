//! The cost of a segment, without stack, queue and port: one core, warm memory.

use std::hint::black_box;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::time::Instant;
use wirelane::frame::{Gso, Offload};

use wirelane_wire::{MacAddr, Tcp, TcpFlags, WireError, packet};

use wirelane::internal::checksum;
use wirelane::internal::frame::Sink;
use wirelane::internal::segment::{SegmentClass, Segmenter, Verdict};

/// Payload of the frame that is segmented: 44 segments of 1460 bytes.
pub const PAYLOAD: usize = 44 * MSS;
/// Payload per segment of TCP over IPv4 on Ethernet.
pub const MSS: usize = 1460;

/// The form of the segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SegmentForm {
    /// Each segment is copied to a separate buffer.
    Copy,
    /// A header block for each segment; the payload stays in the frame.
    Slices,
}

/// A frame of `payload` bytes, with an offload that segments it to `mss`.
///
/// # Errors
/// [`WireError::Malformed`] when the payload is longer than IP allows.
pub fn super_frame(
    class: SegmentClass,
    payload: usize,
    mss: u16,
) -> Result<(Vec<u8>, Offload), WireError> {
    let gso = match class {
        SegmentClass::Tcp4 => Gso::Tcp4,
        SegmentClass::Tcp6 => Gso::Tcp6,
        SegmentClass::Udp4 | SegmentClass::Udp6 => Gso::Udp,
        SegmentClass::Frag4 | SegmentClass::Frag6 => Gso::UdpFragment,
    };
    let is_tcp = matches!(gso, Gso::Tcp4 | Gso::Tcp6);
    let v6 = matches!(class, SegmentClass::Tcp6 | SegmentClass::Udp6 | SegmentClass::Frag6);
    let payload = (0..payload).map(|i| (i as u32).wrapping_mul(2_654_435_761).to_le_bytes()[3]);
    let payload: Vec<u8> = payload.collect();
    let link = packet::ethernet(MacAddr([2; 6]), MacAddr([2, 0, 0, 0, 0, 2]));
    let v4 = link.ipv4(Ipv4Addr::new(192, 0, 2, 1), Ipv4Addr::new(192, 0, 2, 2));
    let (source, destination) = (40_000, 9);
    let flags = TcpFlags::ACK.with(TcpFlags::PSH);
    let tcp = Tcp { sequence: 1, acknowledgment: 1, flags, ..Tcp::between(source, destination) };
    let packet = match (v6, is_tcp) {
        (false, true) => v4.tcp(tcp, &payload),
        // Fragments need an identification.
        (false, false) => v4.identification(1).udp(source, destination, &payload),
        (true, true) => link.ipv6(Ipv6Addr::LOCALHOST, Ipv6Addr::LOCALHOST).tcp(tcp, &payload),
        (true, false) => {
            let ip = link.ipv6(Ipv6Addr::LOCALHOST, Ipv6Addr::LOCALHOST);
            ip.udp(source, destination, &payload)
        }
    };
    let mut frame = vec![0; packet.len()];
    packet.emit(&mut frame)?;
    Ok((frame, Offload { gso, size: mss, ..Offload::default() }))
}

/// Segments `frame` `rounds` times, into at most 64 segments each. Returns nanoseconds per segment,
/// with all checksums complete. `None` if the segmenter refuses the frame.
///
/// Segments are written to buffers of 2 KiB, one after the other, as in a TX ring.
pub fn segment(frame: &[u8], offload: &Offload, form: SegmentForm, rounds: usize) -> Option<f64> {
    const BUFFER: usize = 2048;
    let mut segmenter = Segmenter::new(Sink::ethernet());
    let mut out = vec![[0; BUFFER]; 64];
    let mut payloads = vec![0..0; 64];
    let mut turn = || {
        let mut verdict = segmenter.plan(black_box(frame), black_box(offload));
        let Verdict::Segment(cursor) = &mut verdict else { return 0 };
        match form {
            SegmentForm::Copy => {
                let taken = cursor.copies(frame, &mut out, |_, _| {});
                segmenter.sent_all(cursor, &taken.unwrap_or_default());
                black_box(&mut out);
            }
            SegmentForm::Slices => {
                // The position of the payload, for a sink with scatter-gather.
                let mut payloads = payloads.iter_mut();
                let taken = cursor.slices(frame, &mut out, |_, segment| {
                    if let Some(payload) = payloads.next() {
                        *payload = segment.payload;
                    }
                });
                segmenter.sent_all(cursor, &taken.unwrap_or_default());
                black_box(&out);
                black_box(&payloads);
            }
        }
        cursor.emitted()
    };
    turn();
    let begin = Instant::now();
    let segments: u64 = (0..rounds).map(|_| u64::from(turn())).sum();
    (segments > 0).then(|| begin.elapsed().as_nanos() as f64 / segments as f64)
}

/// Bytes per nanosecond (GB/s) of the checksum over `length` bytes, in the cache.
pub fn checksum_rate(length: usize, rounds: usize) -> f64 {
    let bytes = vec![0x5a; length];
    let begin = Instant::now();
    for _ in 0..rounds {
        black_box(checksum::sum(black_box(&bytes)));
    }
    (length * rounds) as f64 / begin.elapsed().as_nanos() as f64
}
