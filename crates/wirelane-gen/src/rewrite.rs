//! Changes packets on the way: MAC addresses, VLAN tags, IP addresses, ports, TTL. Every checksum
//! stays as valid or wrong as it was, also where it covers what an ICMP error quotes.
//!
//! ```text
//!   rules ─▶ Rewrite ─┬─ prepare: what is the same in every loop; may change the length
//!                     └─ in_loop(n) ─▶ Round: what differs, for `Rule::Unique`; in place
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

mod fixed;
mod prefix;
mod pseudonym;
mod rule;
mod special;
mod unique;
mod walk;

use wirelane_wire::EtherType;

use self::fixed::{Fixed, Varying};
use self::unique::{Turn, Unique};

pub use self::prefix::Prefix;
pub use self::rule::{PortRule, Rule, Side, TtlRule, VlanRule};

/// Rules, ready to be applied.
#[derive(Clone, Debug, Default)]
pub struct Rewrite {
    vlan: Option<VlanRule>,
    fixed: Fixed,
    unique: Option<Unique>,
}

/// What differs from loop to loop, for one of them.
#[derive(Clone, Debug)]
pub struct Round(Varying);

/// Bytes by which a frame may grow.
pub const GROWTH: usize = TAG;

/// A VLAN tag, and where it is in a frame.
const TAG: usize = 4;
const TAG_AT: usize = 12;

impl Rewrite {
    /// Takes rules. Of several that fit one field, the first counts; VLAN tags, TTL, pseudonyms and
    /// addresses per loop have one rule each.
    ///
    /// # Errors
    /// Two rules contradict each other, or one cannot be applied, in words.
    pub fn new(rules: &[Rule]) -> Result<Self, String> {
        let mut rewrite = Self::default();
        for rule in rules {
            let twice = |what| Err(format!("{what} are changed twice; leave one rule"));
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

    /// Whether packets in tunnels are changed as well (IP in IP, GRE, VXLAN, GENEVE).
    #[must_use]
    pub fn with_tunnels(mut self, tunnels: bool) -> Self {
        self.fixed.enters_tunnels = tunnels;
        self
    }

    /// Whether there is no rule.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.vlan.is_none() && self.fixed.is_empty()
    }

    /// Whether packets differ from loop to loop.
    #[must_use]
    pub fn differs_per_loop(&self) -> bool {
        self.unique.is_some()
    }

    /// After how many loops a flow between two unicast addresses comes again at the earliest;
    /// `None` if loops do not differ.
    #[must_use]
    pub fn period(&self) -> Option<u64> {
        self.unique.as_ref().map(Unique::period)
    }

    /// Changes what is the same in every loop. The frame may grow by [`GROWTH`] bytes, or shrink by
    /// as many.
    pub fn prepare(&self, frame: &mut Vec<u8>) {
        if let Some(vlan) = self.vlan {
            retag(vlan, frame);
        }
        if !self.fixed.is_empty() {
            walk::frame(frame, &self.fixed);
        }
    }

    /// What is still to be changed in loop `number`, from 0 on; `None` if loops do not differ.
    #[must_use]
    pub fn in_loop(&self, number: u64) -> Option<Round> {
        let turn: Turn = self.unique.as_ref()?.turn(number);
        Some(Round(Varying { turn, enters_tunnels: self.fixed.enters_tunnels, back: false }))
    }

    /// Both at once: what a frame is in loop `number`.
    pub fn apply(&self, frame: &mut Vec<u8>, number: u64) {
        self.prepare(frame);
        if let Some(round) = self.in_loop(number) {
            round.apply(frame);
        }
    }

    /// What the frame was before [`apply`](Self::apply), except for what the rules lost: the tag
    /// that was removed, values that were set whatever they were, and a TTL at its limits.
    pub fn undo(&self, frame: &mut Vec<u8>, number: u64) {
        if let Some(Round(varying)) = self.in_loop(number) {
            walk::frame(frame, &Varying { back: true, ..varying });
        }
        walk::frame(frame, &self.fixed.inverse());
        if let Some(VlanRule::Push { .. }) = self.vlan {
            retag(VlanRule::Pop, frame);
        }
    }
}

impl Round {
    /// Changes a frame that was [prepared](Rewrite::prepare).
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
