//! Builds an index while its segment is written.
//!
//! The tables store the [`PacketEndpoints`] of each conversation as one key: both addresses, both
//! ports and the protocol. A packet therefore costs one hash lookup. When the segment ends, the key
//! of each conversation is split into the keys of the fields.

use crc32fast::hash;

use super::ends::PacketEndpoints;
use super::format::{HEADER_LEN, IndexHeader, encode_extent};
use super::gather::{gather, pair};
use super::keys::{Visit, visit_keys};
use super::table::{Direct, Hashed, KeyNumbers};
use super::written::WrittenField;
use crate::extent::{Extent, ExtentHeader};
use crate::key::Field;

/// The most conversations of a segment, each direction by itself; an IPv4 table of this size has 48
/// MiB. Further conversations are not listed, but their extents are.
const MAX_CONVERSATIONS: u32 = 3 << 19;

/// Makes the index of a segment.
///
/// ```text
///  new ─▶ (packet … packet end_extent) … (packet … packet end_extent) ─▶ finish
/// ```
pub struct IndexBuilder {
    segment: u64,
    extents: Vec<Extent>,
    tables: KeyTables,
}

impl IndexBuilder {
    /// For the segment with this random number.
    #[must_use]
    pub fn new(segment: u64) -> Self {
        Self::with_limit(segment, MAX_CONVERSATIONS)
    }

    fn with_limit(segment: u64, conversations: u32) -> Self {
        Self { segment, extents: Vec::new(), tables: KeyTables::new(conversations) }
    }

    /// Adds a packet of the current extent.
    #[inline]
    pub fn packet(&mut self, link_type: u16, data: &[u8]) {
        visit_keys(link_type, data, &mut self.tables);
    }

    /// Ends the current extent, which starts at `offset` of the segment and has this header.
    pub fn end_extent(&mut self, offset: u64, header: &ExtentHeader) {
        self.extents.push(Extent { offset, header: *header });
        self.tables.end_extent();
    }

    /// The number of extents.
    #[must_use]
    pub fn extents(&self) -> usize {
        self.extents.len()
    }

    /// The index file. It takes up to a second for a million keys.
    #[must_use]
    pub fn finish(self) -> Vec<u8> {
        let mut file = vec![0; HEADER_LEN];
        for extent in &self.extents {
            encode_extent(extent, &mut file);
        }
        let fields: Vec<WrittenField> = self.tables.finish();
        let directories: usize = fields.iter().map(WrittenField::directory_len).sum();
        let mut data_at = (file.len() + directories) as u64;
        let mut header = IndexHeader {
            segment: self.segment,
            extents: self.extents.len() as u32,
            extents_at: HEADER_LEN as u64,
            extents_checksum: hash(&file[HEADER_LEN..]),
            ..IndexHeader::default()
        };
        for field in &fields {
            header.fields.push(field.write_directory(data_at, &mut file));
            data_at += field.data().len() as u64;
        }
        fields.iter().for_each(|field| file.extend_from_slice(field.data()));
        header.file_len = file.len() as u64;
        file[..HEADER_LEN].copy_from_slice(&header.encode());
        file
    }
}

struct KeyTables {
    ether_types: Direct,
    vlans: Direct,
    protocols: Direct,
    ipv4: Hashed<2>,
    ipv6: Hashed<5>,
    /// Shared by both hash tables.
    numbers: KeyNumbers,
}

impl KeyTables {
    fn new(conversations: u32) -> Self {
        Self {
            ether_types: Direct::new(16),
            vlans: Direct::new(12),
            protocols: Direct::new(8),
            ipv4: Hashed::new(),
            ipv6: Hashed::new(),
            numbers: KeyNumbers::new(conversations),
        }
    }

    fn end_extent(&mut self) {
        for table in [&mut self.ether_types, &mut self.vlans, &mut self.protocols] {
            table.end_extent();
        }
        self.numbers.end_extent();
    }

    fn finish(self) -> Vec<WrittenField> {
        let direct = |table: &Direct, field| {
            let (mut out, lists) = (WrittenField::new(field, &[]), table.lists());
            table.values().for_each(|value| out.add(value.into(), lists.of(value)));
            out.end()
        };
        let mut written = vec![
            direct(&self.ether_types, Field::EtherType),
            direct(&self.vlans, Field::Vlan),
            direct(&self.protocols, Field::Protocol),
        ];
        let Self { ipv4, ipv6, numbers, .. } = self;
        let mut keys = ConversationKeys::default();
        for (packed, number) in ipv4.into_keys() {
            let ends = PacketEndpoints::<u32>::unpack(packed);
            keys.ipv4.extend(ends.addresses().iter().map(|address| pair(*address, number)));
            keys.others(&ends, number);
        }
        for (packed, number) in ipv6.into_keys() {
            let ends = PacketEndpoints::<u128>::unpack(packed);
            keys.ipv6.extend(ends.addresses().iter().map(|address| (*address, number)));
            keys.others(&ends, number);
        }
        let lists = numbers.lists();
        written.extend([
            gather(Field::Ipv4, keys.ipv4, &lists, &numbers),
            gather(Field::Ipv6, keys.ipv6, &lists, &numbers),
            gather(Field::Port, keys.ports, &lists, &numbers),
            gather(Field::Flow, keys.flows, &lists, &numbers),
        ]);
        written
    }
}

impl Visit for KeyTables {
    #[inline]
    fn short(&mut self, field: Field, value: u16) {
        match field {
            Field::EtherType => self.ether_types.mark(value),
            Field::Vlan => self.vlans.mark(value),
            _ => self.protocols.mark(value),
        }
    }

    #[inline]
    fn ipv4(&mut self, ends: &PacketEndpoints<u32>) {
        self.ipv4.mark(ends.pack(), &mut self.numbers);
    }

    #[inline]
    fn ipv6(&mut self, ends: &PacketEndpoints<u128>) {
        self.ipv6.mark(ends.pack(), &mut self.numbers);
    }
}

/// Keys with the numbers of their conversations.
#[derive(Default)]
struct ConversationKeys {
    ipv4: Vec<u64>,
    ipv6: Vec<(u128, u32)>,
    ports: Vec<u64>,
    flows: Vec<u64>,
}

impl ConversationKeys {
    fn others<A: Copy + Into<u128>>(&mut self, ends: &PacketEndpoints<A>, number: u32) {
        self.ports.extend(ends.ports().map(|port| pair(port.into(), number)));
        self.flows.extend(ends.flow().map(|flow| pair(flow.key(), number)));
    }
}

#[cfg(test)]
#[path = "build_tests.rs"]
mod tests;
