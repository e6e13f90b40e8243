//! What the parts of recording cost alone, on one thread: the index of a packet, and compressing.
//!
//! `lz4 -1` compresses the same bytes. Its time is that of the process: it reads the file from
//! memory and writes to nowhere. Ours is that of the thread, which has the bytes in memory and
//! leaves them there.

use std::fs;
use std::hint::black_box;
use std::ops::Range;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::AtomicBool;

use wirelane::error::{Error, Result};
use wirelane_os::clock;
use wirelane_pcap::{
    Compression, CompressionOptions, Direction, FrameCompressor, LINK_TYPE_ETHERNET, Record, pcapng,
};
use wirelane_store::{EXTENT_SIZE, ExtentHeader, IndexBuilder};

use super::bed::{Bed, SUITE};
use super::traffic::{MEAN, Traffic};
use crate::peers::{find, missing};
use crate::report::Report;
use crate::row::{Param, Params, Row};
use crate::suites::turns::{self, ProcessPlan, Turn};

const LZ4: &str = "lz4";
const INDEX: &str = "index";
const COMPRESS: &str = "compress";
/// Packets of a sample: a segment of the usual size has as many.
const PACKETS: u64 = 650_000;
/// Flows that an index of a busy cable has to know: the packets of these are dealt again and again.
const FLOWS: u64 = 10_000;
/// Bits of a packet.
const BITS: f64 = MEAN * 8.0;

/// Measures, and adds the rows to `report`; `progress` and `stop` as everywhere.
pub(super) fn parts(
    bed: &Bed<'_>,
    plan: &ProcessPlan<'_>,
    report: &mut Report,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(u32, &str),
) {
    if find(LZ4).is_none() {
        report.skip(SUITE, LZ4, missing(LZ4));
    }
    let pieces = pieces();
    let part = |case| Part { case, bed, pieces: &pieces, samples: Vec::new() };
    let mut parts = [part(INDEX), part(COMPRESS)];
    turns::take(SUITE, plan, &mut parts, report, stop, progress);
    report.rows.extend(parts.iter().flat_map(Part::rows));
}

/// Blocks as long as an extent on disk, and where in them the packets are.
#[derive(Default)]
struct Piece {
    blocks: Vec<u8>,
    packets: Vec<Range<usize>>,
}

/// All of a segment.
fn pieces() -> Vec<Piece> {
    let mut traffic = Traffic::new();
    let (mut pieces, mut piece) = (Vec::new(), Piece::default());
    // As many packets as give that many flows, once more after the other.
    let round = FLOWS * super::traffic::PACKETS_OF_FLOW;
    for number in 0..PACKETS {
        let data = traffic.packet(number % round);
        let record = Record {
            interface: 0,
            timestamp: number * 1000,
            original_len: data.len() as u32,
            direction: Direction::default(),
            data,
        };
        if piece.blocks.len() + data.len() + 64 > EXTENT_SIZE {
            pieces.push(std::mem::take(&mut piece));
        }
        // The header of a block has 28 bytes.
        let at = piece.blocks.len() + 28;
        piece.packets.push(at..at + data.len());
        pcapng::packet(&mut piece.blocks, &record);
    }
    pieces.push(piece);
    pieces
}

/// A part of recording.
struct Part<'a> {
    case: &'static str,
    bed: &'a Bed<'a>,
    pieces: &'a [Piece],
    /// Of ours, and of the other program or a second figure.
    samples: Vec<[Option<f64>; 2]>,
}

impl Part<'_> {
    fn bytes(&self) -> usize {
        self.pieces.iter().map(|piece| piece.blocks.len()).sum()
    }

    /// Nanoseconds of a packet, and the length of the index as a share of what it is of.
    fn index(&self) -> [Option<f64>; 2] {
        let begin = clock::thread_cpu_ns();
        let mut index = IndexBuilder::new(1);
        let mut offset = 0;
        for piece in self.pieces {
            for packet in &piece.packets {
                let data = piece.blocks.get(packet.clone()).unwrap_or_default();
                index.packet(LINK_TYPE_ETHERNET, data);
            }
            index.end_extent(offset, &ExtentHeader::default());
            offset += EXTENT_SIZE as u64;
        }
        let index = index.finish();
        let ns = (clock::thread_cpu_ns() - begin) as f64;
        [Some(ns / PACKETS as f64), Some(index.len() as f64 / self.bytes() as f64)]
    }

    /// Bytes per second of CPU time: of ours, and of the other program.
    fn compress(&self, report: &mut Report) -> Result<[Option<f64>; 2]> {
        let failed = |error| Error::io(COMPRESS, "compress", error);
        let options = CompressionOptions::fastest(Compression::Lz4);
        let mut compressor = FrameCompressor::new(options).map_err(failed)?;
        let mut out = vec![0; compressor.bound(EXTENT_SIZE)];
        let begin = clock::thread_cpu_ns();
        for piece in self.pieces {
            black_box(compressor.compress(&piece.blocks, &mut out).map_err(failed)?);
        }
        let ours = self.bytes() as f64 * 1e9 / (clock::thread_cpu_ns() - begin) as f64;
        let theirs = find(LZ4).map(|program| self.lz4(&program, report)).transpose()?;
        Ok([Some(ours), theirs])
    }

    fn lz4(&self, program: &Path, report: &mut Report) -> Result<f64> {
        self.bed.in_folder(|folder| {
            let file = folder.join("segment");
            let all: Vec<_> = self.pieces.iter().map(|piece| piece.blocks.as_slice()).collect();
            fs::write(&file, all.concat())
                .map_err(|error| Error::io(file.display().to_string(), "write", error))?;
            let mut command = Command::new(program);
            command.args(["-1", "-q", "-f"]).arg(&file).arg("/dev/null");
            let before = clock::children_cpu();
            self.bed.run(command, report)?;
            let used = clock::children_cpu().since(before).total();
            Ok(self.bytes() as f64 / used.as_secs_f64())
        })
    }

    fn rows(&self) -> Vec<Row> {
        let params = || {
            let flows = ("flows", Param::Number(FLOWS));
            Params(vec![("size", Param::Text("imix")), flows])
        };
        let row = |peer, metric, unit, of: &dyn Fn(&[Option<f64>; 2]) -> Option<f64>| Row {
            suite: SUITE,
            case: self.case,
            peer,
            params: params(),
            metric,
            unit,
            samples: self.samples.iter().filter_map(of).collect(),
            source: None,
        };
        let mut rows = if self.case == INDEX {
            let per_gbit = 1e9 / BITS / 1e9;
            vec![
                row(None, "ns_per_packet", "ns", &|one| one[0]),
                // Of a core, for every Gbit/s.
                row(None, "cpu_share_per_gbit", "1", &|one| one[0].map(|ns| ns * per_gbit)),
                row(None, "cost_index_share", "1", &|one| one[1]),
            ]
        } else {
            vec![
                row(None, "bytes_per_s", "B/s", &|one| one[0]),
                row(Some(LZ4), "bytes_per_s", "B/s", &|one| one[1]),
            ]
        };
        rows.retain(|row| !row.samples.is_empty());
        rows
    }
}

impl Turn for Part<'_> {
    fn case(&self) -> &'static str {
        self.case
    }

    fn title(&self) -> String {
        match self.case {
            INDEX => "the index of a segment".to_owned(),
            _ => format!("compressing a segment, beside {LZ4} -1"),
        }
    }

    fn measure(&mut self, _: u32, _: &AtomicBool, report: &mut Report) -> Result<()> {
        let sample = if self.case == INDEX { self.index() } else { self.compress(report)? };
        self.samples.push(sample);
        Ok(())
    }
}
