//! Special addresses, which no permutation changes.

/// Whether an IPv4 address is not a unicast host address: this network, loopback, multicast,
/// reserved (RFC 6890). They are whole /8 prefixes.
#[inline]
pub(super) const fn is_special_v4(address: u32) -> bool {
    matches!(address >> 24, 0 | 127 | 224..)
}

/// Whether an IPv6 address is not a unicast host address beyond a link: unspecified, loopback,
/// mapped IPv4, link-local, multicast (RFC 6890). They are whole /8 and /10 prefixes.
#[inline]
pub(super) const fn is_special_v6(address: u128) -> bool {
    matches!(address >> 120, 0 | 0xff) || address >> 118 == 0xfe80 >> 6
}

/// Mixes the bits of a number so that each input bit flips about half of the output bits: the
/// finalizer of SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators",
/// 2014).
#[inline]
pub(super) const fn mix(mut number: u64) -> u64 {
    number = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    number = (number ^ number >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ number >> 31
}

/// Key number `index` of a seed.
#[inline]
pub(super) const fn key(seed: u64, index: u64) -> u64 {
    mix(seed.wrapping_add(index.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15)))
}
