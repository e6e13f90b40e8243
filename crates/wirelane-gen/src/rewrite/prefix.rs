//! IPv4 and IPv6 prefixes.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use crate::error::{Error, Result};

/// A prefix such as `10.0.0.0/8`. A single address is a prefix of full length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefix {
    address: IpAddr,
    length: u8,
}

impl Prefix {
    /// The prefix with the first `length` bits of `address`; `None` if `length` is too large.
    #[must_use]
    pub fn new(address: IpAddr, length: u8) -> Option<Self> {
        let address = match address {
            IpAddr::V4(address) if length <= 32 => {
                Ipv4Addr::from_bits(address.to_bits() & !host_v4(length)).into()
            }
            IpAddr::V6(address) if length <= 128 => {
                Ipv6Addr::from_bits(address.to_bits() & !host_v6(length)).into()
            }
            _ => return None,
        };
        Some(Self { address, length })
    }

    /// The first address of the prefix.
    #[must_use]
    pub fn address(&self) -> IpAddr {
        self.address
    }

    /// The length of the prefix in bits.
    #[must_use]
    pub fn length(&self) -> u8 {
        self.length
    }

    /// The number of host bits.
    #[must_use]
    pub fn host_bits(&self) -> u8 {
        if self.address.is_ipv4() { 32 - self.length } else { 128 - self.length }
    }

    /// The host part of an IPv4 address; `None` if the address is outside of the prefix.
    #[inline]
    #[must_use]
    pub fn host_of_v4(&self, address: u32) -> Option<u32> {
        let IpAddr::V4(base) = self.address else { return None };
        let mask = host_v4(self.length);
        (address & !mask == base.to_bits()).then_some(address & mask)
    }

    /// The host part of an IPv6 address; `None` if the address is outside of the prefix.
    #[inline]
    #[must_use]
    pub fn host_of_v6(&self, address: u128) -> Option<u128> {
        let IpAddr::V6(base) = self.address else { return None };
        let mask = host_v6(self.length);
        (address & !mask == base.to_bits()).then_some(address & mask)
    }

    /// The IPv4 address of the prefix with this host part.
    #[inline]
    #[must_use]
    pub fn with_host_v4(&self, host: u32) -> u32 {
        let IpAddr::V4(base) = self.address else { return host };
        base.to_bits() | host & host_v4(self.length)
    }

    /// The IPv6 address of the prefix with this host part.
    #[inline]
    #[must_use]
    pub fn with_host_v6(&self, host: u128) -> u128 {
        let IpAddr::V6(base) = self.address else { return host };
        base.to_bits() | host & host_v6(self.length)
    }
}

#[inline]
fn host_v4(length: u8) -> u32 {
    u32::MAX.checked_shr(length.into()).unwrap_or(0)
}

#[inline]
fn host_v6(length: u8) -> u128 {
    u128::MAX.checked_shr(length.into()).unwrap_or(0)
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.length)
    }
}

impl FromStr for Prefix {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let wrong = || {
            let valid = "10.0.0.0/8, 2001:db8::/32 or 10.0.0.1";
            Error::new(format!("'{text}' is no prefix; write {valid}"))
        };
        let (address, length) = match text.split_once('/') {
            Some((address, length)) if length.bytes().all(|byte| byte.is_ascii_digit()) => {
                (address, Some(length.parse().map_err(|_| wrong())?))
            }
            Some(_) => return Err(wrong()),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let prefix = Self::new(address, length.unwrap_or(if address.is_ipv4() { 32 } else { 128 }))
            .ok_or_else(wrong)?;
        if prefix.address != address {
            let cause = format!("'{text}' has bits behind its prefix; write {prefix}");
            return Err(Error::new(cause));
        }
        Ok(prefix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_are_read_and_written() {
        for text in ["10.0.0.0/8", "0.0.0.0/0", "192.0.2.1/32", "2001:db8::/32", "::/0"] {
            assert_eq!(text.parse::<Prefix>().unwrap().to_string(), text);
        }
        assert_eq!("192.0.2.1".parse::<Prefix>().unwrap().host_bits(), 0);
        for wrong in ["", "/8", "10.0.0.0/33", "10.0.0.0/+8", "10.0.0.1/8", "::/129", "x/8", "10/8"]
        {
            assert!(wrong.parse::<Prefix>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn host_parts_come_and_go() {
        let prefix: Prefix = "10.0.0.0/8".parse().unwrap();
        assert_eq!(prefix.host_of_v4(0x0a01_0203), Some(0x01_0203));
        assert_eq!(prefix.host_of_v4(0x0b01_0203), None);
        assert_eq!(prefix.host_of_v6(0x0a01_0203), None);
        assert_eq!(prefix.with_host_v4(0xff01_0203), 0x0a01_0203);
        let all: Prefix = "0.0.0.0/0".parse().unwrap();
        assert_eq!(all.host_of_v4(u32::MAX), Some(u32::MAX));
    }
}
