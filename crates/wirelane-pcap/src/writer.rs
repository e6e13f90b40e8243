//! Writes a capture: one file, or a rotation of files that are each complete.

use std::io::{self, IsTerminal as _};
use std::path::{Path, PathBuf};

use crate::compression::Compression;
use crate::error::CaptureError;
use crate::format::FileFormat;
use crate::keepsakes::Keepsakes;
use crate::losses::Losses;
use crate::options::WriterOptions;
use crate::output::OutputFile;
use crate::packer::ChunkPacker;
use crate::pcapng::{self, MetadataBlock, MetadataKind};
use crate::record::{Record, Source, Statistics};
use crate::rotate::RotationNames;

/// Totals of a writer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// Files begun.
    pub files: u64,
    /// Packets that are safely in a file, including files that the rotation deleted since.
    pub packets: u64,
    /// Bytes written, after compression.
    pub bytes: u64,
}

/// Writes packets to one file, or to a rotation of files.
pub struct CaptureWriter {
    options: WriterOptions,
    sources: Vec<Source>,
    output: OutputFile,
    names: Option<RotationNames>,
    /// The number of files whose name was taken; the name of the first, and its name now.
    displaced: u64,
    first_displaced: Option<(PathBuf, PathBuf)>,
    /// The first file of a rotation has no name from a packet yet.
    is_unnamed: bool,
    /// The last statistics given, which end every file.
    statistics: Vec<Statistics>,
    /// Names and secrets, which every file begins with.
    keepsakes: Keepsakes,
    /// Contents that the format cannot hold.
    lost: Losses,
    /// A sentence about compression that differs from the request.
    shortage: Option<String>,
    /// Totals of the files before the current one.
    closed: Written,
    /// Where the time grid starts, and where its next step is, if it has one before the end of
    /// time.
    origin: u64,
    boundary: Option<u64>,
}

impl CaptureWriter {
    /// Creates the (first) file; `-` is standard output. Waits for the reader of a FIFO. `now` is
    /// where the grid of [`Rotation::max_age`](crate::Rotation::max_age) starts, unless the first
    /// packet is older, and the time in the name of the first file of a rotation until its first
    /// packet, in nanoseconds since the Unix epoch.
    ///
    /// # Errors
    /// The file cannot be created, or the sources or the rotation do not fit the format or the
    /// path; the suffix names a compression or a format that is not written, such as `.xz` or
    /// `.snoop`; there is no room for the threads that compress.
    pub fn create(
        path: impl AsRef<Path>,
        sources: &[Source],
        options: WriterOptions,
        now: u64,
    ) -> Result<Self, CaptureError> {
        let path = path.as_ref();
        if Compression::is_foreign(path) {
            return Err(CaptureError::Unsupported {
                name: path.display().to_string(),
                what: "this suffix means a compression that is not written",
                help: "end the name with .gz, .lz4 or .zst, or with none of them",
            });
        }
        if options.open.is_none() && FileFormat::is_foreign(path) {
            return Err(CaptureError::Unsupported {
                name: path.display().to_string(),
                what: "this suffix means a format that is not written",
                help: "end the name with .pcapng or .pcap",
            });
        }
        if path.as_os_str() == "-" && io::stdout().is_terminal() {
            return Err(CaptureError::Unsupported {
                name: "standard output".into(),
                what: "it is a terminal, which no capture file is for",
                help: "name a file, or send it to a program, as in `-w - | tshark -r -`",
            });
        }
        let mut names = None;
        let mut first = path.to_path_buf();
        if options.rotation.is_active() {
            if path.as_os_str() == "-" {
                let (what, help) = ("standard output cannot be rotated", "give a file name");
                return Err(CaptureError::Unsupported {
                    name: "standard output".into(),
                    what,
                    help,
                });
            }
            first = names.insert(RotationNames::new(path, options.rotation.max_files)).next(now);
        }
        let packer = options.compression.map(|it| ChunkPacker::start(it, options.room)).transpose();
        let mut packer = packer.map_err(|source| CaptureError::Open {
            name: path.display().to_string(),
            action: "start the threads that compress",
            source,
        })?;
        let shortage = packer.as_ref().and_then(ChunkPacker::note).map(str::to_owned);
        let fresh = names.is_some() || options.fresh;
        let output = OutputFile::create(&first, fresh, &options, sources, &mut packer)?;
        if let Some(names) = &mut names {
            names.add(output.path(), output.id());
        }
        let mut lost = Losses::default();
        if options.format != FileFormat::Pcapng {
            lost.file_options = pcapng::options(&options.section.options).count() as u64;
            lost.interfaces = sources.iter().filter(|source| source.says_more()).count() as u64;
        }
        let mut writer = Self {
            keepsakes: Keepsakes::default(),
            lost,
            shortage,
            sources: sources.to_vec(),
            output,
            is_unnamed: names.is_some(),
            names,
            displaced: 0,
            first_displaced: None,
            statistics: Vec::new(),
            closed: Written::default(),
            origin: now,
            boundary: options.rotation.max_age.and_then(|age| now.checked_add(age.max(1))),
            options,
        };
        if !writer.is_unnamed {
            writer.note_name(first);
        }
        Ok(writer)
    }

