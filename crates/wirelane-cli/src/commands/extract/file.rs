//! The file that takes the packets.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use wirelane::halt::Halt;
use wirelane::pcap::{
    Access, CaptureError, CaptureWriter, FileFormat, LINK_TYPE_ETHERNET, Record, Source,
    WriterOptions, Written,
};
use wirelane::{Error, Result};
use wirelane_store::{Directory, Found};

use crate::{args, output, overwrite, stores};

/// A capture file, created at the first packet, when its interfaces are known.
pub(crate) struct ExtractFile<'a> {
    path: &'a Path,
    options: WriterOptions,
    writer: Option<CaptureWriter>,
    /// Interfaces that the file has.
    described: usize,
    /// The link type of a pcap file.
    link_type: u16,
}

impl<'a> ExtractFile<'a> {
    /// Nothing is written yet.
    ///
    /// # Errors
    /// The options contradict each other, or a store cannot be read, or this file belongs to it.
    pub(super) fn new(
        path: &'a Path,
        compress: Option<args::Compress>,
        access: Access,
        stores: &[Directory],
        halt: &Halt,
    ) -> Result<Self> {
        let options = args::writer(path, compress)?;
        let inputs = stores::files(stores)?;
        overwrite::refuse_files(path, &inputs)?;
        let options = options.inputs(inputs).access(access).cancel(halt);
        Ok(Self::with(path, options))
    }

    /// Writes pcapng to the open file `open`, which errors call `name`.
    pub(crate) fn of_open(open: File, name: &'a Path, halt: &Halt) -> Self {
        let options = WriterOptions::of_path(name).format(FileFormat::Pcapng);
        Self::with(name, options.open(Arc::new(open)).cancel(halt))
    }

    fn with(path: &'a Path, options: WriterOptions) -> Self {
        Self { path, options, writer: None, described: 0, link_type: LINK_TYPE_ETHERNET }
    }

    /// Adds a packet.
    ///
    /// # Errors
    /// The file cannot be written, or its format cannot hold the packet.
    #[inline]
    pub(crate) fn write(&mut self, found: &Found<'_>) -> Result<()> {
        if self.options.format != FileFormat::Pcapng {
            return self.write_pcap(found);
        }
        let new = found.sources.get(self.described..).unwrap_or_default();
        self.described += new.len();
        match &mut self.writer {
            None => self.create(new)?,
            Some(writer) => {
                for source in new {
                    writer.add_source(source.clone())?;
                }
            }
        }
        let Some(writer) = &mut self.writer else { return Ok(()) };
        Ok(writer.write_with(&found.record, found.options)?)
    }

    /// Completes the file. Creates it if nothing was found.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn finish(mut self) -> Result<Written> {
        if self.writer.is_none() {
            let sources = match self.options.format {
                FileFormat::Pcapng => Vec::new(),
                FileFormat::Pcap(_) => vec![self.source()],
            };
            self.create(&sources)?;
        }
        match self.writer {
            Some(writer) => Ok(writer.finish(&[])?),
            None => Ok(Written::default()),
        }
    }

    /// A pcap file has one interface. All its packets must have the same link type.
    fn write_pcap(&mut self, found: &Found<'_>) -> Result<()> {
        let source = found.sources.get(found.record.interface as usize);
        let link_type = source.map_or(LINK_TYPE_ETHERNET, |source| source.link_type);
        if self.writer.is_none() {
            self.link_type = link_type;
            self.create(&[self.source()])?;
        }
        if link_type != self.link_type {
            let first = self.link_type;
            let cause = format!("pcap holds one link type, and {first} and {link_type} match");
            return Err(Error::failed(self.path.display().to_string(), cause).help("write pcapng"));
        }
        let Some(writer) = &mut self.writer else { return Ok(()) };
        Ok(writer.write(&Record { interface: 0, ..found.record })?)
    }

    fn source(&self) -> Source {
        Source { link_type: self.link_type, ..Source::default() }
    }

    fn create(&mut self, sources: &[Source]) -> std::result::Result<(), CaptureError> {
        let writer = CaptureWriter::create(self.path, sources, self.options.clone(), 0)?;
        if let Some(shortage) = writer.shortage() {
            output::note(shortage);
        }
        self.writer = Some(writer);
        Ok(())
    }
}
