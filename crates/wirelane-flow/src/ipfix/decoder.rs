//! Messages back into flows: of our own exporter, or of another's.

use std::collections::HashMap;
use std::fmt;
use std::io::{self, Read};
use std::sync::Arc;

use super::element::VARIABLE;
use super::format::{HEADER, OPTIONS_TEMPLATES, SET_HEADER, TEMPLATES, VERSION};
use super::record::{blank, take};
use super::shape::{Field, field_of};
use crate::Flow;

/// Reads messages of one transport session.
#[derive(Debug)]
pub struct Decoder {
    enterprise: Option<u32>,
    /// By observation domain and number.
    templates: HashMap<(u32, u16), Template>,
    /// The last interface: flows share its name.
    interface: Arc<str>,
}

/// A template, as far as it can be used.
#[derive(Clone, Debug)]
enum Template {
    Flow(Vec<(Option<Field>, u16)>),
    /// Statistics and the like.
    Options,
}

/// What is wrong with a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DecodeError {
    /// It begins with another version than 10.
    Version(u16),
    /// It ends before its header, a set or a record says.
    Short,
    /// A set's template was not sent.
    Template(u16),
    /// A template without fields, or whose fields take no bytes.
    Empty(u16),
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Version(it) => write!(f, "version {it} is not IPFIX, which is 10"),
            Self::Short => write!(f, "a message ends before its lengths say"),
            Self::Template(it) => write!(f, "template {it} was not sent before its data"),
            Self::Empty(it) => write!(f, "template {it} has no fields"),
        }
    }
}

impl std::error::Error for DecodeError {}

impl Decoder {
    /// Private elements are taken from `enterprise`.
    pub fn new(enterprise: Option<u32>) -> Self {
        Self { enterprise, templates: HashMap::new(), interface: "".into() }
    }

    /// Appends the flows of `message` to `flows`. Fields that a record lacks are zero or unknown.
    ///
    /// # Errors
    /// The message is malformed, or a template is missing; flows before that are kept.
    pub fn decode(&mut self, message: &[u8], flows: &mut Vec<Flow>) -> Result<(), DecodeError> {
        let mut header = Bytes(message);
        let version = header.number(2)? as u16;
        if version != VERSION {
            return Err(DecodeError::Version(version));
        }
        let length = header.number(2)? as usize;
        header.number(4)?;
        header.number(4)?;
        let domain = header.number(4)?;
        let sets = message.get(HEADER..length).ok_or(DecodeError::Short)?;
        let mut sets = Bytes(sets);
        while !sets.0.is_empty() {
            let id = sets.number(2)? as u16;
            let length = sets.number(2)? as usize;
            let body = length.checked_sub(SET_HEADER).ok_or(DecodeError::Short)?;
            let set = Bytes(sets.take(body)?);
            match id {
                TEMPLATES => self.take_templates(domain, set)?,
                OPTIONS_TEMPLATES => self.take_options(domain, set)?,
                0..256 => {}
                id => self.take_records(domain, id, set, flows)?,
            }
        }
        Ok(())
    }

    fn take_templates(&mut self, domain: u32, mut set: Bytes<'_>) -> Result<(), DecodeError> {
        while set.0.len() >= 4 {
            let id = set.number(2)? as u16;
            let count = set.number(2)?;
            // Padding is zeros; a template without fields is withdrawn (RFC 7011 section 8.1).
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
            self.templates.insert((domain, id), Template::Flow(fields));
        }
        Ok(())
    }

    fn take_options(&mut self, domain: u32, mut set: Bytes<'_>) -> Result<(), DecodeError> {
        while set.0.len() >= 6 {
            let id = set.number(2)? as u16;
            let count = set.number(2)?;
            set.number(2)?;
            for _ in 0..count {
                set.specifier()?;
            }
            self.templates.insert((domain, id), Template::Options);
        }
        Ok(())
    }

    fn take_records(
        &mut self,
        domain: u32,
        id: u16,
        mut set: Bytes<'_>,
        flows: &mut Vec<Flow>,
    ) -> Result<(), DecodeError> {
        let template = self.templates.get(&(domain, id)).ok_or(DecodeError::Template(id))?;
        let Template::Flow(fields) = template else { return Ok(()) };
        // What is shorter than the shortest record is padding (RFC 7011 section 3.3.1).
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

/// Reads one message of a stream into `message`; `false` at its end.
///
/// # Errors
/// The stream cannot be read, ends in the middle of a message, or holds no IPFIX.
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

/// The fewest bytes that a field takes.
fn shortest(length: u16) -> usize {
    if length == VARIABLE { 1 } else { usize::from(length) }
}

/// What is left of a message.
struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], DecodeError> {
        let (head, tail) = self.0.split_at_checked(count).ok_or(DecodeError::Short)?;
        self.0 = tail;
        Ok(head)
    }

    /// Of up to four bytes.
    fn number(&mut self, count: usize) -> Result<u32, DecodeError> {
        Ok(self.take(count)?.iter().fold(0, |number, byte| number << 8 | u32::from(*byte)))
    }

    /// Of a field of variable length (RFC 7011 section 7).
    fn length(&mut self) -> Result<usize, DecodeError> {
        let short = self.number(1)? as usize;
        if short < 255 { Ok(short) } else { Ok(self.number(2)? as usize) }
    }

    /// The enterprise, its element and the length (RFC 7011 section 3.2).
    fn specifier(&mut self) -> Result<(u32, u16, u16), DecodeError> {
        let (id, length) = (self.number(2)? as u16, self.number(2)? as u16);
        let enterprise = if id & 0x8000 == 0 { 0 } else { self.number(4)? };
        Ok((enterprise, id & 0x7fff, length))
    }
}
