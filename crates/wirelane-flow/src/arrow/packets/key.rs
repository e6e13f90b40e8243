//! What text in a column is made of.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A value with a place in a table.
pub(super) trait Hash {
    /// A number that few other values share.
    fn hash(&self) -> u64;
}

/// An address of either version, or another number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct TextKey {
    pub(super) bits: [u64; 2],
    pub(super) is_v6: bool,
}

impl TextKey {
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

    /// The address.
    pub(super) fn address(self) -> IpAddr {
        let [high, low] = self.bits;
        match self.is_v6 {
            true => Ipv6Addr::from(u128::from(high) << 64 | u128::from(low)).into(),
            false => Ipv4Addr::from(low as u32).into(),
        }
    }
}

impl Hash for TextKey {
    #[inline]
    fn hash(&self) -> u64 {
        const ONE: u64 = 0x9e37_79b9_7f4a_7c15;
        const TWO: u64 = 0xc2b2_ae3d_27d4_eb4f;
        let [high, low] = self.bits;
        let product = u128::from(low ^ ONE) * u128::from(high ^ TWO);
        ((product >> 64) as u64 ^ product as u64).wrapping_mul(ONE)
    }
}
