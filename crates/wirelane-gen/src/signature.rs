//! Signatures: marks at the end of a payload that identify a packet at the receiver.
//!
//! ```text
//!   0       4     7         11          16    18
//!   │ check │ flow │ sequence │ time      │ comp │   big-endian, the last 18 bytes of the packet
//! ```
//!
//! * **flow** identifies one stream on one sending thread ([`flow`]).
//! * **sequence** counts the packets of the flow, modulo 2³².
//! * **time** is the departure on the sender's monotonic clock in nanoseconds, modulo 2⁴⁰ (18
//!   minutes).
//! * **check** is a hash of the three fields with the [`SignatureKey`] of the run. It distinguishes
//!   signed packets from ordinary traffic and from packets of other runs.
//! * **compensation** makes the one's complement sum of the 18 bytes 0xffff, which is equivalent to
//!   zero (RFC 1071). A transport checksum that is correct for 18 zero bytes is correct for every
//!   signature, at even and odd offsets. So signing a packet does not change its checksum.
//!
//! `check` needs only a few 64-bit operations and no tables, so that an XDP program can also sign
//! packets:
//!
//! ```text
//!   w0 = bytes 4..12, w1 = bytes 12..16         both as big-endian numbers
//!   x = (w0 ^ key) * M0;  x ^= x >> 32
//!   x = (x ^ w1) * M1;    check = x >> 32
//! ```

use crate::source::ThreadShare;

/// The length of a signature in bytes.
pub const LEN: usize = 18;

/// The number of flows.
pub const FLOWS: u32 = 1 << 24;

/// The modulus of times, in nanoseconds.
pub const TIME_SPAN: u64 = 1 << 40;

/// The first multiplier of the check.
pub const M0: u64 = 0x9e37_79b9_7f4a_7c15;

/// The second multiplier of the check.
pub const M1: u64 = 0xd6e8_feb8_6659_fd93;

/// The key that distinguishes the packets of one run from all others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SignatureKey(pub u64);

/// The contents of a signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signature {
    /// The flow number, below [`FLOWS`].
    pub flow: u32,
    /// The packet number in the flow, modulo 2³².
    pub sequence: u32,
    /// The departure in nanoseconds, modulo [`TIME_SPAN`].
    pub time: u64,
}

/// The flow number of a stream on one lane, as each lane numbers its packets separately. `None` for
/// [`FLOWS`] and above.
pub fn flow(stream: u32, lane: ThreadShare) -> Option<u32> {
    stream.checked_mul(lane.of)?.checked_add(lane.index).filter(|flow| *flow < FLOWS)
}

/// The stream and the lane index of a flow, for `lanes` lanes.
pub fn stream_and_lane(flow: u32, lanes: u32) -> (u32, u32) {
    let lanes = lanes.max(1);
    (flow / lanes, flow % lanes)
}

/// Nanoseconds from the departure `time` of a signature to `now` on the same clock, modulo
/// [`TIME_SPAN`]. `None` from half of the span on: then `now` is assumed to be earlier than `time`.
pub fn elapsed(time: u64, now: u64) -> Option<u64> {
    let elapsed = now.wrapping_sub(time) % TIME_SPAN;
    (elapsed < TIME_SPAN / 2).then_some(elapsed)
}

impl Signature {
    /// Writes the signature into the last [`LEN`] bytes of `packet`. Returns false if there is no
    /// room.
    pub fn write(self, key: SignatureKey, packet: &mut [u8]) -> bool {
        let Some(place) = packet.last_chunk_mut::<LEN>() else {
            return false;
        };
        let (w0, w1) = self.words();
        store(w0, w1, key, place);
        true
    }

    /// Parses the signature at the end of `packet`, if it has this `key`.
    #[inline]
    pub fn parse(key: SignatureKey, packet: &[u8]) -> Option<Self> {
        let (check, w0, w1, compensation) = load(packet.last_chunk::<LEN>()?);
        let own = check == hash(w0, w1, key) && compensation == complement(check, w0, w1);
        own.then_some(Self {
            flow: (w0 >> 40) as u32,
            sequence: (w0 >> 8) as u32,
            time: ((w0 & 0xff) << 32) | u64::from(w1),
        })
    }