    /// Adds a packet, after beginning a new file if one is due.
    ///
    /// # Errors
    /// Writing failed, or the next file cannot be created. All later writes fail.
    #[inline]
    pub fn write(&mut self, record: &Record<'_>) -> Result<(), CaptureError> {
        self.write_with(record, &[])
    }

    /// As [`CaptureWriter::write`], with encoded options of the packet in the byte order of this
    /// machine, such as [`CaptureReader::options`](super::CaptureReader::options) returns. Flags in
    /// the options override the direction of the record. [`CaptureWriter::lost`] counts the options
    /// that the format cannot hold.
    ///
    /// # Errors
    /// See [`CaptureWriter::write`].
    #[inline]
    pub fn write_with(&mut self, record: &Record<'_>, options: &[u8]) -> Result<(), CaptureError> {
        if self.names.is_some() {
            if self.is_unnamed {
                self.name_for(record.timestamp);
            }
            if self.is_due(record, options)? {
                self.rotate_for(record.timestamp)?;
            }
        }
        if !options.is_empty() && self.options.format != FileFormat::Pcapng {
            let (comments, others) = pcapng::count_options(options);
            self.lost.packet_comments += comments;
            self.lost.packet_options += others;
        }
        self.output.packet(record, options)
    }

    /// As [`CaptureWriter::write`], with a comment that programs show with the packet.
    /// [`CaptureWriter::lost`] counts the comments that the format cannot hold.
    ///
    /// # Errors
    /// See [`CaptureWriter::write`].
    pub fn write_with_comment(
        &mut self,
        record: &Record<'_>,
        comment: &str,
    ) -> Result<(), CaptureError> {
        self.write_with(record, &pcapng::comment(comment))
    }

    /// Adds a block beside packets. Names and secrets are written once per file: if a file has
    /// them, they are not repeated, and every later file of a rotation begins with them.
    /// [`CaptureWriter::lost`] counts the blocks that the format cannot hold.
    ///
    /// # Errors
    /// Writing failed. All later writes fail.
    pub fn write_metadata(&mut self, metadata: MetadataBlock<'_>) -> Result<(), CaptureError> {
        let kind = metadata.kind();
        if self.options.format != FileFormat::Pcapng {
            self.lost.count(kind);
            return Ok(());
        }
        if kind != MetadataKind::Other {
            if self.keepsakes.has(metadata) {
                return Ok(());
            }
            let is_kept = self.keepsakes.keep(metadata);
            self.lost.not_repeated += u64::from(!is_kept && self.names.is_some());
        }
        self.output.metadata(metadata)
    }

    /// Contents that are not in the output, because its format cannot hold them.
    #[must_use]
    pub fn lost(&self) -> Losses {
        self.lost
    }

