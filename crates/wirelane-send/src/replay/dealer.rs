//! Reads files and distributes their packets to lanes.

use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Arc;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use wirelane::halt::Halt;
use wirelane::internal::Remedy;
use wirelane::pcap::Cancel;
use wirelane::pcap::pipe::{self, Input};
use wirelane::pcap::{CaptureError, CaptureReader};
use wirelane::{Error, Result};
use wirelane_gen::rewrite::Rewrite;
use wirelane_wire::{Addresses, FlowKey};

use super::adapt::{Adapted, Adapter};
use super::block::PacketBlock;
use super::clock::PositionMeter;
use super::config::{ReplayConfig, TruncatedPackets};
use super::report::{FileReport, ReplayReport, ReportCell};

/// The destination of blocks.
pub(super) trait BlockSink {
    /// Takes a non-empty block for the lane with this index. Returns false if no more blocks are
    /// needed.
    fn take(&mut self, lane: usize, block: PacketBlock) -> bool;

    /// An empty block, recycled or new.
    fn fresh(&mut self) -> PacketBlock;
}

/// Reads files and distributes their packets.
pub(super) struct Dealer {
    adapter: Adapter,
    rewrite: Rewrite,
    meter: PositionMeter,
    halt: Halt,
    /// The block being filled for each lane.
    open: Vec<PacketBlock>,
    frame: Vec<u8>,
    number: u64,
    pub(super) report: ReplayReport,
    shared: Arc<ReportCell>,
}

/// Why reading ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReadEnd {
    /// All packets were read.
    Whole,
    /// No more packets are needed.
    Unwanted,
}

impl Dealer {
    pub(super) fn new(config: &ReplayConfig, lanes: u32, shared: Arc<ReportCell>) -> Self {
        let name = |path: &std::path::PathBuf| FileReport {
            name: if path.as_os_str() == "-" {
                "standard input".into()
            } else {
                path.display().to_string()
            },
            ..FileReport::default()
        };
        let files = config.files.iter().map(name).collect();
        Self {
            adapter: Adapter {
                cut: config.cut,
                header: config.header,
                fix_checksums: config.fix_checksums,
            },
            rewrite: config.rewrite.clone(),
            meter: PositionMeter::new(&config.timing, config.max_gap, config.loop_gap),
            halt: config.halt.clone(),
            open: (0..lanes.max(1)).map(|_| PacketBlock::default()).collect(),
            frame: Vec::new(),
            number: 0,
            report: ReplayReport { files, ..ReplayReport::default() },
            shared,
        }
    }

    /// Distributes all packets of the files once. Returns the place where the next loop begins.
    ///
    /// # Errors
    /// A file cannot be opened or read to its end. The packets before the error were distributed.
    pub(super) fn deal(
        &mut self,
        files: &[impl AsRef<Path>],
        table: &mut impl BlockSink,
    ) -> Result<(u64, ReadEnd)> {
        let mut result = Ok(ReadEnd::Whole);
        for (index, path) in files.iter().enumerate() {
            result = self.file(path.as_ref(), index, table);
            if !matches!(result, Ok(ReadEnd::Whole)) {
                break;
            }
            self.meter.end_file();
        }
        let is_wanted = self.flush(table);
        let next = self.meter.end_loop();
        self.number += 1;
        self.report.loops += u64::from(matches!(result, Ok(ReadEnd::Whole)));
        self.publish();
        result.map(|end| (next, if is_wanted { end } else { ReadEnd::Unwanted }))
    }

    fn file(&mut self, path: &Path, index: usize, table: &mut impl BlockSink) -> Result<ReadEnd> {
        let Input { mut reader, pipe } = pipe::open(path, &self.halt)?;
        loop {
            match reader.advance() {
                Ok(true) => {}
                Ok(false) => return Ok(ReadEnd::Whole),
                Err(error) if error.is_would_block() => {
                    // Passes on the packets read so far before waiting for more.
                    if !self.flush(table) {
                        return Ok(ReadEnd::Unwanted);
                    }
                    self.publish();
                    if let Some(pipe) = &pipe {
                        wait(pipe.as_fd());
                    }
                    if self.halt.is_asked() {
                        return Ok(ReadEnd::Unwanted);
                    }
                    continue;
                }
                Err(error) => return self.stopped_or(error),
            }
            if !self.packet(&reader, index, table)? {
                return Ok(ReadEnd::Unwanted);
            }
        }
    }

    /// Distinguishes a requested halt from a damaged file.
    fn stopped_or(&self, error: CaptureError) -> Result<ReadEnd> {
        if self.halt.is_asked() { Ok(ReadEnd::Unwanted) } else { Err(error.into()) }
    }