    /// The 12 hashed bytes as two big-endian numbers: bytes 4 to 12 and 12 to 16.
    fn words(self) -> (u64, u32) {
        let time = self.time % TIME_SPAN;
        let flow = u64::from(self.flow % FLOWS);
        ((flow << 40) | (u64::from(self.sequence) << 8) | (time >> 32), time as u32)
    }
}

/// Replaces the `time` in the signature at the end of `packet`, and keeps flow and sequence.
/// Returns false if the packet is too short for a signature.
pub fn restamp(key: SignatureKey, packet: &mut [u8], time: u64) -> bool {
    let Some(place) = packet.last_chunk_mut::<LEN>() else {
        return false;
    };
    let (_, w0, _, _) = load(place);
    let time = time % TIME_SPAN;
    store((w0 & !0xff) | (time >> 32), time as u32, key, place);
    true
}

fn store(w0: u64, w1: u32, key: SignatureKey, place: &mut [u8; LEN]) {
    let check = hash(w0, w1, key);
    place[..4].copy_from_slice(&check.to_be_bytes());
    place[4..12].copy_from_slice(&w0.to_be_bytes());
    place[12..16].copy_from_slice(&w1.to_be_bytes());
    place[16..].copy_from_slice(&complement(check, w0, w1).to_be_bytes());
}

#[inline]
fn load(place: &[u8; LEN]) -> (u32, u64, u32, u16) {
    let [c0, c1, c2, c3, a0, a1, a2, a3, a4, a5, a6, a7, b0, b1, b2, b3, s0, s1] = *place;
    (
        u32::from_be_bytes([c0, c1, c2, c3]),
        u64::from_be_bytes([a0, a1, a2, a3, a4, a5, a6, a7]),
        u32::from_be_bytes([b0, b1, b2, b3]),
        u16::from_be_bytes([s0, s1]),
    )
}

/// The check over the 12 bytes of flow, sequence and time. The formula is part of the format.
#[inline]
pub fn hash(w0: u64, w1: u32, key: SignatureKey) -> u32 {
    let mut x = (w0 ^ key.0).wrapping_mul(M0);
    x ^= x >> 32;
    x = (x ^ u64::from(w1)).wrapping_mul(M1);
    (x >> 32) as u32
}

