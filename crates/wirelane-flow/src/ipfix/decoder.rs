//! Decodes messages of this or another exporter to flows.

use std::collections::HashMap;
use std::fmt;
use std::io::{self, Read};
use std::sync::Arc;

use super::element::VARIABLE;
use super::format::{HEADER, OPTIONS_TEMPLATES, SET_HEADER, TEMPLATES, VERSION};
use super::record::{blank, take};
use super::shape::{RecordField, field_of};
use crate::Flow;

/// A decoder for the messages of one transport session.
#[derive(Debug)]
pub struct Decoder {
    enterprise: Option<u32>,
    /// Templates by observation domain and number.
    templates: HashMap<(u32, u16), TemplateFields>,
    /// The name of the last interface, shared by its flows.
    interface: Arc<str>,
}

/// A template.
#[derive(Clone, Debug)]
enum TemplateFields {
    Flow(Vec<(Option<RecordField>, u16)>),
    /// Options records, such as statistics, are skipped.
    Options,
}

/// Why a message cannot be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DecodeError {
    /// The version is not 10.
    Version(u16),
    /// The message is shorter than the lengths in its header, a set or a record.
    Short,
    /// The template of a set was not received.
    Template(u16),
    /// All fields of a template have length 0.
    Empty(u16),
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Version(it) => write!(f, "version {it} is not IPFIX, which is 10"),
            Self::Short => write!(f, "a message is shorter than the lengths in it"),
            Self::Template(it) => write!(f, "template {it} was not sent before its data"),
            Self::Empty(it) => write!(f, "template {it} has no fields"),
        }
    }
}

impl std::error::Error for DecodeError {}

impl Decoder {
    /// `enterprise` is the number of the private elements to decode.
    pub fn new(enterprise: Option<u32>) -> Self {
        Self { enterprise, templates: HashMap::new(), interface: "".into() }
    }

    /// Appends the flows of `message` to `flows`. Fields that are missing in a record are zero or
    /// `None`.
    ///
    /// # Errors
    /// The message is malformed: its version is not 10, it is shorter than the lengths in it, or a
    /// template has no fields. A template was not received. Flows before the error are kept.
    pub fn decode(&mut self, message: &[u8], flows: &mut Vec<Flow>) -> wirelane::Result<()> {
        self.read(message, flows)
            .map_err(|error| wirelane::Error::failed("IPFIX message", error.to_string()))
    }

    fn read(&mut self, message: &[u8], flows: &mut Vec<Flow>) -> Result<(), DecodeError> {
        let mut header = MessageBytes(message);
        let version = header.number(2)? as u16;
        if version != VERSION {
            return Err(DecodeError::Version(version));
        }
        let length = header.number(2)? as usize;
        header.number(4)?;
        header.number(4)?;
        let domain = header.number(4)?;
        let sets = message.get(HEADER..length).ok_or(DecodeError::Short)?;
        let mut sets = MessageBytes(sets);
        while !sets.0.is_empty() {
            let id = sets.number(2)? as u16;
            let length = sets.number(2)? as usize;
            let body = length.checked_sub(SET_HEADER).ok_or(DecodeError::Short)?;
            let set = MessageBytes(sets.take(body)?);
            match id {
                TEMPLATES => self.take_templates(domain, set)?,
                OPTIONS_TEMPLATES => self.take_options(domain, set)?,
                0..256 => {}
                id => self.take_records(domain, id, set, flows)?,
            }
        }
        Ok(())
    }

    fn take_templates(
        &mut self,
        domain: u32,
        mut set: MessageBytes<'_>,
    ) -> Result<(), DecodeError> {
        while set.0.len() >= 4 {
            let id = set.number(2)? as u16;
            let count = set.number(2)?;
            // Padding is zeros. A template without fields withdraws the template (RFC 7011 section
            // 8.1).
            if count == 0 {
                self.templates.remove(&(domain, id));
                continue;
            }
            let fields = (0..count)
                .map(|_| {
                    let (enterprise, id, length) = set.specifier()?;
                    Ok((field_of(enterprise, id, self.enterprise), length))
                })
                .collect::<Result<Vec<_>, DecodeError>>()?;
            if fields.iter().all(|(_, length)| *length == 0) {
                return Err(DecodeError::Empty(id));
            }
            self.templates.insert((domain, id), TemplateFields::Flow(fields));
        }
        Ok(())
    }

