//! Packets, as a capture: a file, or a stream on standard input.

use std::fs::File;
use std::path::Path;
use std::sync::mpsc::SyncSender;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use wirelane::halt::Halt;
use wirelane::{Error, Result};
use wirelane_flow::arrow::{Interfaces, Packets};
use wirelane_pcap::{CaptureReader, Record, pipe};

use crate::sink::layout;
use crate::sink::rows::PacketPart;

/// Age at which a batch is sent while the pipe is empty.
const PATIENCE: Duration = Duration::from_millis(250);

pub(crate) struct CaptureInput {
    input: pipe::Input,
    halt: Halt,
    batch: HourBatch,
    /// Packets until the limit.
    most: u64,
}

impl CaptureInput {
    /// Opens a capture for at most `most` packets, with their bytes if `data`; `-` is standard
    /// input.
    ///
    /// # Errors
    /// It cannot be read, or is no capture.
    pub(crate) fn open(path: &Path, most: Option<u64>, data: bool, halt: Halt) -> Result<Self> {
        let packets = match data {
            false => Packets::new(),
            true => {
                let schema = Packets::schema_with_data();
                let names: Vec<_> = schema.fields().iter().map(|field| field.name()).collect();
                Packets::of(&names).map_err(|error| failed(error.to_string()))?
            }
        };
        let input = pipe::open(path, &halt)?;
        let batch = HourBatch {
            packets,
            interfaces: Interfaces::default(),
            start: u64::MAX,
            hour: 0,
            since: None,
        };
        Ok(Self { input, halt, batch, most: most.unwrap_or(u64::MAX) })
    }

    /// The columns of its rows.
    pub(crate) fn packets(&self) -> &Packets {
        &self.batch.packets
    }

    /// Reads packets until the end, until a stop is requested, or until the receiver is gone.
    ///
    /// # Errors
    /// The capture is damaged. Packets before the damage are sent.
    pub(crate) fn read(mut self, to: &SyncSender<Vec<PacketPart>>) -> Result<()> {
        let outcome = self.read_all(to);
        if let Some(part) = self.batch.take()? {
            // The receiver may be gone.
            let _ = to.send(vec![part]);
        }
        outcome
    }

    fn read_all(&mut self, to: &SyncSender<Vec<PacketPart>>) -> Result<()> {
        let Self { input, halt, batch, most } = self;
        while *most > 0 {
            match input.reader.advance() {
                Ok(true) => {}
                Ok(false) => return Ok(()),
                Err(error) if error.is_would_block() => {
                    if batch.is_old() && !send(to, batch.take()?) {
                        return Ok(());
                    }
                    wait(input.pipe.as_deref());
                    continue;
                }
                // The requested stop interrupted the read.
                Err(_) if halt.is_asked() => return Ok(()),
                Err(error) => return Err(error.into()),
            }
            let record = input.reader.current();
            let is_full = batch.packets.len() >= Packets::USUAL;
            if (is_full || batch.hour != layout::hour_of(record.timestamp))
                && !batch.packets.is_empty()
                && (halt.is_asked() || !send(to, batch.take()?))
            {
                return Ok(());
            }
            batch.push(&input.reader, &record);
            *most -= 1;
        }
        Ok(())
    }
}

/// Returns `false` if the receiver is gone.
fn send(to: &SyncSender<Vec<PacketPart>>, part: Option<PacketPart>) -> bool {
    part.is_none_or(|part| to.send(vec![part]).is_ok())
}

/// Waits for input, at most `PATIENCE`.
fn wait(pipe: Option<&File>) {
    let (Some(pipe), Ok(pause)) = (pipe, Timespec::try_from(PATIENCE)) else { return };
    // The next read reports errors of the pipe.
    let _ = poll(&mut [PollFd::new(pipe, PollFlags::IN)], Some(&pause));
}

/// The latest packets, all of one hour.
struct HourBatch {
    packets: Packets,
    interfaces: Interfaces,
    start: u64,
    hour: u64,
    /// When the first packet was added.
    since: Option<Instant>,
}

impl HourBatch {
    #[inline]
    fn push(&mut self, reader: &CaptureReader, record: &Record<'_>) {
        if self.packets.is_empty() {
            self.hour = layout::hour_of(record.timestamp);
            self.since = Some(Instant::now());
        }
        self.start = self.start.min(record.timestamp);
        // The reader knows the interface of each packet.
        self.interfaces.push(&mut self.packets, record, reader.interfaces());
    }

    fn is_old(&self) -> bool {
        self.since.is_some_and(|since| since.elapsed() >= PATIENCE)
    }

    /// Ends the batch and begins the next.
    fn take(&mut self) -> Result<Option<PacketPart>> {
        self.since = None;
        if self.packets.is_empty() {
            return Ok(None);
        }
        let start = std::mem::replace(&mut self.start, u64::MAX);
        let batch = self.packets.finish().map_err(|error| failed(error.to_string()))?;
        Ok(Some(PacketPart { start, batch }))
    }
}

fn failed(cause: String) -> Error {
    Error::failed("packets", cause)
}