    /// A sentence if memory does not suffice for the requested compression.
    #[must_use]
    pub fn shortage(&self) -> Option<&str> {
        self.shortage.as_deref()
    }

    /// A sentence about the files that got another name, because the intended one was taken.
    #[must_use]
    pub fn displaced(&self) -> Option<String> {
        let (name, other) = self.first_displaced.as_ref()?;
        let (name, other) = (name.display(), other.display());
        Some(match self.displaced {
            1 => format!("{name} was there already, so {other} was written"),
            n => format!("{n} names were taken: {name} was there already, so {other} was written"),
        })
    }

    /// Whether [`CaptureWriter::write_blocks`] may be used: the file holds the blocks unchanged,
    /// and the writer makes no decision between two blocks.
    #[must_use]
    pub fn takes_blocks(&self) -> bool {
        self.options.format == FileFormat::Pcapng && self.names.is_none()
    }

    /// Adds `packets` packets that are encoded already as enhanced packet blocks of this machine's
    /// byte order. Only if [`CaptureWriter::takes_blocks`].
    ///
    /// # Errors
    /// Writing failed. All later writes fail.
    pub fn write_blocks(&mut self, blocks: &[u8], packets: u64) -> Result<(), CaptureError> {
        self.output.blocks(blocks, packets)
    }

    /// Adds an interface; its index is the number of those before.
    ///
    /// # Errors
    /// The format cannot hold it: classic pcap takes only more of the same link type.
    pub fn add_source(&mut self, source: Source) -> Result<u32, CaptureError> {
        self.output.source(&source, self.sources.first())?;
        if self.options.format != FileFormat::Pcapng {
            self.lost.interfaces += u64::from(source.says_more());
        }
        self.sources.push(source);
        Ok((self.sources.len() - 1) as u32)
    }

    /// Adds counters to the current file, if its size limit leaves room. The last ones given are
    /// repeated at the end of every file of a rotation.
    pub fn write_statistics(&mut self, statistics: &[Statistics]) {
        let added = self.options.format.statistics_len(statistics.len());
        let limit = self.options.rotation.max_bytes.unwrap_or(u64::MAX);
        if self.output.most_bytes(added + self.end_len()) <= limit {
            self.output.statistics(statistics);
        }
        self.keep_statistics(statistics);
    }

    /// Takes the counters that will end the current file if the next one begins before others are
    /// given. Nothing is written now.
    pub fn keep_statistics(&mut self, statistics: &[Statistics]) {
        self.statistics.clear();
        self.statistics.extend_from_slice(statistics);
    }

    /// Whether this is a rotation of files.
    #[must_use]
    pub fn is_rotating(&self) -> bool {
        self.names.is_some()
    }

    /// Writes data that has waited for a second. `now` is the time of any monotonic clock, in
    /// nanoseconds; call this a few times per second.
    ///
    /// # Errors
    /// Writing failed. All later writes fail.
    pub fn flush_if_older(&mut self, now: u64) -> Result<(), CaptureError> {
        self.output.flush_if_older(now)
    }

    /// Writes everything given so far.
    ///
    /// # Errors
    /// Writing failed. All later writes fail.
    pub fn flush(&mut self) -> Result<(), CaptureError> {
        self.output.flush()
    }

    /// Tells that every packet older than `time` (nanoseconds since the epoch) was written, so that
    /// a file whose time is over ends although no packet comes.
    ///
    /// # Errors
    /// See [`CaptureWriter::write`].
    pub fn advance(&mut self, time: u64) -> Result<(), CaptureError> {
        if !self.is_over_at(time) {
            return Ok(());
        }
        if self.output.accepted() > 0 {
            self.rotate_for(time)
        } else {
            (_, self.boundary) = self.step_at(time);
            Ok(())
        }
    }

