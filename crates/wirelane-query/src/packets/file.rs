//! Capture files: read from their first packet to their last.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use datafusion::physical_plan::metrics::Count;
use wirelane::{Error, Result};
use wirelane_pcap::CaptureReader;

use super::asked::PacketSelection;
use super::leftovers::Leftovers;
use super::rows::RowBatch;
use super::sieve::LinkFilters;

/// Packets between checks of [`RowBatch::is_over`].
const PERIOD: u32 = 1 << 14;

/// Opens a file to see whether it is a capture.
///
/// # Errors
/// The file is no capture or cannot be read.
pub(super) fn check(path: &Path) -> Result<()> {
    // A pipe cannot be read twice.
    if path.is_file() { open(path, Count::new()).map(drop) } else { Ok(()) }
}

/// Makes rows of the selected packets. If the file is damaged, rows end at the damage, and
/// `leftovers` records it.
///
/// # Errors
/// The file cannot be opened, or is no capture.
pub(super) fn read(
    path: &Path,
    asked: &PacketSelection,
    sieve: &mut LinkFilters,
    rows: &mut RowBatch,
    bytes: Count,
    leftovers: &Leftovers,
) -> Result<()> {
    let mut reader = open(path, bytes)?;
    let mut until_asked = PERIOD;
    loop {
        match reader.advance() {
            Ok(true) => {}
            Ok(false) => break,
            Err(error) => {
                leftovers.unread(error.into());
                break;
            }
        }
        let record = reader.current();
        let sources = reader.interfaces();
        let source = sources.get(record.interface as usize);
        let is_asked = asked.includes(record.timestamp)
            && source.is_some_and(|source| sieve.accepts(&record, source));
        if is_asked && rows.push(&record, sources)?.is_break() {
            break;
        }
        until_asked -= 1;
        if until_asked == 0 {
            if rows.is_over() {
                break;
            }
            until_asked = PERIOD;
        }
    }
    rows.flush().map(drop)
}

fn open(path: &Path, bytes: Count) -> Result<CaptureReader> {
    let name = path.display().to_string();
    let file = File::open(path).map_err(|error| Error::io(name.clone(), "open", error))?;
    Ok(CaptureReader::from_reader(CountingReader { file, bytes }, &name)?)
}

/// Counts the bytes read.
struct CountingReader {
    file: File,
    bytes: Count,
}

impl Read for CountingReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read(buffer)?;
        self.bytes.add(count);
        Ok(count)
    }
}
