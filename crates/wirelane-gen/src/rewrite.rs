//! Rewrites packets: MAC addresses, VLAN tags, IP addresses, ports, TTL. Valid checksums stay valid
//! and wrong ones stay wrong, including checksums over packets quoted in ICMP errors.
//!
//! ```text
//!   rules ─▶ Rewrite ─┬─ prepare: what is the same in every loop; may change the length
//!                     └─ in_loop(n) ─▶ LoopChanges: what differs, for `Rule::Unique`; in place
//! ```
//!
//! ```
//! use wirelane_gen::rewrite::{Rewrite, Rule};
//! use wirelane_wire::{FlowKey, MacAddr, WireError, packet};
//!
//! let mut frame = vec![0; 64];
//! let packet = packet::ethernet(MacAddr::ZERO, MacAddr::BROADCAST)
//!     .ipv4([10, 0, 0, 2].into(), [192, 0, 2, 9].into())
//!     .udp(4000, 53, b"query");
//! let len = packet.emit(&mut frame)?;
//! frame.truncate(len);
//!
//! let addresses = Rule::map_ip("10.0.0.0/8=172.0.0.0/8").unwrap();
//! let port = Rule::port("dst:53=5353").unwrap();
//! Rewrite::new(&[addresses, port]).unwrap().prepare(&mut frame);
//!
//! let flow = FlowKey::parse(&frame)?.map(|flow| flow.to_string());
//! assert_eq!(flow.as_deref(), Some("172.0.0.2:4000 > 192.0.2.9:5353 udp"));
//! # Ok::<_, WireError>(())
//! ```
//!
//! Addresses are mapped by permutations: distinct hosts stay distinct, and the inverse exists. With
//! `--unique`, each loop has a different permutation. Checksums are updated by the difference (RFC
//! 1624).

mod fixed;
mod prefix;
mod pseudonym;
mod rule;
mod special;
mod unique;
mod walk;

use wirelane_wire::EtherType;

use self::fixed::{Fixed, Varying};
use self::unique::{LoopPermutations, Unique};

use crate::error::{Error, Result};

pub use self::prefix::Prefix;
pub use self::rule::{PortRule, RewriteField, Rule, TtlRule, VlanRule};

/// A compiled set of rules.
#[derive(Clone, Debug, Default)]
pub struct Rewrite {
    vlan: Option<VlanRule>,
    fixed: Fixed,
    unique: Option<Unique>,
}

/// The changes of one loop that differ between loops.
#[derive(Clone, Debug)]
pub struct LoopChanges(Varying);

/// The most bytes by which a frame may grow.
pub const GROWTH: usize = TAG;

/// The length of a VLAN tag, and its offset in a frame.
const TAG: usize = 4;
const TAG_AT: usize = 12;

impl Rewrite {
    /// Compiles rules. If several rules match a field, the first applies. VLAN tags, TTL,
    /// pseudonyms and addresses per loop have at most one rule each.
    ///
    /// # Errors
    /// Two rules contradict each other, or a rule cannot be applied.
    pub fn new(rules: &[Rule]) -> Result<Self> {
        let mut rewrite = Self::default();
        for rule in rules {
            let twice = |what| {
                let cause = format!("{what} are changed twice; leave one rule");
                Err(Error::new(cause))
            };
            match rule {
                Rule::Vlan(_) if rewrite.vlan.is_some() => return twice("VLAN tags"),
                Rule::Unique { .. } if rewrite.unique.is_some() => {
                    return twice("addresses per loop");
                }
                Rule::Vlan(vlan) => rewrite.vlan = Some(*vlan),
                Rule::Unique { seed, within } => {
                    rewrite.unique = Some(Unique::new(*seed, within)?);
                }
                rule => rewrite.fixed.add(rule)?,
            }
        }
        rewrite.fixed.unique = rewrite.unique.clone();
        Ok(rewrite)
    }

    /// Sets whether packets in tunnels are also rewritten (IP in IP, GRE, VXLAN, Geneve).
    #[must_use]
    pub fn with_tunnels(mut self, tunnels: bool) -> Self {
        self.fixed.enters_tunnels = tunnels;
        self
    }

    /// Whether there are no rules.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.vlan.is_none() && self.fixed.is_empty()
    }

    /// Whether packets differ from loop to loop.
    #[must_use]
    pub fn differs_per_loop(&self) -> bool {
        self.unique.is_some()
    }

    /// The smallest number of loops after which a flow between two unicast addresses repeats;
    /// `None` if loops do not differ.
    #[must_use]
    pub fn period(&self) -> Option<u64> {
        self.unique.as_ref().map(Unique::period)
    }

    /// Applies the changes that are the same in every loop. The frame may grow or shrink by
    /// [`GROWTH`] bytes.
    pub fn prepare(&self, frame: &mut Vec<u8>) {
        if let Some(vlan) = self.vlan {
            retag(vlan, frame);
        }
        if !self.fixed.is_empty() {
            walk::frame(frame, &self.fixed);
        }
    }

    /// The remaining changes for loop `number`, from 0; `None` if loops do not differ.
    #[must_use]
    pub fn in_loop(&self, number: u64) -> Option<LoopChanges> {
        let turn: LoopPermutations = self.unique.as_ref()?.turn(number);
        Some(LoopChanges(Varying { turn, enters_tunnels: self.fixed.enters_tunnels, back: false }))
    }

    /// Applies all changes for loop `number`.
    pub fn apply(&self, frame: &mut Vec<u8>, number: u64) {
        self.prepare(frame);
        if let Some(round) = self.in_loop(number) {
            round.apply(frame);
        }
    }

    /// Restores the frame from before [`apply`](Self::apply), except for lost information: a
    /// removed tag, values that were overwritten unconditionally, and a TTL at its limits.
    pub fn undo(&self, frame: &mut Vec<u8>, number: u64) {
        if let Some(LoopChanges(varying)) = self.in_loop(number) {
            walk::frame(frame, &Varying { back: true, ..varying });
        }
        walk::frame(frame, &self.fixed.inverse());
        if let Some(VlanRule::Push { .. }) = self.vlan {
            retag(VlanRule::Pop, frame);
        }
    }
}

impl LoopChanges {
    /// Applies the changes to a [prepared](Rewrite::prepare) frame.
    #[inline]
    pub fn apply(&self, frame: &mut [u8]) {
        walk::frame(frame, &self.0);
    }
}

fn retag(rule: VlanRule, frame: &mut Vec<u8>) {
    let ethertype = frame.get(TAG_AT..).and_then(|it| it.first_chunk().copied());
    let Some(ethertype) = ethertype.map(u16::from_be_bytes).map(EtherType) else { return };
    match rule {
        VlanRule::Push { id, priority } => {
            let [a, b] = EtherType::VLAN.0.to_be_bytes();
            let [c, d] = (u16::from(priority) << 13 | id & 0xfff).to_be_bytes();
            frame.splice(TAG_AT..TAG_AT, [a, b, c, d]);
        }
        VlanRule::Pop if ethertype.is_vlan() && frame.len() >= TAG_AT + TAG => {
            frame.drain(TAG_AT..TAG_AT + TAG);
        }
        VlanRule::Set(id) if ethertype.is_vlan() => {
            if let Some([high, low]) =
                frame.get_mut(TAG_AT + 2..).and_then(|it| it.first_chunk_mut())
            {
                let [a, b] = id.to_be_bytes();
                (*high, *low) = (*high & 0xf0 | a & 0x0f, b);
            }
        }
        VlanRule::Pop | VlanRule::Set(_) => {}
    }
}