    /// The file being written.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.output.path()
    }

    /// Totals that are safely written so far.
    #[must_use]
    pub fn written(&self) -> Written {
        Written {
            files: self.names.as_ref().map_or(1, RotationNames::count),
            packets: self.closed.packets + self.output.packets(),
            bytes: self.closed.bytes + self.output.bytes(),
        }
    }

    /// Ends the capture with these counters.
    ///
    /// # Errors
    /// Writing failed; [`CaptureError::Write`] says how much is safe.
    pub fn finish(mut self, statistics: &[Statistics]) -> Result<Written, CaptureError> {
        self.end(statistics)?;
        Ok(self.written())
    }

    /// As [`CaptureWriter::finish`], but keeps the writer, so that [`CaptureWriter::written`]
    /// reports the safe totals even after an error. The caller must not write after this.
    ///
    /// # Errors
    /// As [`CaptureWriter::finish`].
    pub fn end(&mut self, statistics: &[Statistics]) -> Result<(), CaptureError> {
        self.output.statistics(statistics);
        self.output.flush()
    }

    fn is_due(&mut self, record: &Record<'_>, options: &[u8]) -> Result<bool, CaptureError> {
        if self.is_over_at(record.timestamp) {
            return Ok(true);
        }
        let packets = self.output.accepted();
        if packets == 0 {
            return Ok(false);
        }
        let rotation = &self.options.rotation;
        if rotation.max_packets.is_some_and(|limit| packets >= limit) {
            return Ok(true);
        }
        let Some(limit) = rotation.max_bytes else { return Ok(false) };
        let added = self.options.format.packet_len(record, options) + self.end_len();
        self.output.is_full(added, limit)
    }

    /// Most bytes the statistics at the end of a file take.
    fn end_len(&self) -> u64 {
        self.options.format.statistics_len(self.sources.len())
    }

    /// Begins a new file for packets from `time` on.
    #[cold]
    fn rotate_for(&mut self, time: u64) -> Result<(), CaptureError> {
        let mut begins = time;
        if self.is_over_at(time) {
            let empty = self.output.accepted() == 0;
            (begins, self.boundary) = self.step_at(time);
            if empty {
                return Ok(());
            }
        }
        let Some(names) = &mut self.names else { return Ok(()) };
        self.output.statistics(&self.statistics);
        self.output.flush()?;
        let path = names.next(begins);
        names.make_room();
        let mut packer = self.output.take_packer();
        let created = OutputFile::create(&path, true, &self.options, &self.sources, &mut packer);
        self.output.put_packer(packer);
        let mut next = created?;
        names.add(next.path(), next.id());
        for metadata in self.keepsakes.iter() {
            next.metadata(metadata)?;
        }
        self.closed.packets += self.output.packets();
        self.closed.bytes += self.output.bytes();
        self.output = next;
        self.note_name(path);
        Ok(())
    }

    /// Names the first file after its first content, at `time`.
    #[cold]
    fn name_for(&mut self, time: u64) {
        self.is_unnamed = false;
        if time < self.origin {
            // The packets come from a file, so their time counts.
            self.origin = time;
            (_, self.boundary) = self.step_at(time);
        }
        let (begins, _) = self.step_at(time);
        let Some(names) = &mut self.names else { return };
        let name = names.current(begins);
        let is_taken = self.output.rename(&name);
        names.rename(self.output.path());
        if is_taken {
            self.note_name(name);
        }
    }

    /// Takes the intended name of the current file.
    fn note_name(&mut self, name: PathBuf) {
        if self.options.open.is_none() && name != self.output.path() {
            self.displaced += 1;
            self.first_displaced.get_or_insert_with(|| (name, self.output.path().to_path_buf()));
        }
    }

    /// Whether the time of the current file is over.
    #[inline]
    fn is_over_at(&self, time: u64) -> bool {
        self.boundary.is_some_and(|boundary| time >= boundary)
    }

    /// Begin and end of the step of the time grid that `time` is in.
    fn step_at(&self, time: u64) -> (u64, Option<u64>) {
        let Some(age) = self.options.rotation.max_age else { return (time, None) };
        let age = age.max(1);
        let passed = time.saturating_sub(self.origin);
        let begin = self.origin + (passed - passed % age);
        (begin, begin.checked_add(age))
    }
}