    /// Distributes one packet. Returns false if no more packets are needed.
    fn packet(
        &mut self,
        reader: &CaptureReader,
        index: usize,
        table: &mut impl BlockSink,
    ) -> Result<bool> {
        let record = reader.current();
        self.meter.advance(record.timestamp);
        let source = reader.interfaces().get(record.interface as usize);
        let check = reader.fcs_len().map_or(0, usize::from);
        let frame = &mut self.frame;
        let adapted = self.adapter.frame(&record, check, source, reader.name(), frame)?;
        let Some(file) = self.report.files.get_mut(index) else { return Ok(false) };
        let (len, is_padded) = match adapted {
            Adapted::Frame { len, is_padded, is_unfixed } => {
                file.unfixed += u64::from(is_unfixed);
                (len, is_padded)
            }
            Adapted::Cut => {
                file.cut += 1;
                return Ok(true);
            }
            Adapted::Short => {
                file.short += 1;
                return Ok(true);
            }
        };
        let lacking = len - self.frame.len();
        if is_padded {
            file.padded += 1;
        } else if self.adapter.cut == TruncatedPackets::Send
            && (record.original_len as usize) > record.data.len()
        {
            file.shortened += 1;
        }
        if !self.rewrite.is_empty() {
            self.rewrite.prepare(&mut self.frame);
        }
        let len = self.frame.len() + lacking;
        file.packets += 1;
        file.bytes += len as u64;
        self.report.longest = self.report.longest.max(len);
        let lane = lane_of(&self.frame, self.open.len());
        let place = self.meter.place(len);
        let Some(block) = self.open.get_mut(lane) else { return Ok(false) };
        block.number = self.number;
        block.push(&self.frame, len, place, index as u32);
        // Passes on the blocks of all lanes, so that no lane waits until its own block is full.
        Ok(!block.is_full() || self.flush(table))
    }

    /// Passes on all non-empty blocks.
    fn flush(&mut self, table: &mut impl BlockSink) -> bool {
        for (lane, block) in self.open.iter_mut().enumerate() {
            if !block.packets.is_empty() {
                let next = table.fresh();
                if !table.take(lane, std::mem::replace(block, next)) {
                    return false;
                }
            }
        }
        true
    }

    /// The time from the first to the last packet of the previous loop, with the timing of the
    /// file; otherwise 0.
    pub(super) fn duration(&self) -> u64 {
        self.meter.duration()
    }

    fn publish(&mut self) {
        self.report.times = self.meter.faults();
        self.shared.write(&self.report);
    }

    /// The error if the files have no packet to send.
    pub(super) fn nothing(&self) -> Option<Error> {
        let total = self.report.total();
        if total.packets > 0 {
            return None;
        }
        let names: Vec<_> = self.report.files.iter().map(|file| file.name.as_str()).collect();
        let names = names.join(", ");
        Some(match (total.cut, total.short) {
            (0, 0) => Error::failed(names, "holds no packets").help("name a file with packets"),
            (0, _) => Error::failed(names, "holds only packets too short for an Ethernet header")
                .help("name a file with Ethernet frames"),
            (cut, _) => {
                Error::failed(names, format!("all packets ({cut}) are cut by a snap length"))
                    .remedy(Remedy::CutPackets)
            }
        })
    }
}

/// Waits until the pipe is readable, at most [`Cancel::NAP`].
fn wait(pipe: std::os::fd::BorrowedFd<'_>) {
    let nap = Timespec::try_from(Cancel::NAP).ok();
    // Ignores errors: the next read reports them.
    let _ = poll(&mut [PollFd::new(&pipe, PollFlags::IN)], nap.as_ref());
}

/// The lane of a frame. Both directions of a flow have the same lane, and so have all fragments
/// between two hosts. Frames other than IP go to the first lane.
pub(super) fn lane_of(frame: &[u8], lanes: usize) -> usize {
    if lanes < 2 {
        return 0;
    }
    let Ok(Some(flow)) = FlowKey::parse(frame) else { return 0 };
    let (a, b) = match flow.addresses {
        Addresses::V4 { source, destination } => {
            (mix(source.to_bits().into()), mix(destination.to_bits().into()))
        }
        Addresses::V6 { source, destination } => {
            let fold = |it: std::net::Ipv6Addr| {
                mix(mix((it.to_bits() >> 64) as u64) ^ it.to_bits() as u64)
            };
            (fold(source), fold(destination))
        }
    };
    let (c, d) = flow.ports.map_or((0, 0), |it| (u64::from(it.source), u64::from(it.destination)));
    // Hashes each end of the flow separately; their sum is the same for both directions.
    let sum = mix(a ^ c).wrapping_add(mix(b ^ d)).wrapping_add(u64::from(flow.protocol.0));
    ((u128::from(mix(sum)) * lanes as u128) >> 64) as usize
}

/// The finalizer of MurmurHash3: each input bit affects each output bit.
fn mix(mut number: u64) -> u64 {
    number = (number ^ number >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
    number = (number ^ number >> 33).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    number ^ number >> 33
}
