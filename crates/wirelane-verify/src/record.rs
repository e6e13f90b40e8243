//! Counts checks and reports findings.

use std::fmt;

use serde::Serialize;

use crate::rule::{Finding, Rule, Severity};

/// The results of one rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RuleCounts {
    /// The number of checks.
    pub checked: u64,
    /// The number of violations.
    pub violations: u64,
    /// The number of notes.
    pub notes: u64,
    /// Not checked because a snap length has cut the packet.
    pub cut: u64,
    /// Not checked because the field was left to the hardware at capture time.
    pub left: u64,
    /// Not checked because the capture has too little information to decide.
    pub undecided: u64,
    /// The first packet with a violation or note.
    pub first: Option<u64>,
}

/// The results of a capture.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// All packets.
    pub packets: u64,
    /// Packets cut by a snap length.
    pub cut: u64,
    /// Packets with unsupported link types.
    pub unknown_link: u64,
    /// Packets that are not IP.
    pub not_ip: u64,
    /// Packets encrypted by the link layer (IEEE 802.11, PPP).
    pub encrypted: u64,
    /// Packets with too many nested tunnels; their innermost part was not checked.
    pub too_deep: u64,
    /// Packets of IP protocols whose payload was not checked.
    pub other_protocol: u64,
    /// Packets followed by more bytes than Ethernet padding.
    pub trailers: u64,
    /// Flows evicted for lack of room. Violations involving several packets may have been missed.
    pub evicted_flows: u64,
    /// Incomplete fragment sets evicted for lack of room.
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

    /// The total number of violations.
    pub fn violations(&self) -> u64 {
        self.rules.0.iter().map(|rule| rule.violations).sum()
    }

    /// The total number of notes.
    pub fn notes(&self) -> u64 {
        self.rules.0.iter().map(|rule| rule.notes).sum()
    }

    /// The total number of checks that were impossible because of missing bytes.
    pub fn not_checked(&self) -> u64 {
        self.rules.0.iter().map(|rule| rule.cut).sum()
    }
}

/// The tunnels around the current packet.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TunnelStack {
    tunnels: [&'static str; MAX_TUNNELS],
    depth: usize,
}

/// The most nested tunnels to check.
const MAX_TUNNELS: usize = 4;

impl TunnelStack {
    /// The place inside another tunnel; `None` if it is too deep.
    pub(crate) fn inside(mut self, tunnel: &'static str) -> Option<Self> {
        *self.tunnels.get_mut(self.depth)? = tunnel;
        self.depth += 1;
        Some(self)
    }

    pub(crate) fn is_outside(&self) -> bool {
        self.depth == 0
    }
}

impl fmt::Display for TunnelStack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, tunnel) in self.tunnels.iter().take(self.depth).enumerate() {
            write!(f, "{}{tunnel}", if index == 0 { "in " } else { ", " })?;
        }
        Ok(())
    }
}

/// Records the findings of the current packet.
pub(crate) struct FindingRecorder<'a> {
    pub(crate) summary: &'a mut Summary,
    pub(crate) found: &'a mut dyn FnMut(&Finding),
    /// Whether notes become violations.
    pub(crate) strict: bool,
    /// The number of the current packet.
    pub(crate) packet: u64,
    pub(crate) place: TunnelStack,
}

impl FindingRecorder<'_> {
    pub(crate) fn checked(&mut self, rule: Rule) {
        self.summary.rule_mut(rule).checked += 1;
    }

    pub(crate) fn cut(&mut self, rule: Rule) {
        self.summary.rule_mut(rule).cut += 1;
    }

    pub(crate) fn undecided(&mut self, rule: Rule) {
        self.summary.rule_mut(rule).undecided += 1;
    }

    /// Counts a check of the current packet, and a violation if `broken`.
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

    /// Reports a violation of the current packet; `other` is another packet that proves it.
    pub(crate) fn violation(
        &mut self,
        rule: Rule,
        expected: impl fmt::Display,
        found: impl fmt::Display,
        other: Option<u64>,
    ) {
        self.add(Severity::Violation, rule, self.packet, other, &expected, &found);
    }

    /// Like [`violation`](Self::violation), for an earlier packet.
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

    /// Reports a note about a packet; a violation in strict mode.
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

    /// Like [`note_of`](Self::note_of), for the current packet.
    pub(crate) fn note(
        &mut self,
        rule: Rule,
        expected: impl fmt::Display,
        found: impl fmt::Display,
    ) {
        self.note_of(self.packet, rule, expected, found);
    }

    /// Counts a field left to the hardware; a violation in strict mode.
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