/// The difference of the one's complement sum of the other 16 bytes to 0xffff.
#[inline]
fn complement(check: u32, w0: u64, w1: u32) -> u16 {
    let mut sum = u64::from(check) + (w0 >> 32) + (w0 & 0xffff_ffff) + u64::from(w1);
    sum = (sum & 0xffff) + ((sum >> 16) & 0xffff) + (sum >> 32);
    sum = (sum & 0xffff) + (sum >> 16);
    sum = (sum & 0xffff) + (sum >> 16);
    !(sum as u16)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const KEY: SignatureKey = SignatureKey(0x0123_4567_89ab_cdef);

    /// An independent implementation of RFC 1071.
    fn sum(bytes: &[u8]) -> u16 {
        let mut sum = 0u32;
        for pair in bytes.chunks(2) {
            sum += u32::from(pair[0]) << 8 | pair.get(1).map_or(0, |byte| u32::from(*byte));
            sum = (sum & 0xffff) + (sum >> 16);
        }
        sum as u16
    }

    fn random_bytes(seed: u64, len: usize) -> Vec<u8> {
        let mut state = seed | 1;
        let next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 32) as u8
        };
        std::iter::repeat_with(next).take(len).collect()
    }

    #[test]
    fn the_layout_is_fixed() {
        let mut packet = [0xaa; 20];
        let signature = Signature { flow: 0x01_0203, sequence: 0x0405_0607, time: 0x08_090a_0b0c };
        assert!(signature.write(KEY, &mut packet));
        assert_eq!(packet[..2], [0xaa; 2]);
        assert_eq!(packet[6..18], [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]);
        // The kernel engine computes the same bytes, so they must never change.
        assert_eq!(packet[2..6], hash(0x0102_0304_0506_0708, 0x090a_0b0c, KEY).to_be_bytes());
        assert_eq!(hash(0, 0, SignatureKey(1)), 0x17fb_89ee);
    }

    #[test]
    fn too_short_packets_have_no_room() {
        let signature = Signature { flow: 1, sequence: 2, time: 3 };
        assert!(!signature.write(KEY, &mut [0; LEN - 1]));
        assert!(!restamp(KEY, &mut [0; LEN - 1], 5));
        assert_eq!(Signature::parse(KEY, &[0; LEN - 1]), None);
    }

    #[test]
    fn flows_number_streams_and_lanes() {
        for lanes in 1..5 {
            for stream in [0, 1, 77] {
                for index in 0..lanes {
                    let flow = flow(stream, ThreadShare { index, of: lanes }).unwrap();
                    assert_eq!(stream_and_lane(flow, lanes), (stream, index));
                }
            }
        }
        assert_eq!(flow(FLOWS - 1, ThreadShare::ALL), Some(FLOWS - 1));
        assert_eq!(flow(FLOWS, ThreadShare::ALL), None);
        assert_eq!(flow(u32::MAX, ThreadShare { index: 0, of: 2 }), None);
    }

    #[test]
    fn times_wrap() {
        assert_eq!(elapsed(10, 25), Some(15));
        assert_eq!(elapsed(TIME_SPAN - 5, 3 * TIME_SPAN + 5), Some(10));
        assert_eq!(elapsed(25, 10), None);
    }

    #[test]
    fn ordinary_traffic_is_not_signed() {
        let constant = [0x00u8, 0xff, 0x5a].map(|byte| vec![byte; 64]);
        let text = b"GET / HTTP/1.1\r\nHost: example.net\r\nAccept: */*\r\n\r\n".to_vec();
        let counted: Vec<u8> = (0..=255).collect();
        for ordinary in constant.iter().chain([&text, &counted]) {
            for end in LEN..=ordinary.len() {
                for key in [SignatureKey(0), KEY, SignatureKey(u64::MAX)] {
                    assert_eq!(Signature::parse(key, &ordinary[..end]), None);
                }
            }
        }
        let noise = random_bytes(7, 2_000_000);
        let mistaken = noise.windows(LEN).filter(|end| Signature::parse(KEY, end).is_some());
        assert_eq!(mistaken.count(), 0);
    }

    #[test]
    fn the_check_spreads() {
        // Checks of consecutive packets of a flow must not repeat, as they would be guessable.
        // Among 65,536 random 32-bit numbers, about one pair is equal.
        let checks: std::collections::HashSet<u32> = (0..65_536u64)
            .map(|sequence| hash((1 << 40) | (sequence << 8), sequence as u32 * 1000, KEY))
            .collect();
        assert!(checks.len() > 65_500, "{}", checks.len());
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
            flow in 0..FLOWS, sequence: u32, time in 0..TIME_SPAN, key: u64, len in LEN..200,
        ) {
            let signature = Signature { flow, sequence, time };
            let mut packet = random_bytes(key, len);
            let before = packet.clone();
            prop_assert!(signature.write(SignatureKey(key), &mut packet));
            prop_assert_eq!(&packet[..len - LEN], &before[..len - LEN]);
            prop_assert_eq!(Signature::parse(SignatureKey(key), &packet), Some(signature));
            prop_assert_eq!(Signature::parse(SignatureKey(key ^ 1), &packet), None);
        }

        #[test]
        fn a_changed_bit_is_noticed(
            flow in 0..FLOWS, sequence: u32, time in 0..TIME_SPAN, bit in 0..LEN * 8,
        ) {
            let mut packet = [0; LEN];
            Signature { flow, sequence, time }.write(KEY, &mut packet);
            packet[bit / 8] ^= 1 << (bit % 8);
            prop_assert_eq!(Signature::parse(KEY, &packet), None);
        }

        #[test]
        fn checksums_stay_right(
            flow in 0..FLOWS, sequence: u32, time: u64, later: u64, front in 1usize..40, seed: u64,
        ) {
            // Compares with 18 zero bytes, at even and odd offsets.
            let mut packet = random_bytes(seed, front);
            packet[0] |= 1;
            packet.extend([0; LEN]);
            let before = sum(&packet);
            Signature { flow, sequence, time }.write(KEY, &mut packet);
            prop_assert_eq!(sum(&packet[front..]), 0xffff);
            prop_assert_eq!(sum(&packet), before);
            restamp(KEY, &mut packet, later);
            prop_assert_eq!(sum(&packet), before);
            let time = later % TIME_SPAN;
            prop_assert_eq!(
                Signature::parse(KEY, &packet), Some(Signature { flow, sequence, time })
            );
        }
    }
}
