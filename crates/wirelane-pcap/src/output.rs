//! Writes encoded bytes to a file or standard output, in large chunks of whole blocks.
//!
//! Chunks are 128 KiB: the buffer stays in the L2 cache between filling it and `write(2)`, and
//! there is one system call per 85 packets of 1500 bytes. Of the sizes that
//! `benches/capture_file.rs` compares on `/dev/shm`, 16 KiB is a tenth slower. All sizes from 64
//! KiB to 4 MiB are equal within the noise, at or above the speed of `dd bs=1M`.

use std::fs::{File, OpenOptions};
use std::io::{self, IsTerminal, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::thread;

use crate::access::Access;
use crate::cancel::{Cancel, CancelSource};
use crate::error::CaptureError;
use crate::format::{FileFormat, UnsupportedContent};
use crate::identity::FileId;
use crate::options::WriterOptions;
use crate::packer::{BlockChunk, ChunkPacker};
use crate::pcapng::{MAX_PACKET, MetadataBlock};
use crate::pipe;
use crate::record::{Record, Source, Statistics};
use crate::rotate::spare;
use crate::system;

/// Bytes per `write(2)`, without compression.
const CHUNK: usize = 128 * 1024;
/// Sequences of blocks of this length are written without a copy into the buffer.
const DIRECT: usize = 32 * 1024;
/// The longest delay of a write, in nanoseconds, if [`OutputFile::flush_if_older`] is called often.
const MAX_DELAY: u64 = 1_000_000_000;

/// The least number of chunks, before compression, in a file of limited size, unless they would be
/// too short to be compressed well.
const CHUNKS_OF_A_FILE: u64 = 16;
const LEAST_CHUNK: usize = 64 * 1024;
/// A compressed file ends when less than this part of its limit, or less than these bytes, remain.
const TOLERANCE: u64 = 32;
const LEAST_TOLERANCE: u64 = 4096;

/// The number of spare names to try.
const SPARES: u32 = 100_000;

/// One open file, FIFO or standard output of one format.
///
/// Flushed data is readable after SIGKILL. When a write fails half-way, a file is truncated to its
/// last whole block. The reader of a pipe also receives whole blocks, unless one is longer than a
/// page. A limit of the file's size (`RLIMIT_FSIZE`) is an error only for a process that survives
/// SIGXFSZ, as the command does. Dropping an output flushes it and ignores the error;
/// [`OutputFile::flush`] reports it.
///
/// Compression is asynchronous: full chunks are sent to the threads of a [`ChunkPacker`], and later
/// calls write the results, in order. Only data in the file counts as safe.
pub(crate) struct OutputFile {
    name: String,
    /// Path of the file.
    path: PathBuf,
    file: File,
    format: FileFormat,
    packer: Option<ChunkPacker>,
    chunk: usize,
    buffer: Vec<u8>,
    /// A regular file, which can be truncated.
    is_file: bool,
    /// The output has a reader, which may stop reading.
    is_read: bool,
    cancel: Cancel,
    /// Packets in the buffer, and packets in the file.
    pending: u64,
    packets: u64,
    /// Bytes in the file.
    bytes: u64,
    /// When the buffer was first seen with data.
    waiting_since: Option<u64>,
    failed: bool,
}

impl OutputFile {
    /// Creates a file, or takes standard output for `-`, and puts the headers of the format into
    /// its buffer. Waits for a FIFO's reader. `packer` compresses the output; it is taken only on
    /// success.
    ///
    /// The file cannot be created, is one of [`WriterOptions::inputs`] (it is unchanged), or the
    /// sources do not fit into the format; a FIFO had no reader until [`WriterOptions::cancel`] was
    /// set.
    ///
    /// `fresh`: creates a new file under the first free name of [`spare`].
    pub(crate) fn create(
        path: &Path,
        fresh: bool,
        options: &WriterOptions,
        sources: &[Source],
        packer: &mut Option<ChunkPacker>,
    ) -> Result<Self, CaptureError> {
        let mut path = path.to_path_buf();
        let is_stdout = path.as_os_str() == "-" && options.open.is_none();
        let is_ours = !is_stdout && options.open.is_none();
        let name = if is_stdout { "standard output".into() } else { path.display().to_string() };
        let chunk = packer.as_ref().map_or(CHUNK, |packer| packed_chunk(packer, options));
        let mut buffer = buffer(chunk);
        // Headers that cannot be encoded replace no file.
        let headers = options.format.headers(&mut buffer, &options.section, sources);
        headers.map_err(|refusal| refusal.of(&name))?;
        let opened = match &options.open {
            Some(file) => file.try_clone(),
            None if is_stdout => system::standard_output(),
            None if fresh => create_new(&mut path),
            None => open(&path, &options.cancel),
        };
        let failed = |name: &str, action| {
            let name = name.to_owned();
            move |source| CaptureError::Open { name, action, source }
        };
        let file = opened.map_err(failed(&name, "create"))?;
        let name = if is_ours { path.display().to_string() } else { name };
        // Compare the open file: a name could be changed to another file.
        if FileId::of(&file).is_some_and(|id| options.inputs.contains(&id)) {
            return Err(CaptureError::IsInput { name });
        }
        let kind = file.metadata().map_err(failed(&name, "create"))?.file_type();
        let is_file = kind.is_file();
        let is_read = system::is_read(kind) || file.is_terminal();
        if is_file && is_ours {
            if options.access.is_told() {
                options.access.apply(&file).map_err(failed(&name, "set the access of"))?;
            }
            file.set_len(0).map_err(failed(&name, "create"))?;
        }
        Ok(Self {
            is_file,
            is_read,
            cancel: options.cancel.clone(),
            name,
            path,
            file,
            format: options.format,
            packer: packer.take(),
            chunk,
            buffer,
            pending: 0,
            packets: 0,
            bytes: 0,
            waiting_since: None,
            failed: false,
        })
    }

    /// Path of the file.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Identity of the file.
    pub(crate) fn id(&self) -> Option<FileId> {
        FileId::of(&self.file)
    }

    /// Renames the file to `path`, or to the first free one of its [`spare`] names. The file keeps
    /// its name if the file system cannot rename without replacing, or if it was moved. True if
    /// `path` is the name of another file.
    pub(crate) fn rename(&mut self, path: &Path) -> bool {
        let (free, renamed) = first_free(path, |to| match to == self.path {
            true => Ok(()),
            false => system::rename_new(&self.path, to),
        });
        let is_taken = free != path;
        if renamed.is_ok() {
            self.name = free.display().to_string();
            self.path = free;
        }
        is_taken
    }

    /// Returns the compressing threads, for the next file. Only after [`OutputFile::flush`].
    pub(crate) fn take_packer(&mut self) -> Option<ChunkPacker> {
        self.packer.take()
    }

    /// Returns the threads, if there is no next file.
    pub(crate) fn put_packer(&mut self, packer: Option<ChunkPacker>) {
        self.packer = packer;
    }

    /// Adds a packet and writes when a chunk is full.
    ///
    /// # Errors
    /// Writing failed, or the packet's time does not fit into the format. All later writes fail.
    #[inline]
    pub(crate) fn packet(
        &mut self,
        record: &Record<'_>,
        options: &[u8],
    ) -> Result<(), CaptureError> {
        if let Err(refusal) = self.format.packet(&mut self.buffer, record, options) {
            return Err(self.refuse(refusal));
        }
        self.pending += 1;
        if self.buffer.len() >= self.chunk { self.pass_on() } else { Ok(()) }
    }

    /// Adds encoded packets, as whole blocks of this file's format. Writes a large sequence
    /// directly, without another copy.
    ///
    /// # Errors
    /// See [`OutputFile::flush`].
    pub(crate) fn blocks(&mut self, blocks: &[u8], packets: u64) -> Result<(), CaptureError> {
        if self.packer.is_some() || self.failed || blocks.len() < DIRECT {
            self.buffer.extend_from_slice(blocks);
            self.pending += packets;
            return if self.buffer.len() >= self.chunk { self.pass_on() } else { Ok(()) };
        }
        self.flush()?;
        match self.write(blocks) {
            Ok(()) => {
                self.bytes += blocks.len() as u64;
                self.packets += packets;
                Ok(())
            }
            // Continue through the buffer, whose error handling truncates the file to its last
            // whole block.
            Err((written, source)) => {
                self.buffer.extend_from_slice(blocks);
                Err(self.fail(written, source))
            }
        }
    }

    /// Adds an interface after the earlier ones; `first` is the first of them.
    ///
    /// # Errors
    /// The format cannot hold it.
    pub(crate) fn source(
        &mut self,
        source: &Source,
        first: Option<&Source>,
    ) -> Result<(), CaptureError> {
        let added = self.format.source(&mut self.buffer, source, first);
        added.map_err(|refusal| refusal.of(&self.name))
    }

    /// Adds a block beside packets, if the format supports it, and writes when a chunk is full.
    ///
    /// # Errors
    /// See [`OutputFile::flush`].
    pub(crate) fn metadata(&mut self, metadata: MetadataBlock<'_>) -> Result<(), CaptureError> {
        self.format.metadata(&mut self.buffer, metadata);
        if self.buffer.len() >= self.chunk { self.pass_on() } else { Ok(()) }
    }

    /// Adds counters, if the format supports them.
    pub(crate) fn statistics(&mut self, statistics: &[Statistics]) {
        self.format.statistics(&mut self.buffer, statistics);
    }

    /// Writes data that has waited for a second or longer, and chunks that were compressed. `now`
    /// is the time of any monotonic clock, in nanoseconds.
    ///
    /// # Errors
    /// See [`OutputFile::flush`].
    pub(crate) fn flush_if_older(&mut self, now: u64) -> Result<(), CaptureError> {
        while self.write_packed(false)? {}
        if self.buffer.is_empty() {
            return Ok(());
        }
        match self.waiting_since {
            Some(since) if now.saturating_sub(since) >= MAX_DELAY => self.flush(),
            Some(_) => Ok(()),
            None => {
                self.waiting_since = Some(now);
                Ok(())
            }
        }
    }

    /// Writes all accepted data.
    ///
    /// # Errors
    /// Writing failed. All later writes fail.
    pub(crate) fn flush(&mut self) -> Result<(), CaptureError> {
        self.pass_on()?;
        while self.write_packed(true)? {}
        Ok(())
    }

    /// Empties the buffer: writes it, or sends it to be compressed.
    fn pass_on(&mut self) -> Result<(), CaptureError> {
        if self.failed {
            self.buffer.clear();
            self.pending = 0;
            let (name, packets) = (self.name.clone(), self.packets);
            let source = io::Error::other("an earlier write failed");
            return Err(CaptureError::Write { name, packets, source });
        }
        if self.buffer.is_empty() {
            return Ok(());
        }
        self.waiting_since = None;
        if self.packer.is_some() {
            return self.pack();
        }
        match self.write(&self.buffer) {
            Ok(()) => {
                self.bytes += self.buffer.len() as u64;
                self.packets += self.pending;
                self.pending = 0;
                self.buffer.clear();
                Ok(())
            }
            Err((written, source)) => Err(self.fail(written, source)),
        }
    }

    /// Sends the buffer to be compressed, and writes the compressed chunks; waits for some if there
    /// is no room for another.
    fn pack(&mut self) -> Result<(), CaptureError> {
        while self.packer.as_ref().is_some_and(|packer| !packer.has_room()) {
            self.write_packed(true)?;
        }
        let Some(packer) = &mut self.packer else { return Ok(()) };
        let mut chunk = packer.blank();
        if chunk.plain.capacity() == 0 {
            chunk.plain = buffer(self.chunk);
        }
        std::mem::swap(&mut chunk.plain, &mut self.buffer);
        chunk.packets = std::mem::take(&mut self.pending);
        if let Err(source) = packer.send(chunk) {
            return Err(self.fail(0, source));
        }
        while self.write_packed(false)? {}
        Ok(())
    }

    /// Writes the oldest pending chunk, if `waits` or if it is ready; false if there was none.
    fn write_packed(&mut self, waits: bool) -> Result<bool, CaptureError> {
        let Some(packer) = &mut self.packer else { return Ok(false) };
        let chunk: BlockChunk = match packer.receive(waits) {
            Ok(Some(chunk)) => chunk,
            Ok(None) => return Ok(false),
            Err(source) => return Err(self.fail(0, source)),
        };
        if let Err((written, source)) = self.write(&chunk.compressed) {
            return Err(self.fail(written, source));
        }
        self.bytes += chunk.compressed.len() as u64;
        self.packets += chunk.packets;
        if let Some(packer) = &mut self.packer {
            packer.recycle(chunk);
        }
        Ok(true)
    }

    /// Packets that are safely in the file.
    #[must_use]
    pub(crate) fn packets(&self) -> u64 {
        self.packets
    }

    /// Accepted packets, written or not.
    #[must_use]
    pub(crate) fn accepted(&self) -> u64 {
        self.packets + self.packer.as_ref().map_or(0, ChunkPacker::packets) + self.pending
    }

    /// Bytes in the file, after compression.
    #[must_use]
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The largest size of the file after all accepted data and `added` more bytes of blocks are
    /// written.
    #[must_use]
    pub(crate) fn most_bytes(&self, added: u64) -> u64 {
        let buffered = self.buffer.len() as u64 + added;
        match &self.packer {
            None => self.bytes + buffered,
            Some(packer) => self.bytes + incompressible(packer.bytes() + buffered),
        }
    }

    /// Whether the file might exceed `limit` bytes with `added` more bytes of blocks. Compression
    /// may shorten pending data: close to the limit, this waits until that data is in the file.
    ///
    /// # Errors
    /// See [`OutputFile::flush`].
    #[inline]
    pub(crate) fn is_full(&mut self, added: u64, limit: u64) -> Result<bool, CaptureError> {
        if self.most_bytes(added) <= limit {
            return Ok(false);
        }
        if self.packer.is_some() { self.is_packed_full(added, limit) } else { Ok(true) }
    }

    #[cold]
    fn is_packed_full(&mut self, added: u64, limit: u64) -> Result<bool, CaptureError> {
        while self.write_packed(true)? {}
        if self.most_bytes(added) <= limit {
            return Ok(false);
        }
        let tolerance = (limit / TOLERANCE).max(LEAST_TOLERANCE);
        if limit.saturating_sub(self.bytes) >= tolerance {
            // This makes a short chunk. The next one is even shorter, so there are few of them.
            self.flush()?;
        }
        Ok(self.most_bytes(added) > limit || limit.saturating_sub(self.bytes) < tolerance)
    }

    /// Ends the file before a packet that it cannot hold.
    #[cold]
    fn refuse(&mut self, refusal: UnsupportedContent) -> CaptureError {
        if let Err(error) = self.flush() {
            return error;
        }
        self.failed = true;
        refusal.of(&self.name)
    }

    /// Writes all of `data`, or returns the number of bytes written.
    fn write(&self, data: &[u8]) -> Result<(), (usize, io::Error)> {
        if !self.is_read {
            return write_all(&self.file, data);
        }
        let whole = |rest: &[u8], limit: usize| {
            if self.packer.is_some() {
                return rest.len().min(limit);
            }
            let at_start = self.bytes == 0 && rest.len() == data.len();
            self.format.whole(rest, limit, at_start).0
        };
        pipe::write(&self.file, data, &self.cancel, whole)
    }

    /// Cleans up after a failed write: `written` bytes of the chunk are in the file. Pending
    /// compressed data is lost: writing it would leave a gap in the file.
    fn fail(&mut self, written: usize, source: io::Error) -> CaptureError {
        self.failed = true;
        let (whole, packets) = match self.packer.take() {
            Some(_) => (0, 0),
            None => self.format.whole(&self.buffer, written, self.bytes == 0),
        };
        let cut = self.is_file && cut_back(&mut self.file, (written - whole) as u64).is_ok();
        self.bytes += if cut { whole } else { written } as u64;
        self.packets += packets;
        self.pending = 0;
        self.buffer.clear();
        let name = self.name.clone();
        if source.kind() == io::ErrorKind::BrokenPipe {
            CaptureError::BrokenPipe { name, packets: self.packets }
        } else {
            CaptureError::Write { name, packets: self.packets, source }
        }
    }
}

impl Drop for OutputFile {
    fn drop(&mut self) {
        let _ = self.flush();
    }
}

/// Bytes of a chunk before compression: fewer if the size of files is limited, so that the
/// compressed size is known early.
fn packed_chunk(packer: &ChunkPacker, options: &WriterOptions) -> usize {
    let limit = options.rotation.max_bytes.map_or(usize::MAX, |limit| {
        usize::try_from(limit / CHUNKS_OF_A_FILE).unwrap_or(usize::MAX)
    });
    packer.chunk().min(limit.max(LEAST_CHUNK))
}

/// The largest compressed size of `bytes` incompressible bytes, in chunks: RFC 1951 and the frame
/// formats of lz4 and zstd add a few bytes to each block of 64 KiB or more, and to each chunk.
fn incompressible(bytes: u64) -> u64 {
    bytes + bytes / 256 + 128
}

/// A full chunk is passed on, so the buffer holds at most one packet more than a chunk.
fn buffer(chunk: usize) -> Vec<u8> {
    Vec::with_capacity(chunk + MAX_PACKET + 64)
}

/// Calls `take` with `path`, then with its [`spare`] names until one is free; returns the last name
/// and the result of the last call.
fn first_free<T>(path: &Path, take: impl Fn(&Path) -> io::Result<T>) -> (PathBuf, io::Result<T>) {
    let mut number = 0;
    loop {
        let name = spare(path, number);
        match take(&name) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && number < SPARES => {
                number += 1;
            }
            outcome => return (name, outcome),
        }
    }
}

