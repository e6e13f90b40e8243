//! Flows as a stream of messages to another program or a file (RFC 5655).

use std::io::{self, Write};

use super::element;
use super::encoder::{Encoder, Message};
use super::session::TransportSession;
use super::time::seconds_now;
use crate::Flow;

/// The size limit of messages.
const LIMIT: usize = 60_000;

/// Writes complete flows, including private elements: a [`Decoder::new`](super::Decoder::new) with
/// [`EXAMPLE`](element::EXAMPLE) returns equal flows.
#[derive(Debug)]
pub struct Pipe<W> {
    to: W,
    encoder: Encoder,
    session: TransportSession,
}

impl<W: Write> Pipe<W> {
    /// A pipe that writes to `to`.
    pub fn new(to: W) -> Self {
        let enterprise = Some(element::EXAMPLE);
        let encoder = Encoder::new(LIMIT, enterprise, false);
        Self { to, encoder, session: TransportSession::new(0, enterprise, LIMIT) }
    }

    /// Adds a flow. Writes the current message if it is full.
    ///
    /// # Errors
    /// The writer fails.
    pub fn add(&mut self, flow: &Flow) -> io::Result<()> {
        self.encoder.add(flow).into_iter().flatten().try_for_each(|message| self.write(message))
    }

    /// Writes all pending flows, and flushes the writer.
    ///
    /// # Errors
    /// The writer fails.
    pub fn flush(&mut self) -> io::Result<()> {
        if let Some(message) = self.encoder.flush() {
            self.write(message)?;
        }
        self.to.flush()
    }

    fn write(&mut self, mut message: Message) -> io::Result<()> {
        let now = seconds_now();
        for templates in self.session.templates(&message, now) {
            self.to.write_all(&templates)?;
        }
        self.session.seal(&mut message, now);
        self.to.write_all(&message.bytes)
    }
}
