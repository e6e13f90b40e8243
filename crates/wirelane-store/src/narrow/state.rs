//! The knowledge about a packet and the registers on one path through a program.

use wirelane_filter::op::{Alu, Cond, Op, Operand, Width};

use super::range::Range;
use crate::index::{FlowId, Layout, TAGS};
use crate::key::{Field, Term};

const IPV4: u32 = 0x0800;
const IPV6: u32 = 0x86dd;
const ARP: u32 = 0x0806;
const RARP: u32 = 0x8035;
/// TCP, UDP, SCTP.
const PORT_PROTOCOLS: [u32; 3] = [6, 17, 132];
/// The fragment header of IPv6.
const FRAGMENT: u32 = 44;

/// The content of a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum RegisterValue {
    Unknown,
    /// Bytes of the packet, under a mask.
    Bytes(At, u32),
    /// 4 times the lower half of the byte at this offset.
    HeaderLength(u32),
}

/// The position of bytes in the packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum At {
    Fixed(Width, u32),
    /// After the header whose length is in the byte at `header`, plus `offset`.
    Behind {
        width: Width,
        header: u32,
        offset: u32,
    },
}

/// Bytes that make a key, or decide which bytes do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum KeyBytes {
    /// The version of IP, if the packet has no type field.
    Version,
    /// The type after this number of tags.
    Type(u8),
    /// The identifier in a tag.
    Tag(u8),
    Protocol,
    /// The next header in the fragment header of IPv6.
    FragmentProtocol,
    /// The fragment offset of an IPv4 packet.
    Fragment,
    /// A word of an address.
    Source(u8),
    Destination(u8),
    SourcePort,
    DestinationPort,
}

/// The knowledge on one path to an instruction.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct PathState {
    layout: Layout,
    a: RegisterValue,
    x: RegisterValue,
    /// The least number of tags after the addresses.
    tags: u8,
    /// In order.
    known: Vec<(KeyBytes, Range)>,
}

/// The outcome of a comparison, on one of the two ways that follow.
pub(super) enum BranchResult {
    Impossible,
    /// The knowledge after it, and keys of the packets on this path.
    Possible(PathState, Vec<Term>),
}

impl PathState {
    pub(super) fn new(layout: Layout) -> Self {
        Self {
            layout,
            a: RegisterValue::Unknown,
            x: RegisterValue::Unknown,
            tags: 0,
            known: Vec::new(),
        }
    }

    /// Forgets registers that are not read later.
    pub(super) fn with_registers(mut self, a: bool, x: bool) -> Self {
        if !a {
            self.a = RegisterValue::Unknown;
        }
        if !x {
            self.x = RegisterValue::Unknown;
        }
        self
    }

    /// Forgets addresses and ports, and keeps the kind of the packet.
    pub(super) fn without_addresses(mut self) -> Self {
        self.known.retain(|(place, _)| *place < KeyBytes::Source(0));
        self
    }

    /// After an instruction that is neither a jump nor a return.
    pub(super) fn after(mut self, op: Op) -> Self {
        match op {
            Op::LoadAbsolute(width, offset) => {
                self.a = RegisterValue::Bytes(At::Fixed(width, offset), full(width));
            }
            Op::LoadIndirect(width, offset) => {
                self.a = match self.x {
                    RegisterValue::HeaderLength(header) => {
                        RegisterValue::Bytes(At::Behind { width, header, offset }, full(width))
                    }
                    _ => RegisterValue::Unknown,
                };
            }
            Op::LoadXHeader(offset) => self.x = RegisterValue::HeaderLength(offset),
            Op::Alu(Alu::And, Operand::K(k)) => {
                self.a = match self.a {
                    RegisterValue::Bytes(at, mask) => RegisterValue::Bytes(at, mask & k),
                    _ => RegisterValue::Unknown,
                };
            }
            Op::LoadXImmediate(_) | Op::LoadXMemory(_) | Op::LoadXLength => {
                self.x = RegisterValue::Unknown
            }
            Op::Tax => self.x = self.a,
            Op::Txa => self.a = self.x,
            Op::Store(_) | Op::StoreX(_) => {}
            _ => self.a = RegisterValue::Unknown,
        }
        self
    }

    /// The outcome of comparing A with `operand` if the result is `holds`.
    pub(super) fn compared(&self, cond: Cond, operand: Operand, holds: bool) -> BranchResult {
        let (RegisterValue::Bytes(at, mask), Operand::K(right)) = (self.a, operand) else {
            return BranchResult::Possible(self.clone(), Vec::new());
        };
        if let Some(level) = self.level(at)
            && level < self.tags
        {
            return match TAGS
                .iter()
                .any(|tag| compare(cond, u32::from(*tag) & mask, right) == holds)
            {
                true => BranchResult::Possible(self.clone(), Vec::new()),
                false => BranchResult::Impossible,
            };
        }
        let Some(place) = self.place(at) else {
            return BranchResult::Possible(self.clone(), Vec::new());
        };
        let range = Range::of(cond, right, holds, mask, place.key_mask());
        self.learn(place, range)
    }

