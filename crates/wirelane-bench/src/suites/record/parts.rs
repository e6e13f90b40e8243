//! The cost of two parts of recording, without the others, on one thread: the index of a packet,
//! and compression.
//!
//! `lz4 -1` compresses the same bytes. Its figure is the time of the process, which reads the file
//! from memory and writes to /dev/null. Wirelane's figure is the time of the thread, whose input
//! and output are in memory.

use std::fs;
use std::hint::black_box;
use std::ops::Range;
use std::path::Path;
use std::process::Command;

use wirelane::error::{Error, Result};
use wirelane_os::clock;
use wirelane_pcap::{
    Compression, CompressionOptions, Direction, FrameCompressor, LINK_TYPE_ETHERNET, Record, pcapng,
};
use wirelane_store::{EXTENT_SIZE, ExtentHeader, IndexBuilder};

use super::bed::RecordBed;
use super::traffic::{MEAN, RecordTraffic};
use crate::job::{Case, Job, Sample, SampleFigure};
use crate::row::params;

const LZ4: &str = "lz4";
const INDEX: &str = "index";
const COMPRESS: &str = "compress";
/// Packets of a sample: as many as in a segment of the usual size.
const PACKETS: u64 = 650_000;
/// Flows that an index of a busy cable has: the packets of these flows are repeated.
const FLOWS: u64 = 10_000;
/// Bits of a packet.
const BITS: f64 = MEAN * 8.0;

/// Measures both parts.
pub(super) fn parts(bed: &RecordBed<'_>, job: &mut Job<'_>) -> Result<()> {
    let lz4 = job.find(LZ4);
    let pieces = &pieces();
    let params = || params![size = "imix", flows = FLOWS];
    let index = |_: &mut Job<'_>| Ok(index(pieces));
    let compress = |job: &mut Job<'_>| {
        let ours = SampleFigure::new("bytes_per_s", compress(pieces)?);
        let theirs = lz4.as_ref().map(|program| theirs(program, pieces, bed, job)).transpose()?;
        let theirs = theirs.map(|speed| SampleFigure::new("bytes_per_s", speed).of(LZ4));
        Ok([ours].into_iter().chain(theirs).into())
    };
    let title = format!("compressing a segment, beside {LZ4} -1");
    job.take(vec![
        Case::new(INDEX, params(), "the index of a segment", index),
        Case::new(COMPRESS, params(), title, compress),
    ])
}

/// Blocks of the length of an extent on disk, and the ranges of the packets in them.
#[derive(Default)]
struct ExtentBlocks {
    blocks: Vec<u8>,
    packets: Vec<Range<usize>>,
}

/// The pieces of a segment.
fn pieces() -> Vec<ExtentBlocks> {
    let mut traffic = RecordTraffic::new();
    let (mut pieces, mut piece) = (Vec::new(), ExtentBlocks::default());
    // The packets of [`FLOWS`] flows, repeated.
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

fn bytes(pieces: &[ExtentBlocks]) -> f64 {
    pieces.iter().map(|piece| piece.blocks.len()).sum::<usize>() as f64
}

/// Nanoseconds of a packet, the share of a core for every Gbit/s, and the length of the index as a
/// share of the packets' length.
fn index(pieces: &[ExtentBlocks]) -> Sample {
    let begin = clock::thread_cpu_ns();
    let mut index = IndexBuilder::new(1);
    let mut offset = 0;
    for piece in pieces {
        for packet in &piece.packets {
            let data = piece.blocks.get(packet.clone()).unwrap_or_default();
            index.packet(LINK_TYPE_ETHERNET, data);
        }
        index.end_extent(offset, &ExtentHeader::default());
        offset += EXTENT_SIZE as u64;
    }
    let index = index.finish();
    let ns = (clock::thread_cpu_ns() - begin) as f64 / PACKETS as f64;
    let figures = [
        ("ns_per_packet", ns),
        ("cpu_share_per_gbit", ns / BITS),
        ("cost_index_share", index.len() as f64 / bytes(pieces)),
    ];
    figures.into()
}

/// Bytes per second of CPU time.
fn compress(pieces: &[ExtentBlocks]) -> Result<f64> {
    let failed = |error| Error::io(COMPRESS, "compress", error);
    let options = CompressionOptions::fastest(Compression::Lz4);
    let mut compressor = FrameCompressor::new(options).map_err(failed)?;
    let mut out = vec![0; compressor.bound(EXTENT_SIZE)];
    let begin = clock::thread_cpu_ns();
    for piece in pieces {
        black_box(compressor.compress(&piece.blocks, &mut out).map_err(failed)?);
    }
    Ok(bytes(pieces) * 1e9 / (clock::thread_cpu_ns() - begin) as f64)
}

/// The same for the other program.
fn theirs(
    program: &Path,
    pieces: &[ExtentBlocks],
    bed: &RecordBed<'_>,
    job: &mut Job<'_>,
) -> Result<f64> {
    bed.in_folder(|folder| {
        let file = folder.join("segment");
        let all: Vec<_> = pieces.iter().map(|piece| piece.blocks.as_slice()).collect();
        fs::write(&file, all.concat())
            .map_err(|error| Error::io(file.display().to_string(), "write", error))?;
        let mut command = Command::new(program);
        command.args(["-1", "-q", "-f"]).arg(&file).arg("/dev/null");
        Ok(bytes(pieces) / bed.run(command, job)?.cpu.as_secs_f64())
    })
}
