//! Applies rules to single fields.

use wirelane_wire::MacAddr;

use super::prefix::Prefix;
use super::pseudonym::Pseudonyms;
use super::rule::{PortRule, RewriteField, Rule, TtlRule};
use super::unique::{LoopPermutations, Unique};
use super::walk::Edits;
use crate::error::{Error, Result};

/// The changes that are the same in every loop.
#[derive(Clone, Debug, Default)]
pub(super) struct Fixed {
    macs: Vec<(RewriteField, Option<MacAddr>, MacAddr)>,
    addresses: Vec<(RewriteField, Prefix, Prefix)>,
    pseudonyms: Option<Pseudonyms>,
    ports: Vec<(RewriteField, Option<u16>, PortRule)>,
    ttl: Option<TtlRule>,
    pub(super) unique: Option<Unique>,
    pub(super) enters_tunnels: bool,
    /// Whether the rules restore the original frame.
    back: bool,
}

impl Fixed {
    /// Adds a rule.
    ///
    /// # Errors
    /// A rule of this kind exists, and only one is allowed.
    pub(super) fn add(&mut self, rule: &Rule) -> Result<()> {
        match *rule {
            Rule::Mac { side, from, to } => self.macs.push((side, from, to)),
            Rule::Address { side, from, to } => self.addresses.push((side, from, to)),
            Rule::Port { side, from, to } => self.ports.push((side, from, to)),
            Rule::Pseudonyms { seed } if self.pseudonyms.is_none() => {
                self.pseudonyms = Some(Pseudonyms::new(seed));
            }
            Rule::Ttl(ttl) if self.ttl.is_none() => self.ttl = Some(ttl),
            Rule::Pseudonyms { .. } => {
                return Err(Error::new("pseudonyms have one seed; name one"));
            }
            Rule::Ttl(_) => return Err(Error::new("the TTL is changed twice; leave one rule")),
            // [`Rewrite`](super::Rewrite) stores these rules separately.
            Rule::Vlan(_) | Rule::Unique { .. } => {}
        }
        Ok(())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.macs.is_empty()
            && self.addresses.is_empty()
            && self.pseudonyms.is_none()
            && self.ports.is_empty()
            && self.ttl.is_none()
            && self.unique.is_none()
    }

    /// The inverse rules, except for lost information.
    pub(super) fn inverse(&self) -> Self {
        let macs =
            self.macs.iter().filter_map(|(side, from, to)| Some((*side, Some(*to), (*from)?)));
        let addresses = self.addresses.iter().map(|(side, from, to)| {
            // For a wider target prefix, only the addresses that the source prefix maps to.
            let length = to.length() + (to.host_bits() - from.host_bits());
            (*side, Prefix::new(to.address(), length).unwrap_or(*to), *from)
        });
        let ports = self.ports.iter().filter_map(|(side, from, to)| match (from, to) {
            (Some(from), PortRule::Set(to)) => Some((*side, Some(*to), PortRule::Set(*from))),
            (None, PortRule::Add(more)) => Some((*side, None, PortRule::Add(more.wrapping_neg()))),
            _ => None,
        });
        Self {
            macs: macs.collect(),
            addresses: addresses.collect(),
            ports: ports.collect(),
            ttl: match self.ttl {
                Some(TtlRule::Add(more)) => Some(TtlRule::Add(-more)),
                _ => None,
            },
            back: true,
            ..self.clone()
        }
    }

    fn map_v4(&self, side: RewriteField, old: u32) -> u32 {
        let mapped = self.addresses.iter().find_map(|(of, from, to)| {
            Some(to.with_host_v4(from.host_of_v4(old).filter(|_| fits(*of, side))?))
        });
        mapped.unwrap_or(old)
    }

    fn map_v6(&self, side: RewriteField, old: u128) -> u128 {
        let mapped = self.addresses.iter().find_map(|(of, from, to)| {
            Some(to.with_host_v6(from.host_of_v6(old).filter(|_| fits(*of, side))?))
        });
        mapped.unwrap_or(old)
    }
}

impl Edits for Fixed {
    fn mac(&self, side: RewriteField, old: MacAddr, is_outer: bool) -> MacAddr {
        let fitting = self
            .macs
            .iter()
            .find(|(of, from, _)| fits(*of, side) && from.map_or(is_outer, |from| from == old));
        fitting.map_or(old, |(_, _, to)| *to)
    }

    #[inline]
    fn v4(&self, side: RewriteField, old: u32) -> u32 {
        let shuffled =
            |it| self.unique.as_ref().map_or(it, |unique| unique.shuffle_v4(it, self.back));
        if self.back {
            let old = shuffled(old);
            let old = self.pseudonyms.as_ref().map_or(old, |names| names.original_v4(old));
            return self.map_v4(side, old);
        }
        let new = self.map_v4(side, old);
        shuffled(self.pseudonyms.as_ref().map_or(new, |names| names.v4(new)))
    }

    #[inline]
    fn v6(&self, side: RewriteField, old: u128) -> u128 {
        let shuffled =
            |it| self.unique.as_ref().map_or(it, |unique| unique.shuffle_v6(it, self.back));
        if self.back {
            let old = shuffled(old);
            let old = self.pseudonyms.as_ref().map_or(old, |names| names.original_v6(old));
            return self.map_v6(side, old);
        }
        let new = self.map_v6(side, old);
        shuffled(self.pseudonyms.as_ref().map_or(new, |names| names.v6(new)))
    }

    #[inline]
    fn port(&self, side: RewriteField, old: u16) -> u16 {
        let fitting = self
            .ports
            .iter()
            .find(|(of, from, _)| fits(*of, side) && from.is_none_or(|from| from == old));
        match fitting {
            Some((_, _, PortRule::Set(new))) => *new,
            Some((_, _, PortRule::Add(more))) => old.wrapping_add(*more),
            None => old,
        }
    }

    #[inline]
    fn ttl(&self, old: u8) -> u8 {
        match self.ttl {
            Some(TtlRule::Set(ttl)) => ttl,
            Some(TtlRule::Add(more)) => (i16::from(old) + more).clamp(1, 255) as u8,
            None => old,
        }
    }

    fn enters_tunnels(&self) -> bool {
        self.enters_tunnels
    }

    fn goes_back(&self) -> bool {
        self.back
    }
}

/// Whether a rule for `of` applies to `side`. [`RewriteField::Both`] as `side` matches only rules
/// for both.
fn fits(of: RewriteField, side: RewriteField) -> bool {
    of == RewriteField::Both || of == side
}

/// The changes that differ between loops.
#[derive(Clone, Debug)]
pub(super) struct Varying {
    pub(super) turn: LoopPermutations,
    pub(super) enters_tunnels: bool,
    pub(super) back: bool,
}

impl Edits for Varying {
    #[inline]
    fn mac(&self, _: RewriteField, old: MacAddr, _: bool) -> MacAddr {
        old
    }

    #[inline]
    fn v4(&self, _: RewriteField, old: u32) -> u32 {
        self.turn.v4(old, self.back)
    }

    #[inline]
    fn v6(&self, _: RewriteField, old: u128) -> u128 {
        self.turn.v6(old, self.back)
    }

    #[inline]
    fn port(&self, _: RewriteField, old: u16) -> u16 {
        old
    }

    #[inline]
    fn ttl(&self, old: u8) -> u8 {
        old
    }

    #[inline]
    fn enters_tunnels(&self) -> bool {
        self.enters_tunnels
    }

    #[inline]
    fn goes_back(&self) -> bool {
        // These changes do not affect ports.
        false
    }
}
