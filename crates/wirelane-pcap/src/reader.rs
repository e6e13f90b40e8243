//! Opens a capture file of any kind, recognized by its content.

use std::fs::File;
use std::io::{self, Read};
use std::ops::ControlFlow;
use std::path::Path;

use crate::compression::Compression;
#[cfg(feature = "compression")]
use crate::decompress::decompress;
use crate::error::CaptureError;
use crate::identity::FileId;
use crate::losses::Losses;
use crate::pcap::{MAGIC_MICROSECONDS, MAGIC_MODIFIED, MAGIC_NANOSECONDS, PcapReader};
use crate::pcapng::{MetadataBlock, PcapngReader, SECTION_HEADER, Step};
use crate::record::{OddTimes, Record, Section, Source, Statistics};
use crate::system::standard_input;
#[cfg(not(feature = "compression"))]
use crate::uncompressed::decompress;

/// A pcap or pcapng file, plain or compressed with gzip, lz4 or zstd.
pub struct CaptureReader {
    name: String,
    compression: Option<Compression>,
    decoder: FormatDecoder,
    file: Option<FileId>,
}

enum FormatDecoder {
    Pcap(Box<PcapReader<Box<dyn Read + Send>>>),
    Pcapng(Box<PcapngReader<Box<dyn Read + Send>>>),
}

