//! Reads and decompresses extents, in reusable memory.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;

use rustix::io::Errno;
use wirelane_pcap::{Compression, FrameDecompressor};

use crate::disk::{self, ALIGNMENT, Buffer, Buffers};
use crate::extent::{EXTENT_SIZE, Extent, ExtentHeader};
use crate::names::SegmentName;

/// Reusable buffers for reading extents, one per thread.
#[derive(Default)]
pub struct Loader {
    /// An extent in disk format, aligned for direct I/O.
    disk: Option<Buffer>,
    payload: Range<usize>,
    plain: Vec<u8>,
    plain_len: usize,
    lz4: Option<FrameDecompressor>,
    zstd: Option<FrameDecompressor>,
}

impl Loader {
    /// The blocks of the last extent, read from a segment of this name.
    pub(super) fn blocks(&self, name: &SegmentName) -> &[u8] {
        if name.is_compressed() { self.plain() } else { self.payload() }
    }

    /// The last extent read, without its header and padding.
    pub(super) fn payload(&self) -> &[u8] {
        self.disk.as_ref().and_then(|disk| disk.get(self.payload.clone())).unwrap_or_default()
    }

    /// The last decompressed blocks.
    pub(super) fn plain(&self) -> &[u8] {
        self.plain.get(..self.plain_len).unwrap_or_default()
    }

    /// Reads an extent of at most [`EXTENT_SIZE`].
    ///
    /// # Errors
    /// As of pread(2), or the file ends before the payload does, or memory runs out.
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

    /// Decompresses the payload to `len` bytes, at most [`EXTENT_SIZE`].
    ///
    /// # Errors
    /// The payload is damaged, or memory runs out.
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

/// Fills `room` from `offset` on, up to the end of the file.
fn read(file: &File, room: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut len = 0;
    while let Some(rest) = room.get_mut(len..).filter(|rest| !rest.is_empty()) {
        match file.read_at(rest, offset + len as u64) {
            Ok(0) => break,
            Ok(more) => {
                len += more;
                // A direct read of another length ends at the end of the file, and cannot continue.
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