    fn learn(&self, place: KeyBytes, range: Range) -> BranchResult {
        let slot = self.known.binary_search_by_key(&place, |(place, _)| *place);
        let before = slot.map_or(Range::full(place.key_mask()), |at| self.known[at].1);
        let range = before.meet(range);
        if range.is_empty() {
            return BranchResult::Impossible;
        }
        let mut state = self.clone();
        if range == before {
            return BranchResult::Possible(state, Vec::new());
        }
        match slot {
            Ok(at) => state.known[at].1 = range,
            Err(at) => state.known.insert(at, (place, range)),
        }
        let mut terms = Vec::from_iter(state.term(place).filter(|term| !is_trivial(term)));
        if place >= KeyBytes::Protocol {
            terms.extend(state.flow());
        }
        if let (KeyBytes::Type(level), Some(value)) = (place, range.exact())
            && self.layout.tags
            && TAGS.iter().any(|tag| u32::from(*tag) == value)
            && usize::from(level) < Layout::MAX_TAGS
        {
            // The kind of tag does not matter.
            state.tags = level + 1;
            state.known.retain(|(known, _)| *known != place);
        }
        BranchResult::Possible(state, terms)
    }

    /// The level of these bytes if they are a type: 0 after the addresses, 1 after the first tag.
    fn level(&self, at: At) -> Option<u8> {
        let At::Fixed(Width::Half, offset) = at else { return None };
        let behind = (offset as usize).checked_sub(self.layout.ether_type?)?;
        (0..=self.tags).find(|level| usize::from(*level) * 4 == behind)
    }

    /// The field of these bytes.
    fn place(&self, at: At) -> Option<KeyBytes> {
        if let Some(level) = self.level(at) {
            return Some(KeyBytes::Type(level));
        }
        if let (At::Fixed(Width::Byte, 0), None) = (at, self.layout.ether_type) {
            return Some(KeyBytes::Version);
        }
        if let At::Fixed(Width::Half, offset) = at
            && let Some(tag) = (0..self.tags).find(|tag| offset == self.network(*tag))
        {
            return Some(KeyBytes::Tag(tag));
        }
        let network = self.network(self.tags);
        match self.ether_type()? {
            IPV4 => self.ipv4(at, network),
            IPV6 => self.ipv6(at, network),
            ARP | RARP => match at {
                At::Fixed(Width::Word, offset) if offset == network + 14 => {
                    Some(KeyBytes::Source(0))
                }
                At::Fixed(Width::Word, offset) if offset == network + 24 => {
                    Some(KeyBytes::Destination(0))
                }
                _ => None,
            },
            _ => None,
        }
    }

    /// Offset of the network header after this number of tags. Where tags are possible, it is the
    /// offset of the next tag's identifier.
    fn network(&self, tags: u8) -> u32 {
        self.layout.network as u32 + 4 * u32::from(tags)
    }

    fn ipv4(&self, at: At, network: u32) -> Option<KeyBytes> {
        let (width, offset) = match at {
            At::Fixed(width, offset) => (width, offset.checked_sub(network)?),
            At::Behind { width: Width::Half, header, offset } if header == network => {
                let whole = self.exact(KeyBytes::Fragment) == Some(0);
                return self.port(offset.checked_sub(network)?).filter(|_| whole);
            }
            At::Behind { .. } => return None,
        };
        match (width, offset) {
            (Width::Byte, 9) => Some(KeyBytes::Protocol),
            (Width::Half, 6) => Some(KeyBytes::Fragment),
            (Width::Word, 12) => Some(KeyBytes::Source(0)),
            (Width::Word, 16) => Some(KeyBytes::Destination(0)),
            _ => None,
        }
    }

    fn ipv6(&self, at: At, network: u32) -> Option<KeyBytes> {
        let At::Fixed(width, offset) = at else { return None };
        match (width, offset.checked_sub(network)?) {
            (Width::Byte, 6) => Some(KeyBytes::Protocol),
            (Width::Byte, 40) if self.exact(KeyBytes::Protocol) == Some(FRAGMENT) => {
                Some(KeyBytes::FragmentProtocol)
            }
            (Width::Word, offset @ (8 | 12 | 16 | 20)) => {
                Some(KeyBytes::Source(((offset - 8) / 4) as u8))
            }
            (Width::Word, offset @ (24 | 28 | 32 | 36)) => {
                Some(KeyBytes::Destination(((offset - 24) / 4) as u8))
            }
            (Width::Half, offset) => self.port(offset.checked_sub(40)?),
            _ => None,
        }
    }

