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

/// Packets of a pipe that is silent for longer wait for no others.
const PATIENCE: Duration = Duration::from_millis(250);

/// A capture that is open.
pub(crate) struct Capture {
    input: pipe::Input,
    halt: Halt,
    batch: Batch,
    /// Packets that are still wanted.
    most: u64,
}

impl Capture {
    /// Opens a capture for at most so many packets, with or without their bytes; `-` is standard
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
        let batch = Batch {
            packets,
            interfaces: Interfaces::default(),
            start: u64::MAX,
            hour: 0,
            since: None,
        };
        Ok(Self { input, halt, batch, most: most.unwrap_or(u64::MAX) })
    }

    /// What its columns are.
    pub(crate) fn packets(&self) -> &Packets {
        &self.batch.packets
    }

    /// Reads packets until their end, until it is asked to end, or until nobody wants them any
    /// more.
    ///
    /// # Errors
    /// The capture is damaged; what came before was sent.
    pub(crate) fn read(mut self, to: &SyncSender<Vec<PacketPart>>) -> Result<()> {
        let outcome = self.read_all(to);
        if let Some(part) = self.batch.take()? {
            // Nobody may want it any more.
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
                // Not that anything is wrong with it.
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

/// False if nobody wants it any more.
fn send(to: &SyncSender<Vec<PacketPart>>, part: Option<PacketPart>) -> bool {
    part.is_none_or(|part| to.send(vec![part]).is_ok())
}

/// Waits for more, but not for long.
fn wait(pipe: Option<&File>) {
    let (Some(pipe), Ok(pause)) = (pipe, Timespec::try_from(PATIENCE)) else { return };
    // What is wrong with it, the read will say.
    let _ = poll(&mut [PollFd::new(pipe, PollFlags::IN)], Some(&pause));
}

/// The packets of an hour that came last.
struct Batch {
    packets: Packets,
    interfaces: Interfaces,
    start: u64,
    hour: u64,
    /// When the first of them came.
    since: Option<Instant>,
}

impl Batch {
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

    /// What there is; the next one begins.
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