/// Creates a file at `path`, or at the first free one of its [`spare`] names, with permissions for
/// its owner; sets `path` to its name.
fn create_new(path: &mut PathBuf) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    system::set_mode(&mut options, Access::OWNER);
    let opened;
    (*path, opened) = first_free(path, |name| options.open(name));
    opened
}

/// Opens `path` for writing without truncating it; a new file has permissions for its owner. Waits
/// for the reader of a FIFO, without which it cannot be opened.
fn open(path: &Path, cancel: &Cancel) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false);
    system::set_mode(&mut options, Access::OWNER);
    let is_fifo = path.metadata().is_ok_and(|file| system::is_fifo(file.file_type()));
    if is_fifo {
        system::set_nonblocking(&mut options);
    }
    loop {
        match options.open(path) {
            Err(error) if is_fifo && system::has_no_reader(&error) => {
                if cancel.ends_waiting() {
                    return Err(io::Error::other("the command ended before anything read from it"));
                }
                thread::sleep(Cancel::NAP);
            }
            opened => return opened,
        }
    }
}

/// `write_all` that returns the number of bytes written.
fn write_all(mut file: &File, mut data: &[u8]) -> Result<(), (usize, io::Error)> {
    let total = data.len();
    while !data.is_empty() {
        match file.write(data) {
            Ok(0) => return Err((total - data.len(), io::ErrorKind::WriteZero.into())),
            Ok(count) => data = data.get(count..).unwrap_or_default(),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err((total - data.len(), error)),
        }
    }
    Ok(())
}

/// Truncates the last `bytes` bytes of a file, if the file ends at its position: other programs may
/// also write to standard output.
fn cut_back(file: &mut File, bytes: u64) -> io::Result<()> {
    let len = file.metadata()?.len();
    if file.stream_position()? != len {
        return Err(io::ErrorKind::Unsupported.into());
    }
    let whole = len.saturating_sub(bytes);
    file.set_len(whole)?;
    file.seek(SeekFrom::Start(whole)).map(|_| ())
}
