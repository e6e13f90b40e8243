//! Stores for tests, written from the format's definition without the writer.

use std::fs;
use std::path::Path;

use wirelane_pcap::{
    Access, Class, Compression, CompressionOptions, Direction, FrameCompressor, Record, Section,
    Source, pcapng,
};

use crate::directory::Directory;
use crate::extent::{EXTENT_ALIGNMENT, ExtentHeader, padding, padding_len};
use crate::index::IndexBuilder;
use crate::names::SegmentName;
use crate::prelude;

/// A packet of a test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Packet {
    pub(crate) interface: u32,
    pub(crate) time: u64,
    pub(crate) original_len: u32,
    pub(crate) data: Vec<u8>,
    pub(crate) comment: Option<String>,
}

impl Packet {
    pub(crate) fn new(interface: u32, time: u64, data: &[u8]) -> Self {
        let original_len = data.len() as u32;
        Self { interface, time, original_len, data: data.into(), comment: None }
    }

    pub(crate) fn record(&self) -> Record<'_> {
        Record {
            interface: self.interface,
            timestamp: self.time,
            original_len: self.original_len,
            direction: Direction::Unknown,
            data: &self.data,
        }
    }
}

/// A segment of a test: its packets by extents.
#[derive(Clone, Debug)]
pub(crate) struct SegmentFile {
    pub(crate) lane: u32,
    pub(crate) number: u64,
    pub(crate) compression: Option<Compression>,
    pub(crate) sources: Vec<Source>,
    pub(crate) extents: Vec<Vec<Packet>>,
    pub(crate) indexed: bool,
    pub(crate) finished: bool,
}

impl SegmentFile {
    pub(crate) fn new(number: u64, extents: Vec<Vec<Packet>>) -> Self {
        Self {
            lane: (number % 3) as u32,
            number,
            compression: None,
            sources: sources(),
            extents,
            indexed: true,
            finished: true,
        }
    }

    pub(crate) fn packets(&self) -> impl Iterator<Item = &Packet> {
        self.extents.iter().flatten()
    }

    /// Writes it, and its index.
    pub(crate) fn write(&self, directory: &Path) -> SegmentName {
        let id = 0x1234_5678_0000 + self.number;
        let mut index = IndexBuilder::new(id);
        let compressed = self.compression.is_some();
        let mut blocks = Vec::new();
        pcapng::section_header(&mut blocks, &Section::default());
        self.sources.iter().for_each(|source| pcapng::interface(&mut blocks, source));
        let plain = blocks.len();
        let mut file = prelude::encode(&self.pack(&blocks), plain, id, compressed).unwrap();
        let (mut oldest, mut newest) = (u64::MAX, 0);
        for (number, packets) in self.extents.iter().enumerate() {
            let header = self.extent(id, number as u32, packets, &mut file, &mut index);
            (oldest, newest) = (oldest.min(header.oldest), newest.max(header.newest));
        }
        let times = self.finished.then_some((oldest.min(newest), newest));
        let (lane, number, compression) = (self.lane, self.number, self.compression);
        let name = SegmentName { times, lane, number, compression };
        if !self.finished {
            file.resize(file.len() + 16 * EXTENT_ALIGNMENT, 0);
        }
        fs::write(directory.join(name.file_name()), file).unwrap();
        if self.indexed && self.finished {
            fs::write(directory.join(name.index_name()), index.finish()).unwrap();
        }
        name
    }

    fn extent(
        &self,
        segment: u64,
        number: u32,
        packets: &[Packet],
        file: &mut Vec<u8>,
        index: &mut IndexBuilder,
    ) -> ExtentHeader {
        let compressed = self.compression.is_some();
        let mut blocks = Vec::new();
        for packet in packets {
            match &packet.comment {
                Some(comment) => {
                    pcapng::packet_with_comment(&mut blocks, &packet.record(), comment);
                }
                None => pcapng::packet(&mut blocks, &packet.record()),
            }
            let source = &self.sources[packet.interface as usize];
            index.packet(source.link_type, &packet.data);
        }
        let payload = self.pack(&blocks);
        let times = || packets.iter().map(|packet| packet.time);
        let header = ExtentHeader {
            segment,
            number,
            packets: packets.len() as u32,
            payload: payload.len() as u32,
            plain: blocks.len() as u32,
            oldest: times().min().unwrap_or(u64::MAX),
            newest: times().max().unwrap_or(0),
            checksum: crc32fast::hash(&payload),
        };
        index.end_extent(file.len() as u64, &header);
        let used = ExtentHeader::disk_len(compressed) + payload.len();
        file.extend(header.encode(compressed));
        file.extend(payload);
        file.extend(padding(padding_len(used, compressed), compressed));
        assert_eq!(file.len() % EXTENT_ALIGNMENT, 0);
        header
    }

    fn pack(&self, blocks: &[u8]) -> Vec<u8> {
        let Some(compression) = self.compression else { return blocks.to_vec() };
        let options = CompressionOptions::fastest(compression);
        let mut compressor = FrameCompressor::new(options).unwrap();
        let mut out = vec![0; compressor.bound(blocks.len())];
        let len = compressor.compress(blocks, &mut out).unwrap();
        out.truncate(len);
        out
    }
}

/// Two queues.
pub(crate) fn sources() -> Vec<Source> {
    vec![Source::new("eth0", Class::Rx, Some(0)), Source::new("eth0", Class::Tx, Some(0))]
}

/// Writes a store of these segments into a new directory.
pub(crate) fn store(path: &Path, segments: &[SegmentFile]) -> Directory {
    let directory = Directory::create(path, Access::default()).unwrap();
    for segment in segments {
        segment.write(path);
    }
    directory
}

/// The packets of stores in the order of an answer.
pub(crate) fn in_order(stores: &[&[SegmentFile]]) -> Vec<Packet> {
    let mut all = Vec::new();
    for segments in stores {
        let mut segments: Vec<_> = segments.iter().collect();
        segments.sort_by_key(|segment| segment.number);
        all.extend(segments.into_iter().flat_map(SegmentFile::packets).cloned());
    }
    all.sort_by_key(|packet| packet.time);
    all
}
