//! Counts what was checked and hands out what was found.

use std::fmt;

use serde::Serialize;

use crate::rule::{Finding, Rule, Severity};

/// The results of one rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RuleCounts {
    /// How often it was checked.
    pub checked: u64,
    /// Times it was broken.
    pub violations: u64,
    /// How often there was a note.
    pub notes: u64,
    /// Not checked: the capture lacks bytes of the packet (snap length).
    pub cut: u64,
    /// Not checked: the field was left to the hardware when the packet was captured.
    pub left: u64,
    /// Not checked: the capture does not say enough to decide.
    pub undecided: u64,
    /// The first packet that broke it or that there was a note about.
    pub first: Option<u64>,
}

/// The results of a capture.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Packets.
    pub packets: u64,
    /// Packets of which the capture lacks bytes.
    pub cut: u64,
    /// Packets of link types that are unknown here.
    pub unknown_link: u64,
    /// Packets that are not IP.
    pub not_ip: u64,
    /// Packets whose content the link encrypted (IEEE 802.11, PPP).
    pub encrypted: u64,
    /// Packets with more tunnels than are looked into, the rest of which was not checked.
    pub too_deep: u64,
    /// Packets of IP protocols whose inside was not checked.
    pub other_protocol: u64,
    /// Packets behind which a frame has more bytes than Ethernet's padding.
    pub trailers: u64,
    /// Flows forgotten for lack of room: violations between packets may have been missed.
    pub evicted_flows: u64,
    /// Incomplete sets of fragments forgotten for lack of room.
    pub evicted_fragments: u64,
    rules: Rules,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Rules([RuleCounts; Rule::ALL.len()]);

impl Default for Rules {
    fn default() -> Self {
        Self([RuleCounts::default(); Rule::ALL.len()])
    }
}

impl Summary {
    /// The results of a rule.
    pub fn rule(&self, rule: Rule) -> &RuleCounts {
        &self.rules.0[rule as usize]
    }

    fn rule_mut(&mut self, rule: Rule) -> &mut RuleCounts {
        &mut self.rules.0[rule as usize]
    }

    /// All violations.
    pub fn violations(&self) -> u64 {
        self.rules.0.iter().map(|rule| rule.violations).sum()
    }

    /// All notes.
    pub fn notes(&self) -> u64 {
        self.rules.0.iter().map(|rule| rule.notes).sum()
    }

    /// All checks that could not be made because bytes are missing.
    pub fn not_checked(&self) -> u64 {
        self.rules.0.iter().map(|rule| rule.cut).sum()
    }
}

/// The tunnels around what is looked at.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Place {
    tunnels: [&'static str; MAX_TUNNELS],
    depth: usize,
}

/// Tunnels that are looked into.
const MAX_TUNNELS: usize = 4;

impl Place {
    /// One tunnel further in; `None` where that is not looked at.
    pub(crate) fn inside(mut self, tunnel: &'static str) -> Option<Self> {
        *self.tunnels.get_mut(self.depth)? = tunnel;
        self.depth += 1;
        Some(self)
    }

    pub(crate) fn is_outside(&self) -> bool {
        self.depth == 0
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, tunnel) in self.tunnels.iter().take(self.depth).enumerate() {
            write!(f, "{}{tunnel}", if index == 0 { "in " } else { ", " })?;
        }
        Ok(())
    }
}

/// Where findings go while a packet is looked at.
pub(crate) struct Recorder<'a> {
    pub(crate) summary: &'a mut Summary,
    pub(crate) found: &'a mut dyn FnMut(&Finding),
    /// Notes become violations.
    pub(crate) strict: bool,
    /// The packet being looked at.
    pub(crate) packet: u64,
    pub(crate) place: Place,
}

impl Recorder<'_> {
    pub(crate) fn checked(&mut self, rule: Rule) {
        self.summary.rule_mut(rule).checked += 1;
    }

    pub(crate) fn cut(&mut self, rule: Rule) {
        self.summary.rule_mut(rule).cut += 1;
    }

    pub(crate) fn undecided(&mut self, rule: Rule) {
        self.summary.rule_mut(rule).undecided += 1;
    }

    /// Checks a rule at this packet: a violation if `broken`.
    pub(crate) fn check(
        &mut self,
        rule: Rule,
        broken: bool,
        expected: impl fmt::Display,
        found: impl fmt::Display,
    ) {
        self.checked(rule);
        if broken {
            self.violation(rule, expected, found, None);
        }
    }

    /// The packet breaks the rule, which takes another packet to see.
    pub(crate) fn violation(
        &mut self,
        rule: Rule,
        expected: impl fmt::Display,
        found: impl fmt::Display,
        other: Option<u64>,
    ) {
        self.add(Severity::Violation, rule, self.packet, other, &expected, &found);
    }

    /// As [`violation`](Self::violation), of an earlier packet.
    pub(crate) fn violation_of(
        &mut self,
        packet: u64,
        rule: Rule,
        expected: impl fmt::Display,
        found: impl fmt::Display,
        other: Option<u64>,
    ) {
        self.add(Severity::Violation, rule, packet, other, &expected, &found);
    }

    /// Something to note; a violation where the user is strict.
    pub(crate) fn note_of(
        &mut self,
        packet: u64,
        rule: Rule,
        expected: impl fmt::Display,
        found: impl fmt::Display,
    ) {
        let severity = if self.strict { Severity::Violation } else { Severity::Note };
        self.add(severity, rule, packet, None, &expected, &found);
    }

    /// As [`note_of`](Self::note_of), of this packet.
    pub(crate) fn note(
        &mut self,
        rule: Rule,
        expected: impl fmt::Display,
        found: impl fmt::Display,
    ) {
        self.note_of(self.packet, rule, expected, found);
    }

    /// A field left to the hardware; a violation where the user is strict.
    pub(crate) fn left(
        &mut self,
        rule: Rule,
        expected: impl fmt::Display,
        found: impl fmt::Display,
    ) {
        if self.strict {
            self.violation(rule, expected, found, None);
        } else {
            let counts = self.summary.rule_mut(rule);
            counts.left += 1;
        }
    }

    fn add(
        &mut self,
        severity: Severity,
        rule: Rule,
        packet: u64,
        other: Option<u64>,
        expected: &dyn fmt::Display,
        found: &dyn fmt::Display,
    ) {
        let counts = self.summary.rule_mut(rule);
        match severity {
            Severity::Violation => counts.violations += 1,
            Severity::Note => counts.notes += 1,
        }
        counts.first.get_or_insert(packet);
        let (expected, found) = (expected.to_string(), found.to_string());
        let place = self.place.to_string();
        (self.found)(&Finding { packet, other, rule, severity, place, expected, found });
    }
}
