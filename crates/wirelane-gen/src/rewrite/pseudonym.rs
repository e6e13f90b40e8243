//! Prefix-preserving pseudonyms: if two addresses share exactly their first n bits, so do their
//! pseudonyms (Xu, Fan, Ammar, Moon: "Prefix-preserving IP address anonymization", 2002). Use them
//! only for test traffic: the mixing function is not a cipher, so they do not resist attackers.

use super::special::{is_special_v4, is_special_v6, key, mix};

/// A permutation of host addresses, selected by a seed.
#[derive(Clone, Debug)]
pub(super) struct Pseudonyms {
    v4: u64,
    v6: u64,
}

impl Pseudonyms {
    pub(super) fn new(seed: u64) -> Self {
        Self { v4: key(seed, 0), v6: key(seed, 1) }
    }

    /// The pseudonym of an IPv4 address. Special addresses stay the same.
    pub(super) fn v4(&self, address: u32) -> u32 {
        // Special addresses are whole /8 prefixes, and so are the addresses that map to them. A
        // whole prefix takes another pass, so its addresses still share their bits.
        walk(address, is_special_v4, |it| self.pass_v4(it, false))
    }

    /// The IPv4 address with this pseudonym.
    pub(super) fn original_v4(&self, pseudonym: u32) -> u32 {
        walk(pseudonym, is_special_v4, |it| self.pass_v4(it, true))
    }

    /// The pseudonym of an IPv6 address. Special addresses stay the same.
    pub(super) fn v6(&self, address: u128) -> u128 {
        walk(address, is_special_v6, |it| self.pass_v6(it, false))
    }

    /// The IPv6 address with this pseudonym.
    pub(super) fn original_v6(&self, pseudonym: u128) -> u128 {
        walk(pseudonym, is_special_v6, |it| self.pass_v6(it, true))
    }

    /// Flips each bit depending on the preceding bits of the address: in `number`, or for the
    /// inverse in the result.
    fn pass_v4(&self, number: u32, back: bool) -> u32 {
        let mut result = 0_u32;
        for bit in (0..32).rev() {
            let known = u64::from(if back { result } else { number }) >> bit >> 1;
            // The leading one encodes the number of known bits.
            let flip = mix(self.v4 ^ (known | 1 << (31 - bit))) as u32 & 1;
            result |= (number >> bit & 1 ^ flip) << bit;
        }
        result
    }

    fn pass_v6(&self, number: u128, back: bool) -> u128 {
        let mut result = 0_u128;
        for bit in (0..128_u32).rev() {
            let known = (if back { result } else { number }) >> bit >> 1;
            let (high, low) = ((known >> 64) as u64, known as u64);
            let length = u64::from(bit).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let flip = mix(mix(self.v6 ^ high ^ length) ^ low) & 1;
            result |= (number >> bit & 1 ^ u128::from(flip)) << bit;
        }
        result
    }
}

/// Repeats a permutation until the address is not special. The result is a permutation of the
/// addresses that are not special.
fn walk<T: Copy>(address: T, is_special: impl Fn(T) -> bool, pass: impl Fn(T) -> T) -> T {
    if is_special(address) {
        return address;
    }
    let mut address = pass(address);
    while is_special(address) {
        address = pass(address);
    }
    address
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn pseudonyms_keep_prefixes_and_invert(seed: u64, a: u32, b: u32, cut in 0_u32..33) {
            let pseudonyms = Pseudonyms::new(seed);
            prop_assert_eq!(pseudonyms.original_v4(pseudonyms.v4(a)), a);
            prop_assert_eq!(is_special_v4(a), is_special_v4(pseudonyms.v4(a)));
            // Makes `a` and `b` share about `cut` leading bits.
            let b = if cut == 0 { b } else { a & !(u32::MAX >> (cut - 1) >> 1) | b & (u32::MAX >> (cut - 1) >> 1) };
            prop_assume!(!is_special_v4(a) && !is_special_v4(b));
            let shared = (a ^ b).leading_zeros();
            let mapped = (pseudonyms.v4(a) ^ pseudonyms.v4(b)).leading_zeros();
            // Addresses with a different number of passes share less than /8; all others share
            // exactly as many bits.
            prop_assert!(mapped == shared || shared < 8 && mapped < 8, "{} {}", shared, mapped);
        }

        #[test]
        fn pseudonyms_of_ipv6_keep_prefixes_and_invert(seed: u64, a: u128, b: u64) {
            let pseudonyms = Pseudonyms::new(seed);
            prop_assert_eq!(pseudonyms.original_v6(pseudonyms.v6(a)), a);
            prop_assert_eq!(is_special_v6(a), is_special_v6(pseudonyms.v6(a)));
            prop_assume!(!is_special_v6(a));
            let b = a >> 64 << 64 | u128::from(b);
            let shared = (a ^ b).leading_zeros();
            prop_assert_eq!((pseudonyms.v6(a) ^ pseudonyms.v6(b)).leading_zeros(), shared);
        }
    }
}
