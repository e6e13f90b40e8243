//! Flows as text, into a file or on standard output.

use std::fs::File;
use std::io::Write as _;
use std::path::Path;

use wirelane::halt::Halt;
use wirelane::pcap::{Access, pipe};
use wirelane::{Error, Result};
use wirelane_flow::{Flow, Sink, Text, TextFormat};

use crate::access::create;
use crate::output;

/// Bytes that are written together.
const CHUNK: usize = 64 << 10;

/// Writes flows as text.
pub(super) struct TextSink {
    text: Text,
    buffer: Vec<u8>,
    file: File,
    name: String,
    /// For standard output, whose reader may be slow: ends waiting for it.
    halt: Option<Halt>,
}

impl TextSink {
    /// Creates or truncates a file, and writes to it.
    ///
    /// # Errors
    /// The file cannot be created.
    pub(super) fn create(path: &Path, format: TextFormat, access: Access) -> Result<Self> {
        let (name, file) = (path.display().to_string(), create(path, access)?);
        Ok(Self { text: Text::new(format), buffer: Vec::new(), file, name, halt: None })
    }

    /// Writes to standard output, as long as its reader takes it or `halt` allows to wait.
    ///
    /// # Errors
    /// There is no standard output.
    pub(super) fn stdout(format: TextFormat, halt: &Halt) -> Result<Self> {
        let (name, file) = ("standard output".to_owned(), output::standard_output()?);
        let halt = Some(halt.clone());
        Ok(Self { text: Text::new(format), buffer: Vec::new(), file, name, halt })
    }

    fn write(&mut self) -> Result<()> {
        let Self { buffer, file, name, halt, .. } = self;
        let outcome = match halt {
            None => file.write_all(buffer),
            Some(halt) => {
                pipe::write(file, buffer, halt, output::whole_lines).map_err(|(_, error)| error)
            }
        };
        buffer.clear();
        outcome.map_err(|error| Error::io(name.clone(), "write", error))
    }
}

impl Sink for TextSink {
    fn add(&mut self, flow: &Flow) -> Result<()> {
        self.text.push(flow, &mut self.buffer);
        if self.buffer.len() >= CHUNK { self.write() } else { Ok(()) }
    }

    fn tick(&mut self) -> Result<()> {
        if self.buffer.is_empty() { Ok(()) } else { self.write() }
    }

    fn needs_ticks(&self) -> bool {
        !self.buffer.is_empty()
    }

    fn finish(&mut self) -> Result<()> {
        self.text.head(&mut self.buffer);
        self.write()
    }
}
