//! The switches of a port: which protocols it segments when sending and merges when receiving, and
//! how long a frame may be (the switches of the 2014 FreeBSD GSO paper, per port and protocol).
//!
//! A spec sets them with `?gso=tcp,udp&gro=on&gso_max=32k`, a running program with [`Switches`].
//! Every end of the port reads them once per batch, so each packet meets the old or the new
//! settings.
//!
//! When GSO is turned off at a sink, the source TAP device is told to segment
//! (`Control::set_offload`).

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

#[cfg(feature = "serde")]
use serde::Serialize;

use crate::error::{Error, Result};
use crate::frame::Protocols;
use crate::port::number::parse_number;

/// The segmentation and merging options of a spec. The program chooses absent options.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(Serialize))]
pub struct OffloadOptions {
    /// `gso=`: protocols to segment before frames leave the port.
    pub gso: Option<Protocols>,
    /// `gro=`: protocols to merge when packets arrive.
    pub gro: Option<Protocols>,
    /// `gso_max=`: see [`Switches::max_burst`].
    pub gso_max: Option<u32>,
}

impl OffloadOptions {
    /// The keys in a spec.
    pub const KEYS: [&'static str; 3] = ["gso", "gro", "gso_max"];

    /// Whether no option is set.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Parses `key=value` if it is one of [`OffloadOptions::KEYS`]; false if not.
    ///
    /// # Errors
    /// The value has the wrong form; the text is the right one.
    pub(in crate::port) fn take(&mut self, key: &str, value: &str) -> Result<bool, &'static str> {
        let protocols = || value.parse().map_err(|_: Error| "tcp, udp, tcp,udp, on or off");
        match key {
            "gso" => self.gso = Some(protocols()?),
            "gro" => self.gro = Some(protocols()?),
            "gso_max" => {
                let bytes = parse_number(value).and_then(|bytes| u32::try_from(bytes).ok());
                let bytes = bytes.filter(|bytes| Switches::BURSTS.contains(bytes));
                self.gso_max = Some(bytes.ok_or("a number from 576 to 65535")?);
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// The options as key and value.
    pub(in crate::port) fn pairs(&self) -> impl Iterator<Item = (&'static str, String)> {
        let protocols = |said: Option<Protocols>| said.map(|said| said.to_string());
        let max = self.gso_max.map(|bytes| bytes.to_string());
        let values = [protocols(self.gso), protocols(self.gro), max];
        Self::KEYS.into_iter().zip(values).filter_map(|(key, value)| Some((key, value?)))
    }
}

/// Which protocols one running port segments and merges. Can be changed at any time, from any
/// thread.
#[derive(Debug)]
pub struct Switches {
    gso: Pair,
    /// `None`: no coalescer was set up.
    gro: Option<Pair>,
    max_burst: AtomicU32,
}

/// [`Protocols`] that can be switched one by one.
#[derive(Debug)]
struct Pair {
    tcp: AtomicBool,
    udp: AtomicBool,
}

impl Pair {
    fn new(protocols: Protocols) -> Self {
        let Protocols { tcp, udp } = protocols;
        Self { tcp: AtomicBool::new(tcp), udp: AtomicBool::new(udp) }
    }

    #[inline]
    fn get(&self) -> Protocols {
        Protocols { tcp: self.tcp.load(Ordering::Relaxed), udp: self.udp.load(Ordering::Relaxed) }
    }

    fn set(&self, protocols: Protocols) {
        self.tcp.store(protocols.tcp, Ordering::Relaxed);
        self.udp.store(protocols.udp, Ordering::Relaxed);
    }
}

impl Default for Switches {
    /// Segments only frames that are marked for it, and merges nothing.
    fn default() -> Self {
        Self::new(Protocols::NONE, None)
    }
}

impl Switches {
    /// The range of [`Switches::max_burst`]: at least an IPv4 packet that every host accepts (RFC
    /// 791 section 3.1), at most the longest IPv4 packet.
    pub const BURSTS: std::ops::RangeInclusive<u32> = 576..=65_535;

    /// Switches with these protocols, and bursts of any length. Without `gro` the port can never
    /// merge packets, and reserves no memory for merging.
    pub fn new(gso: Protocols, gro: Option<Protocols>) -> Self {
        let max_burst = AtomicU32::new(*Self::BURSTS.end());
        Self { gso: Pair::new(gso), gro: gro.map(Pair::new), max_burst }
    }

    /// Switches as in a spec, with `others` as default for absent options.
    pub fn of(said: &OffloadOptions, others: &OffloadOptions) -> Self {
        let gso = said.gso.or(others.gso).unwrap_or_default();
        let switches = Self::new(gso, said.gro.or(others.gro));
        if let Some(bytes) = said.gso_max.or(others.gso_max) {
            switches.set_max_burst(bytes);
        }
        switches
    }

    /// Protocols whose frames are segmented if too long.
    #[inline]
    pub fn gso(&self) -> Protocols {
        self.gso.get()
    }

    /// Protocols whose packets are merged.
    #[inline]
    pub fn gro(&self) -> Protocols {
        self.gro.as_ref().map_or(Protocols::NONE, Pair::get)
    }

    /// Whether anything can be merged, now or later.
    pub fn can_merge(&self) -> bool {
        self.gro.is_some()
    }

    /// The longest frame that passes the port in one piece, in bytes from its IP header. Applies to
    /// merged frames on receive, and to frames for a port that segments itself on send.
    #[inline]
    pub fn max_burst(&self) -> u32 {
        self.max_burst.load(Ordering::Relaxed)
    }

    /// Changes the segmented protocols. A frame that its sender marked is segmented in any case.
    pub fn set_gso(&self, protocols: Protocols) {
        self.gso.set(protocols);
    }

    /// Changes the merged protocols. Merged packets stay merged.
    ///
    /// # Errors
    /// A usage error, without any change, for any protocol if no coalescer was set up.
    pub fn set_gro(&self, protocols: Protocols) -> Result<()> {
        match &self.gro {
            Some(gro) => gro.set(protocols),
            None if protocols.any() => {
                return Err(Error::usage("gro", "the port was started without it")
                    .help("start it with gro=off to turn it on later"));
            }
            None => {}
        }
        Ok(())
    }

    /// Changes the longest frame, to the nearest value in [`Switches::BURSTS`].
    pub fn set_max_burst(&self, bytes: u32) {
        let bytes = bytes.clamp(*Self::BURSTS.start(), *Self::BURSTS.end());
        self.max_burst.store(bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn protocols_and_back() {
        for (text, tcp, udp) in [
            ("tcp", true, false),
            ("udp", false, true),
            ("tcp,udp", true, true),
            ("off", false, false),
        ] {
            let protocols: Protocols = text.parse().unwrap();
            assert_eq!((protocols, protocols.to_string().as_str()), (Protocols { tcp, udp }, text));
        }
        assert_eq!("on".parse::<Protocols>().unwrap(), Protocols::ALL);
        for text in ["", "tcp,", "sctp", "on,tcp", "TCP"] {
            assert!(text.parse::<Protocols>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn what_a_port_says_of_itself_goes_first() {
        let (tcp, udp) = (Protocols { tcp: true, udp: false }, Protocols { tcp: false, udp: true });
        let said = OffloadOptions { gso: Some(tcp), gro: None, gso_max: Some(9000) };
        let others = OffloadOptions { gso: Some(Protocols::ALL), gro: Some(udp), gso_max: None };
        let switches = Switches::of(&said, &others);
        assert_eq!((switches.gso(), switches.gro(), switches.max_burst()), (tcp, udp, 9000));
        switches.set_max_burst(1);
        switches.set_gso(Protocols::NONE);
        assert_eq!((switches.gso().any(), switches.max_burst()), (false, 576));
        switches.set_max_burst(1 << 20);
        assert_eq!(switches.max_burst(), 65_535);
        switches.set_gro(Protocols::ALL).unwrap();
        assert_eq!(switches.gro(), Protocols::ALL);
    }

    #[test]
    fn merging_that_was_not_prepared_cannot_be_switched_on() {
        let switches = Switches::of(&OffloadOptions::default(), &OffloadOptions::default());
        assert!(!switches.can_merge() && switches.set_gro(Protocols::NONE).is_ok());
        let error = switches.set_gro(Protocols::ALL).unwrap_err();
        assert!(error.to_string().contains("gro=off"), "{error}");
        assert_eq!(switches.gro(), Protocols::NONE);
    }
}
