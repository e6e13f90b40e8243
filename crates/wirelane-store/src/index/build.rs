//! Making an index while its segment is written.

use crc32fast::hash;

use super::format::encode_extent;
use super::format::{BLOCK_LEN, BLOCK_SIZE, Block, EXTENT_LEN, FieldEntry, HEADER_LEN, Header};
use super::keys::visit_keys;
use super::link::Visit;
use super::sets;
use super::table::{Direct, Hashed};
use crate::extent::{Extent, ExtentHeader};
use crate::key::Field;

/// The most keys of a field that a segment has. Packets with more are found all the same: their
/// extents are remembered.
const MAX_KEYS: usize = 1 << 20;

/// Makes the index of a segment.
///
/// ```text
///  new ─▶ (packet … packet end_extent) … (packet … packet end_extent) ─▶ finish
/// ```
pub struct IndexBuilder {
    segment: u64,
    extents: Vec<Extent>,
    tables: Tables,
}

impl IndexBuilder {
    /// For the segment with this random number.
    #[must_use]
    pub fn new(segment: u64) -> Self {
        Self { segment, extents: Vec::new(), tables: Tables::new() }
    }

    /// The extent being filled holds this packet.
    #[inline]
    pub fn packet(&mut self, link_type: u16, data: &[u8]) {
        visit_keys(link_type, data, &mut self.tables);
    }

    /// The extent being filled starts at `offset` of the segment, and has this header. What comes
    /// now is in the next.
    pub fn end_extent(&mut self, offset: u64, header: &ExtentHeader) {
        self.extents.push(Extent { offset, header: *header });
        self.tables.end_extent();
    }

    /// How many extents there are.
    #[must_use]
    pub fn extents(&self) -> usize {
        self.extents.len()
    }

    /// The index as a file. Takes some time, up to a second for a million keys.
    #[must_use]
    pub fn finish(self) -> Vec<u8> {
        let mut file = vec![0; HEADER_LEN];
        for extent in &self.extents {
            encode_extent(extent, &mut file);
        }
        let fields: Vec<Written> = self.tables.finish();
        let directories: usize = fields.iter().map(Written::directory_len).sum();
        let mut data_at = (file.len() + directories) as u64;
        let mut header = Header {
            segment: self.segment,
            extents: self.extents.len() as u32,
            extents_at: HEADER_LEN as u64,
            extents_checksum: hash(&file[HEADER_LEN..]),
            ..Header::default()
        };
        for field in &fields {
            header.fields.push(field.write_directory(data_at, &mut file));
            data_at += field.data.len() as u64;
        }
        fields.iter().for_each(|field| file.extend_from_slice(&field.data));
        header.file_len = file.len() as u64;
        file[..HEADER_LEN].copy_from_slice(&header.encode());
        debug_assert_eq!(header.extents as usize * EXTENT_LEN, self.extents.len() * EXTENT_LEN);
        file
    }
}

struct Tables {
    ether_types: Direct,
    vlans: Direct,
    protocols: Direct,
    ports: Direct,
    ipv4: Hashed<u32>,
    ipv6: Hashed<u128>,
    flows: Hashed<u32>,
}

impl Tables {
    fn new() -> Self {
        Self {
            ether_types: Direct::new(16),
            vlans: Direct::new(12),
            protocols: Direct::new(8),
            ports: Direct::new(16),
            ipv4: Hashed::new(MAX_KEYS),
            ipv6: Hashed::new(MAX_KEYS),
            flows: Hashed::new(MAX_KEYS),
        }
    }

    fn end_extent(&mut self) {
        for table in [&mut self.ether_types, &mut self.vlans, &mut self.protocols, &mut self.ports]
        {
            table.end_extent();
        }
        self.ipv4.end_extent();
        self.ipv6.end_extent();
        self.flows.end_extent();
    }

