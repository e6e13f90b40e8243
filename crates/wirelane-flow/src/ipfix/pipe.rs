//! Flows as a stream of messages to another program, or a file (RFC 5655).

use std::io::{self, Write};

use super::element;
use super::encoder::{Encoder, Message};
use super::session::Session;
use super::time::seconds_now;
use crate::Flow;

/// Messages are written when they have reached this size.
const LIMIT: usize = 60_000;

/// Writes flows whole, private elements included: what [`Decoder::new`](super::Decoder::new) with
/// [`EXAMPLE`](element::EXAMPLE) reads is equal to what was written.
#[derive(Debug)]
pub struct Pipe<W> {
    to: W,
    encoder: Encoder,
    session: Session,
}

impl<W: Write> Pipe<W> {
    /// Writes to `to`.
    pub fn new(to: W) -> Self {
        let enterprise = Some(element::EXAMPLE);
        let encoder = Encoder::new(LIMIT, enterprise, false);
        Self { to, encoder, session: Session::new(0, enterprise, LIMIT) }
    }

    /// Adds a flow; the message before it is written if it is full.
    ///
    /// # Errors
    /// What was written to failed.
    pub fn add(&mut self, flow: &Flow) -> io::Result<()> {
        self.encoder.add(flow).into_iter().flatten().try_for_each(|message| self.write(message))
    }

    /// Writes all that was added.
    ///
    /// # Errors
    /// What was written to failed.
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
