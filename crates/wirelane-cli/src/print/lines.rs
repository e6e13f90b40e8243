//! Prints the packets of a capture as they arrive.

use std::fs::File;
use std::io::{self, IsTerminal, Write as _};
use std::os::unix::fs::FileTypeExt;

use wirelane::halt::Halt;
use wirelane::internal;
use wirelane::internal::session::View;
use wirelane::pcap::{Record, Source, pipe};
use wirelane::{Error, Result};
use wirelane_print::{Packet, Printer, Style};

use crate::output::{printable, standard_output, whole_lines};

/// Text is written when it has this many bytes, or when no packet waits.
const ENOUGH: usize = 64 * 1024;
/// How many packets a terminal still gets after the user has asked for the end.
const LAST: u32 = 1000;

/// Prints packets on standard output.
pub(crate) struct PacketPrinter {
    printer: Printer,
    interfaces: Vec<PrintedInterface>,
    text: String,
    file: File,
    /// Whether standard output has a reader that may close it.
    is_read: bool,
    is_terminal: bool,
    halt: Halt,
    /// How many packets have been printed since ^C.
    late: u32,
}

struct PrintedInterface {
    place: String,
    link_type: u16,
}

impl PacketPrinter {
    /// Lines of this style. `halt` ends waiting for the reader.
    ///
    /// # Errors
    /// There is no standard output.
    pub(crate) fn new(style: Style, halt: &Halt) -> Result<Self> {
        let failed = |error| Error::io("standard output", "open", error);
        let file = standard_output()?;
        let kind = file.metadata().map_err(failed)?.file_type();
        let is_terminal = file.is_terminal();
        Ok(Self {
            printer: Printer::new(style),
            interfaces: Vec::new(),
            text: String::with_capacity(2 * ENOUGH),
            file,
            is_read: is_terminal || kind.is_fifo() || kind.is_socket(),
            is_terminal,
            halt: halt.clone(),
            late: 0,
        })
    }

    fn flush(&mut self) -> Result<()> {
        let bytes = self.text.as_bytes();
        let written = match self.is_read {
            true => {
                pipe::write(&self.file, bytes, &self.halt, whole_lines).map_err(|(_, error)| error)
            }
            false => self.file.write_all(bytes),
        };
        self.text.clear();
        written.map_err(|error| Error::io("standard output", "write", error))
    }
}

impl View for PacketPrinter {
    fn interface(&mut self, interface: &internal::session::Interface) -> Result<()> {
        let source = &interface.source;
        self.interfaces
            .push(PrintedInterface { place: place(source), link_type: source.link_type });
        Ok(())
    }

    fn packet(&mut self, record: &Record<'_>, _: &[u8]) -> Result<()> {
        if self.is_terminal && self.halt.is_asked() {
            self.late += 1;
            if self.late > LAST {
                // After ^C, end the output.
                let error = io::ErrorKind::BrokenPipe.into();
                return Err(Error::io("standard output", "write", error));
            }
        }
        let Some(PrintedInterface { place, link_type }) =
            self.interfaces.get(record.interface as usize)
        else {
            return Ok(());
        };
        let packet = Packet {
            timestamp: record.timestamp,
            place,
            link_type: *link_type,
            original_len: record.original_len,
            data: record.data,
            comment: None,
        };
        self.printer.print(&packet, &mut self.text);
        if self.text.len() >= ENOUGH { self.flush() } else { Ok(()) }
    }

    fn pause(&mut self) -> Result<()> {
        if self.text.is_empty() { Ok(()) } else { self.flush() }
    }

    fn pause_at_once(&mut self) -> Result<bool> {
        let is_free = pipe::takes_at_once(&self.file, self.text.len());
        if is_free { self.pause().map(|()| true) } else { Ok(self.text.is_empty()) }
    }
}

/// Where packets of an interface are seen: `eth0 rx2`.
fn place(source: &Source) -> String {
    let number = source.queue.map(|queue| queue.to_string()).unwrap_or_default();
    let class = source.class.map(|class| format!("{class}{number}")).unwrap_or_default();
    printable(format!("{} {class}", source.name).trim())
}

#[cfg(test)]
mod tests {
    use wirelane::Class;

    use super::*;

    #[test]
    fn a_place_is_an_interface_and_a_queue() {
        for (source, expected) in [
            (Source::new("eth0", Class::Rx, Some(2)), "eth0 rx2"),
            (Source::new("eth0", Class::Other, None), "eth0 other"),
            (Source::new("", Class::Tx, Some(0)), "tx0"),
            (Source { name: "en\x1b".into(), ..Source::default() }, "en?"),
            (Source::default(), ""),
        ] {
            assert_eq!(place(&source), expected);
        }
    }
}
