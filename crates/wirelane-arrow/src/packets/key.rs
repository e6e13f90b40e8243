//! What text in a column is made of.

use std::net::{Ipv4Addr, Ipv6Addr};

/// An address of either version, or another number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Key {
    pub(super) bits: [u64; 2],
    pub(super) is_v6: bool,
}

impl Key {
    #[inline]
    pub(super) fn number(value: u64) -> Self {
        Self { bits: [0, value], is_v6: false }
    }

    #[inline]
    pub(super) fn v4(address: Ipv4Addr) -> Self {
        Self::number(u32::from(address).into())
    }

    #[inline]
    pub(super) fn v6(address: Ipv6Addr) -> Self {
        let bits = u128::from(address);
        Self { bits: [(bits >> 64) as u64, bits as u64], is_v6: true }
    }

    /// The same number again as seldom as can be.
    #[inline]
    pub(super) fn hash(&self) -> u64 {
        const ONE: u64 = 0x9e37_79b9_7f4a_7c15;
        const TWO: u64 = 0xc2b2_ae3d_27d4_eb4f;
        let [high, low] = self.bits;
        let product = u128::from(low ^ ONE) * u128::from(high ^ TWO);
        ((product >> 64) as u64 ^ product as u64).wrapping_mul(ONE)
    }
}
