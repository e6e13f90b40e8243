//! How large the rings are.

/// What libpcap takes for one ring, if the program does not say.
const DEFAULT: usize = 2 << 20;
/// Up to this much, each ring gets what libpcap's only ring has, so that a burst on one queue fits.
const EACH: usize = 32 << 20;
/// Four blocks of 128 KiB, the least for uncut packets of segmentation offload.
const LEAST: usize = 512 << 10;
/// The most that a ring can have.
const MOST: usize = 4 << 30;

/// Bytes of each of `rings` rings, where the program asked for `buffer_size` bytes in all; 0 is the default.
pub(super) fn ring_bytes(buffer_size: usize, rings: usize) -> usize {
    let rings = rings.max(1);
    let asked = if buffer_size == 0 { DEFAULT } else { buffer_size };
    let burst = asked.min(DEFAULT);
    let all = asked.max(rings.saturating_mul(burst).min(EACH));
    (all / rings).clamp(LEAST, MOST)
}

/// The part of each of `rings` rings of `all` bytes, which the user asked for.
pub(super) fn share(all: usize, rings: usize) -> usize {
    (all / rings.max(1)).clamp(SMALLEST, MOST)
}

/// What the packet port accepts.
const SMALLEST: usize = 16 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_rings_have_the_default_each_and_many_share() {
        assert_eq!(ring_bytes(0, 1), 2 << 20);
        assert_eq!(ring_bytes(0, 9), 2 << 20);
        assert_eq!(ring_bytes(0, 33), (32 << 20) / 33);
        assert_eq!(ring_bytes(0, 129), 512 << 10);
        assert_eq!(ring_bytes(64 << 20, 3), (64 << 20) / 3);
        assert_eq!(ring_bytes(1, 3), 512 << 10);
        assert_eq!(ring_bytes(usize::MAX, 0), 4 << 30);
        assert_eq!(
            (share(1 << 20, 2), share(1, 9), share(1 << 20, 0)),
            (512 << 10, 16 << 10, 1 << 20)
        );
    }
}