    fn take_options(&mut self, domain: u32, mut set: MessageBytes<'_>) -> Result<(), DecodeError> {
        while set.0.len() >= 6 {
            let id = set.number(2)? as u16;
            let count = set.number(2)?;
            set.number(2)?;
            for _ in 0..count {
                set.specifier()?;
            }
            self.templates.insert((domain, id), TemplateFields::Options);
        }
        Ok(())
    }

    fn take_records(
        &mut self,
        domain: u32,
        id: u16,
        mut set: MessageBytes<'_>,
        flows: &mut Vec<Flow>,
    ) -> Result<(), DecodeError> {
        let template = self.templates.get(&(domain, id)).ok_or(DecodeError::Template(id))?;
        let TemplateFields::Flow(fields) = template else { return Ok(()) };
        // A rest shorter than the shortest record is padding (RFC 7011 section 3.3.1).
        let shortest: usize = fields.iter().map(|it| shortest(it.1)).sum();
        while set.0.len() >= shortest {
            let mut flow = blank(&self.interface);
            for (field, length) in fields {
                let length = match *length {
                    VARIABLE => set.length()?,
                    length => usize::from(length),
                };
                let bytes = set.take(length)?;
                if let Some(field) = field {
                    take(&mut flow, *field, bytes, &mut self.interface);
                }
            }
            flows.push(flow);
        }
        Ok(())
    }
}

/// Reads one message of a stream into `message`. Returns false at the end of the stream.
///
/// # Errors
/// The stream cannot be read, ends within a message, or is not IPFIX.
pub fn read_message(stream: &mut impl Read, message: &mut Vec<u8>) -> io::Result<bool> {
    message.resize(HEADER, 0);
    let mut got = 0;
    while got < HEADER {
        match stream.read(&mut message[got..])? {
            0 if got == 0 => return Ok(false),
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            more => got += more,
        }
    }
    let wrong = |error| io::Error::new(io::ErrorKind::InvalidData, error);
    let version = u16::from_be_bytes([message[0], message[1]]);
    if version != VERSION {
        return Err(wrong(DecodeError::Version(version)));
    }
    let length = usize::from(u16::from_be_bytes([message[2], message[3]]));
    if length < HEADER {
        return Err(wrong(DecodeError::Short));
    }
    message.resize(length, 0);
    stream.read_exact(&mut message[HEADER..])?;
    Ok(true)
}

/// The smallest length of a field.
fn shortest(length: u16) -> usize {
    if length == VARIABLE { 1 } else { usize::from(length) }
}

/// The rest of a message.
struct MessageBytes<'a>(&'a [u8]);

impl<'a> MessageBytes<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], DecodeError> {
        let (head, tail) = self.0.split_at_checked(count).ok_or(DecodeError::Short)?;
        self.0 = tail;
        Ok(head)
    }

    /// Reads a number of up to four bytes.
    fn number(&mut self, count: usize) -> Result<u32, DecodeError> {
        Ok(self.take(count)?.iter().fold(0, |number, byte| number << 8 | u32::from(*byte)))
    }

    /// Reads the length of a variable-length field (RFC 7011 section 7).
    fn length(&mut self) -> Result<usize, DecodeError> {
        let short = self.number(1)? as usize;
        if short < 255 { Ok(short) } else { Ok(self.number(2)? as usize) }
    }

    /// Reads a field specifier: enterprise, element and length (RFC 7011 section 3.2).
    fn specifier(&mut self) -> Result<(u32, u16, u16), DecodeError> {
        let (id, length) = (self.number(2)? as u16, self.number(2)? as u16);
        let enterprise = if id & 0x8000 == 0 { 0 } else { self.number(4)? };
        Ok((enterprise, id & 0x7fff, length))
    }
}