    fn finish(self) -> Vec<Written> {
        let write = |field| {
            let mut out = Written::new(field);
            let mut add = |key: u128, extents: &[u32]| out.add(key, extents);
            match field {
                Field::EtherType => self.ether_types.finish(&mut add),
                Field::Vlan => self.vlans.finish(&mut add),
                Field::Protocol => self.protocols.finish(&mut add),
                Field::Port => self.ports.finish(&mut add),
                Field::Ipv4 => self.ipv4.finish(&mut add),
                Field::Ipv6 => self.ipv6.finish(&mut add),
                Field::Flow => self.flows.finish(&mut add),
            }
            out.end_block();
            out.overflow = match field {
                Field::Ipv4 => self.ipv4.overflow().to_vec(),
                Field::Ipv6 => self.ipv6.overflow().to_vec(),
                Field::Flow => self.flows.overflow().to_vec(),
                _ => Vec::new(),
            };
            out
        };
        Field::ALL.into_iter().map(write).collect()
    }
}

impl Visit for Tables {
    #[inline(always)]
    fn short(&mut self, field: Field, value: u16) {
        match field {
            Field::EtherType => self.ether_types.mark(value),
            Field::Vlan => self.vlans.mark(value),
            Field::Protocol => self.protocols.mark(value),
            _ => self.ports.mark(value),
        }
    }

    #[inline(always)]
    fn word(&mut self, field: Field, value: u32) {
        match field {
            Field::Ipv4 => self.ipv4.mark(value),
            _ => self.flows.mark(value),
        }
    }

    #[inline]
    fn ipv6(&mut self, address: u128) {
        self.ipv6.mark(address);
    }
}

/// A field as it will stand in the file.
struct Written {
    field: Field,
    /// Their offsets count from the start of `data`.
    blocks: Vec<Block>,
    data: Vec<u8>,
    keys: u64,
    overflow: Vec<u32>,
    /// Where the block being filled starts, its first key, and the last one.
    block: Option<(usize, u128, u128)>,
}

impl Written {
    fn new(field: Field) -> Self {
        let (blocks, data, overflow) = (Vec::new(), Vec::new(), Vec::new());
        Self { field, blocks, data, keys: 0, overflow, block: None }
    }

    /// Adds a key greater than all before.
    fn add(&mut self, key: u128, extents: &[u32]) {
        let (start, first, last) = self.block.unwrap_or((self.data.len(), key, key));
        sets::wide_number(key - last, &mut self.data);
        sets::encode(extents, &mut self.data);
        self.keys += 1;
        self.block = Some((start, first, key));
        if self.data.len() - start >= BLOCK_SIZE {
            self.end_block();
        }
    }

    fn end_block(&mut self) {
        if let Some((start, first, _)) = self.block.take() {
            let bytes = &self.data[start..];
            let (offset, len) = (start as u64, bytes.len() as u32);
            self.blocks.push(Block { first, offset, len, checksum: hash(bytes) });
        }
    }

    fn overflow_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        sets::encode(&self.overflow, &mut bytes);
        bytes
    }

    fn directory_len(&self) -> usize {
        self.blocks.len() * BLOCK_LEN + self.overflow_bytes().len()
    }

    /// Appends the directory of a field whose blocks start at `data_at`.
    fn write_directory(&self, data_at: u64, file: &mut Vec<u8>) -> FieldEntry {
        let start = file.len();
        for block in &self.blocks {
            Block { offset: data_at + block.offset, ..*block }.encode(file);
        }
        file.extend_from_slice(&self.overflow_bytes());
        FieldEntry {
            field: self.field as u32,
            checksum: hash(&file[start..]),
            directory_at: start as u64,
            directory_len: (file.len() - start) as u64,
            blocks: self.blocks.len() as u64,
            keys: self.keys,
            data_len: self.data.len() as u64,
        }
    }
}

#[cfg(test)]
#[path = "build_tests.rs"]
mod tests;