    /// The port at `offset` after a network header.
    fn port(&self, offset: u32) -> Option<KeyBytes> {
        let place = match offset {
            0 => KeyBytes::SourcePort,
            2 => KeyBytes::DestinationPort,
            _ => return None,
        };
        let protocol = self.exact(KeyBytes::Protocol)?;
        PORT_PROTOCOLS.contains(&protocol).then_some(place)
    }

    fn ether_type(&self) -> Option<u32> {
        if self.layout.ether_type.is_some() {
            return self.exact(KeyBytes::Type(self.tags));
        }
        match self.exact(KeyBytes::Version)? {
            0x40 => Some(IPV4),
            0x60 => Some(IPV6),
            _ => None,
        }
    }

    fn range(&self, place: KeyBytes) -> Range {
        match self.known.binary_search_by_key(&place, |(place, _)| *place) {
            Ok(at) => self.known[at].1,
            Err(_) => Range::full(place.key_mask()),
        }
    }

    fn exact(&self, place: KeyBytes) -> Option<u32> {
        self.range(place).exact()
    }

    /// The key of a packet with this knowledge.
    fn term(&self, place: KeyBytes) -> Option<Term> {
        let range = self.range(place);
        let of = |field| Some(Term { field, first: range.first.into(), last: range.last.into() });
        match place {
            KeyBytes::Version => Some(Term::equal(Field::EtherType, self.ether_type()?)),
            KeyBytes::Type(_) => of(Field::EtherType),
            KeyBytes::Tag(_) => of(Field::Vlan),
            KeyBytes::Protocol | KeyBytes::FragmentProtocol => of(Field::Protocol),
            KeyBytes::Fragment => None,
            KeyBytes::SourcePort | KeyBytes::DestinationPort => of(Field::Port),
            KeyBytes::Source(_) | KeyBytes::Destination(_) if self.ether_type()? != IPV6 => {
                of(Field::Ipv4)
            }
            KeyBytes::Source(_) => Some(self.ipv6_term(KeyBytes::Source)),
            KeyBytes::Destination(_) => Some(self.ipv6_term(KeyBytes::Destination)),
        }
    }

    /// The flow, if all its parts are known: such packets have both ports.
    fn flow(&self) -> Option<Term> {
        let (source, destination) = (
            self.exact(KeyBytes::SourcePort)? as u16,
            self.exact(KeyBytes::DestinationPort)? as u16,
        );
        let address = |word: fn(u8) -> KeyBytes, words: u8| {
            (0..words).try_fold(0u128, |address, at| {
                Some(address << 32 | u128::from(self.exact(word(at))?))
            })
        };
        let (version, words) = match self.ether_type()? {
            IPV4 => (4, 1),
            IPV6 => (6, 4),
            _ => return None,
        };
        let addresses = [address(KeyBytes::Source, words)?, address(KeyBytes::Destination, words)?];
        let protocol = self.exact(KeyBytes::Protocol)? as u8;
        Some(FlowId::new(version, protocol, addresses, [source, destination]).term())
    }

    /// The range of an address: its known words, up to the first inexact one.
    fn ipv6_term(&self, word: fn(u8) -> KeyBytes) -> Term {
        let (mut first, mut last) = (0u128, u128::MAX);
        for at in 0..4 {
            let range = self.range(word(at));
            let shift = 96 - 32 * u32::from(at);
            let behind = (1u128 << shift) - 1;
            first |= u128::from(range.first) << shift;
            last = last & !(u128::from(u32::MAX) << shift) | u128::from(range.last) << shift;
            last |= behind;
            if range.exact().is_none() {
                break;
            }
        }
        Term { field: Field::Ipv6, first, last }
    }
}

impl KeyBytes {
    /// The bits of the bytes that belong to the key.
    fn key_mask(self) -> u32 {
        match self {
            Self::Version => 0xf0,
            Self::Type(_) | Self::SourcePort | Self::DestinationPort => 0xffff,
            Self::Tag(_) => 0x0fff,
            Self::Protocol | Self::FragmentProtocol => 0xff,
            Self::Fragment => 0x1fff,
            Self::Source(_) | Self::Destination(_) => u32::MAX,
        }
    }
}

/// Whether it includes every value, which does not narrow the search.
fn is_trivial(term: &Term) -> bool {
    let bits = if term.field == Field::Vlan { 12 } else { 8 * term.field.width() as u32 };
    term.first == 0 && term.last == u128::MAX >> (128 - bits)
}

fn compare(cond: Cond, left: u32, right: u32) -> bool {
    match cond {
        Cond::Equal => left == right,
        Cond::Greater => left > right,
        Cond::GreaterEqual => left >= right,
        Cond::Set => left & right != 0,
    }
}

/// Every bit that a load of this width can set.
fn full(width: Width) -> u32 {
    match width {
        Width::Byte => 0xff,
        Width::Half => 0xffff,
        Width::Word => u32::MAX,
    }
}