impl CaptureReader {
    /// Opens a file; `-` is standard input.
    ///
    /// # Errors
    /// The file cannot be opened or read, or is no capture file.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, CaptureError> {
        let path = path.as_ref();
        if path.as_os_str() == "-" {
            let name = "standard input";
            let opened = standard_input();
            let file = opened.map_err(|source| CaptureError::Open {
                name: name.into(),
                action: "open",
                source,
            })?;
            let id = FileId::of(&file);
            return Ok(Self::from_reader(file, name)?.of_file(id));
        }
        let name = path.display().to_string();
        let file = File::open(path);
        let file = file.map_err(|source| CaptureError::Open {
            name: name.clone(),
            action: "open",
            source,
        })?;
        let id = FileId::of(&file);
        Ok(Self::from_reader(file, &name)?.of_file(id))
    }

    /// Sets the file that is being read.
    pub(crate) fn of_file(self, file: Option<FileId>) -> Self {
        Self { file, ..self }
    }

    /// The file being read, for [`WriterOptions::inputs`](super::WriterOptions::inputs).
    #[must_use]
    pub fn file(&self) -> Option<FileId> {
        self.file
    }

    /// Reads from any byte stream; errors call it `name`. Until this returns, the stream must wait
    /// for bytes instead of returning `WouldBlock`.
    ///
    /// # Errors
    /// The stream cannot be read or holds no capture.
    pub fn from_reader<R: Read + Send + 'static>(
        source: R,
        name: &str,
    ) -> Result<Self, CaptureError> {
        let (start, source) = peek(source, name)?;
        let compression = Compression::of_magic(&start);
        let (start, source) = match compression {
            Some(compression) => {
                let unpacked = decompress(compression, source).map_err(|source| {
                    CaptureError::Open { name: name.into(), action: "open", source }
                })?;
                peek(unpacked, name)?
            }
            None => (start, source),
        };
        let decoder = match start.first_chunk().map(|bytes| u32::from_le_bytes(*bytes)) {
            Some(SECTION_HEADER) => {
                let mut reader = PcapngReader::new(source, name);
                reader.open()?;
                FormatDecoder::Pcapng(Box::new(reader))
            }
            Some(magic) if is_pcap(magic) || is_pcap(magic.swap_bytes()) => {
                let mut reader = PcapReader::new(source, name);
                reader.open()?;
                FormatDecoder::Pcap(Box::new(reader))
            }
            None if start.is_empty() => {
                return Err(CaptureError::Unrecognized {
                    name: name.into(),
                    what: "it is empty".into(),
                });
            }
            _ => {
                let bytes: Vec<_> = start.iter().map(|byte| format!("{byte:02x}")).collect();
                let what = format!("it begins with the bytes {}", bytes.join(" "));
                return Err(CaptureError::Unrecognized { name: name.into(), what });
            }
        };
        Ok(Self { name: name.into(), compression, decoder, file: None })
    }

    /// The next packet, or `None` at the end. An error ends the stream, except when the source
    /// would block: then nothing is lost, and the next call continues
    /// ([`CaptureError::is_would_block`]).
    ///
    /// # Errors
    /// The file is damaged or cannot be read; every packet before the damage was delivered.
    #[inline]
    pub fn next_record(&mut self) -> Result<Option<Record<'_>>, CaptureError> {
        Ok(if self.advance()? { Some(self.current()) } else { None })
    }

    /// Moves to the next packet; false at the end.
    ///
    /// # Errors
    /// See [`CaptureReader::next_record`].
    #[inline]
    pub fn advance(&mut self) -> Result<bool, CaptureError> {
        match &mut self.decoder {
            FormatDecoder::Pcap(reader) => reader.advance(),
            FormatDecoder::Pcapng(reader) => reader.advance(),
        }
    }

    /// Calls `each` for every remaining packet, with the interfaces described so far, until it
    /// breaks. A loop over [`CaptureReader::advance`] is compiled in the crate of the caller; this
    /// one is compiled here, for callers without optimisation.
    ///
    /// # Errors
    /// See [`CaptureReader::next_record`].
    pub fn visit(
        &mut self,
        each: &mut dyn FnMut(&Record<'_>, &[Source]) -> ControlFlow<()>,
    ) -> Result<(), CaptureError> {
        while self.advance()? {
            if each(&self.current(), self.interfaces()).is_break() {
                break;
            }
        }
        Ok(())
    }

    /// Moves to the next packet, or to the next block beside packets, such as names and secrets,
    /// which [`CaptureReader::metadata`] then returns.
    ///
    /// # Errors
    /// See [`CaptureReader::next_record`].
    #[inline]
    pub fn step(&mut self) -> Result<Step, CaptureError> {
        match &mut self.decoder {
            FormatDecoder::Pcap(reader) => {
                Ok(if reader.advance()? { Step::Packet } else { Step::End })
            }
            FormatDecoder::Pcapng(reader) => reader.step(),
        }
    }

    /// The block that [`CaptureReader::step`] moved to.
    #[must_use]
    pub fn metadata(&self) -> Option<MetadataBlock<'_>> {
        match &self.decoder {
            FormatDecoder::Pcap(_) => None,
            FormatDecoder::Pcapng(reader) => reader.metadata(),
        }
    }

    /// The encoded options of the current packet: its comments, flags and others, in the byte order
    /// of this machine, for [`CaptureWriter::write_with`](super::CaptureWriter::write_with) or
    /// [`pcapng::options`](super::pcapng::options).
    #[inline]
    #[must_use]
    pub fn options(&self) -> &[u8] {
        match &self.decoder {
            FormatDecoder::Pcap(_) => &[],
            FormatDecoder::Pcapng(reader) => reader.options(),
        }
    }

    /// Bytes of the frame check sequence at the end of the current packet, if the file states it
    /// for the packet or its interface. The data includes these bytes, unless the packet was cut.
    #[must_use]
    pub fn fcs_len(&self) -> Option<u8> {
        match &self.decoder {
            FormatDecoder::Pcap(reader) => reader.interfaces().first().and_then(|one| one.fcs_len),
            FormatDecoder::Pcapng(reader) => reader.fcs_len(),
        }
    }

    /// Contents of the file so far that a copy cannot receive.
    #[must_use]
    pub fn lost(&self) -> Losses {
        match &self.decoder {
            FormatDecoder::Pcap(_) => Losses::default(),
            FormatDecoder::Pcapng(reader) => reader.lost(),
        }
    }

    /// The packet that [`CaptureReader::advance`] moved to; empty when there is none.
    #[inline]
    #[must_use]
    pub fn current(&self) -> Record<'_> {
        match &self.decoder {
            FormatDecoder::Pcap(reader) => reader.current(),
            FormatDecoder::Pcapng(reader) => reader.current(),
        }
    }

    /// The interfaces described so far. Files of Wirelane describe all of them at the start; other
    /// pcapng files may describe more between packets.
    #[must_use]
    pub fn interfaces(&self) -> &[Source] {
        match &self.decoder {
            FormatDecoder::Pcap(reader) => reader.interfaces(),
            FormatDecoder::Pcapng(reader) => reader.interfaces(),
        }
    }

    /// The last statistics seen of each interface (pcapng only); complete once the end is reached.
    #[must_use]
    pub fn statistics(&self) -> Vec<Statistics> {
        match &self.decoder {
            FormatDecoder::Pcapng(reader) => reader.statistics().copied().collect(),
            FormatDecoder::Pcap(_) => Vec::new(),
        }
    }

    /// The section header of the file (pcapng only).
    #[must_use]
    pub fn section(&self) -> Option<&Section> {
        match &self.decoder {
            FormatDecoder::Pcapng(reader) => reader.section(),
            FormatDecoder::Pcap(_) => None,
        }
    }

    /// Counts the packets so far whose time cannot be represented exactly.
    #[must_use]
    pub fn odd_times(&self) -> OddTimes {
        match &self.decoder {
            FormatDecoder::Pcapng(reader) => reader.odd_times(),
            // 32 bits of seconds, and at most nanoseconds.
            FormatDecoder::Pcap(_) => OddTimes::default(),
        }
    }

    /// Packets delivered so far.
    #[must_use]
    pub fn packets(&self) -> u64 {
        match &self.decoder {
            FormatDecoder::Pcap(reader) => reader.packets(),
            FormatDecoder::Pcapng(reader) => reader.packets(),
        }
    }

    /// How the file is compressed.
    #[must_use]
    pub fn compression(&self) -> Option<Compression> {
        self.compression
    }

    /// The name of the file in errors.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }
}

fn is_pcap(magic: u32) -> bool {
    matches!(magic, MAGIC_MICROSECONDS | MAGIC_NANOSECONDS | MAGIC_MODIFIED)
}

/// The first four bytes of a stream, or all of a shorter one, and the stream including those bytes.
fn peek<R: Read + Send + 'static>(
    mut source: R,
    name: &str,
) -> Result<(Vec<u8>, Box<dyn Read + Send>), CaptureError> {
    let mut start = Vec::new();
    match (&mut source).take(4).read_to_end(&mut start) {
        Ok(_) => {}
        // A compressed file that was cut in its first bytes.
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
            return Err(CaptureError::Truncated { name: name.into(), offset: 0, packets: 0 });
        }
        Err(source) => return Err(CaptureError::Read { name: name.into(), offset: 0, source }),
    }
    let again = io::Cursor::new(start.clone());
    Ok((start, Box::new(again.chain(source))))
}
