//! Reads and decompresses extents, in memory that is used again.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;

use rustix::io::Errno;
use wirelane_os::disk::{self, ALIGNMENT, Buffer, Buffers};
use wirelane_pcap::{Compression, FrameDecompressor};

use crate::extent::{EXTENT_SIZE, Extent, ExtentHeader};
use crate::names::SegmentName;

/// What reading extents needs, and can be used for the next one. A thread has its own.
#[derive(Default)]
pub struct Loader {
    /// An extent as it is on disk, aligned for direct I/O.
    disk: Option<Buffer>,
    payload: Range<usize>,
    plain: Vec<u8>,
    plain_len: usize,
    lz4: Option<FrameDecompressor>,
    zstd: Option<FrameDecompressor>,
}

impl Loader {
    /// What was loaded last, from a segment of this name.
    pub(super) fn blocks(&self, name: &SegmentName) -> &[u8] {
        if name.is_compressed() { self.plain() } else { self.payload() }
    }

    /// What was read last, without its header and padding.
    pub(super) fn payload(&self) -> &[u8] {
        self.disk.as_ref().and_then(|disk| disk.get(self.payload.clone())).unwrap_or_default()
    }

    /// What was decompressed last.
    pub(super) fn plain(&self) -> &[u8] {
        self.plain.get(..self.plain_len).unwrap_or_default()
    }

    /// Reads an extent, of [`EXTENT_SIZE`] at most.
    ///
    /// # Errors
    /// As of pread(2), or the file ends before its payload does. There is not enough memory.
    pub(super) fn read(
        &mut self,
        file: &File,
        extent: &Extent,
        compressed: bool,
    ) -> io::Result<()> {
        let header = &extent.header;
        let start = ExtentHeader::disk_len(compressed);
        self.payload = start..start + header.payload as usize;
        let room = match &mut self.disk {
            Some(room) => room,
            none => none.insert(new_buffer()?),
        };
        let room = room.get_mut(..header.extent_len(compressed)).unwrap_or_default();
        let read = match read(file, room, extent.offset) {
            Err(error) if error.raw_os_error() == Some(Errno::INVAL.raw_os_error()) => {
                disk::make_buffered(file).map_err(|error| io::Error::other(error.to_string()))?;
                read(file, room, extent.offset)
            }
            read => read,
        };
        if read? < self.payload.end {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(())
    }

    /// Decompresses what was read, to `len` bytes, [`EXTENT_SIZE`] at most.
    ///
    /// # Errors
    /// It is damaged, or there is not enough memory.
    pub(super) fn decompress(&mut self, compression: Compression, len: usize) -> io::Result<()> {
        if self.plain.is_empty() {
            self.plain = vec![0; EXTENT_SIZE];
        }
        let slot = match compression {
            Compression::Zstd => &mut self.zstd,
            _ => &mut self.lz4,
        };
        let decompressor = match slot {
            Some(decompressor) => decompressor,
            None => slot.insert(FrameDecompressor::new(compression)?),
        };
        self.plain_len = len;
        let disk = self.disk.as_ref().and_then(|disk| disk.get(self.payload.clone()));
        let plain = self.plain.get_mut(..len).unwrap_or_default();
        decompressor.decompress(disk.unwrap_or_default(), plain)
    }
}

fn new_buffer() -> io::Result<Buffer> {
    let buffers = Buffers::new(1, EXTENT_SIZE);
    let buffer = buffers.map_err(|error| io::Error::other(error.to_string()))?.take();
    buffer.ok_or_else(|| io::ErrorKind::OutOfMemory.into())
}

/// Fills `room` from `offset` on, as far as the file goes.
fn read(file: &File, room: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut len = 0;
    while let Some(rest) = room.get_mut(len..).filter(|rest| !rest.is_empty()) {
        match file.read_at(rest, offset + len as u64) {
            Ok(0) => break,
            Ok(more) => {
                len += more;
                // Direct reads end there only at the end of the file, and cannot go on.
                if !len.is_multiple_of(ALIGNMENT) {
                    break;
                }
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(len)
}
