//! A minimal netlink client: one request, its complete answer, and a reader of attributes.
//!
//! Existing crates either include the encoding of every known family or derive it with macros. The
//! few requests of this crate need neither.

use std::os::fd::OwnedFd;

use rustix::buffer::spare_capacity;
use rustix::io::{self, Errno};
use rustix::net::{
    AddressFamily, Protocol, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socket_with,
};

use crate::error::{OsError, Result};

/// A netlink socket in the calling thread's network namespace.
#[derive(Debug)]
pub(crate) struct Netlink {
    socket: OwnedFd,
    sequence: u32,
    /// For answers. It is never cleared, so most of its pages are never touched.
    buffer: Vec<u8>,
}

impl Netlink {
    /// Opens a socket for `protocol`, e.g. `rustix::net::netlink::GENERIC`.
    pub(crate) fn open(protocol: Option<Protocol>) -> Result<Netlink> {
        let socket =
            socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, protocol)
                .map_err(|errno| OsError::new("socket AF_NETLINK", "", errno))?;
        Ok(Netlink { socket, sequence: 0, buffer: Vec::with_capacity(DATAGRAM) })
    }

    /// Sends one request for a single answer and returns the payload of every received message.
    pub(crate) fn get(
        &mut self,
        call: &'static str,
        object: &str,
        kind: u16,
        payload: &[u8],
    ) -> Result<Vec<Vec<u8>>> {
        // With an acknowledgement the end of the answer is always visible.
        self.exchange(kind, NLM_F_ACK, payload)
            .map(|answer| answer.payloads)
            .map_err(|errno| OsError::new(call, object, errno))
    }

    /// Sends one command and waits until the kernel has executed it.
    pub(crate) fn act(
        &mut self,
        call: &'static str,
        object: &str,
        kind: u16,
        flags: u16,
        payload: &[u8],
    ) -> Result<()> {
        self.exchange(kind, NLM_F_ACK | flags, payload)
            .map(drop)
            .map_err(|errno| OsError::new(call, object, errno))
    }

    /// Sends one request for a list and returns the payload of every entry.
    pub(crate) fn dump(
        &mut self,
        call: &'static str,
        object: &str,
        kind: u16,
        payload: &[u8],
    ) -> Result<Vec<Vec<u8>>> {
        // The kernel marks a list that changed while it was read (NLM_F_DUMP_INTR). The last
        // attempt is accepted with the mark: each of its entries is valid, and one may be missing.
        let mut answer = Answer::default();
        for _ in 0..4 {
            answer = self
                .exchange(kind, NLM_F_DUMP, payload)
                .map_err(|errno| OsError::new(call, object, errno))?;
            if !answer.interrupted {
                break;
            }
        }
        Ok(answer.payloads)
    }

    fn exchange(&mut self, kind: u16, flags: u16, payload: &[u8]) -> io::Result<Answer> {
        self.sequence = self.sequence.wrapping_add(1);
        let request = message(kind, flags | NLM_F_REQUEST, self.sequence, payload)?;
        send(&self.socket, &request, SendFlags::empty())?;
        let mut answer = Answer::default();
        loop {
            self.buffer.clear();
            let spare = spare_capacity(&mut self.buffer);
            let (_, length) = match recv(&self.socket, spare, RecvFlags::TRUNC) {
                Err(Errno::INTR) => continue,
                received => received?,
            };
            let datagram = self.buffer.get(..length).ok_or(Errno::MSGSIZE)?;
            if answer.take(datagram, self.sequence)? {
                return Ok(answer);
            }
        }
    }
}

/// The messages of an unsolicited datagram: type and payload. Stops at a malformed message.
pub(crate) fn messages(mut datagram: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let length = u32_at(datagram, 0)? as usize;
        let kind = u16_at(datagram, 4)?;
        let payload = datagram.get(MESSAGE_HEADER..length)?;
        datagram = datagram.get(align(length)..).unwrap_or_default();
        Some((kind, payload))
    })
}

/// The attributes of a message: type without its flag bits, and value. Stops at a malformed
/// attribute.
#[derive(Clone, Debug)]
pub(crate) struct Attributes<'a> {
    rest: &'a [u8],
}

impl<'a> Attributes<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Attributes<'a> {
        Attributes { rest: bytes }
    }
}

impl<'a> Iterator for Attributes<'a> {
    type Item = (u16, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let length = usize::from(u16_at(self.rest, 0)?);
        let kind = u16_at(self.rest, 2)? & NLA_TYPE_MASK;
        let value = self.rest.get(ATTRIBUTE_HEADER..length)?;
        self.rest = self.rest.get(align(length)..).unwrap_or_default();
        Some((kind, value))
    }
}

/// Appends one attribute.
pub(crate) fn push_attribute(to: &mut Vec<u8>, kind: u16, value: &[u8]) -> io::Result<()> {
    let length = u16::try_from(ATTRIBUTE_HEADER + value.len()).map_err(|_| Errno::MSGSIZE)?;
    to.extend_from_slice(&length.to_ne_bytes());
    to.extend_from_slice(&kind.to_ne_bytes());
    to.extend_from_slice(value);
    to.resize(align(to.len()), 0);
    Ok(())
}

pub(crate) fn u16_at(bytes: &[u8], offset: usize) -> Option<u16> {
    bytes.get(offset..)?.first_chunk().map(|value| u16::from_ne_bytes(*value))
}

pub(crate) fn u32_at(bytes: &[u8], offset: usize) -> Option<u32> {
    bytes.get(offset..)?.first_chunk().map(|value| u32::from_ne_bytes(*value))
}

pub(crate) fn u64_at(bytes: &[u8], offset: usize) -> Option<u64> {
    bytes.get(offset..)?.first_chunk().map(|value| u64::from_ne_bytes(*value))
}

/// The text of an attribute, without its terminating zero.
pub(crate) fn text(value: &[u8]) -> String {
    let value = value.split(|byte| *byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(value).into_owned()
}

/// Messages received so far in answer to one request.
#[derive(Debug, Default)]
struct Answer {
    payloads: Vec<Vec<u8>>,
    interrupted: bool,
}

impl Answer {
    /// Takes the messages of one datagram; `true` when the answer is complete.
    fn take(&mut self, mut datagram: &[u8], sequence: u32) -> io::Result<bool> {
        while !datagram.is_empty() {
            let length = u32_at(datagram, 0).ok_or(Errno::BADMSG)? as usize;
            let kind = u16_at(datagram, 4).ok_or(Errno::BADMSG)?;
            let flags = u16_at(datagram, 6).ok_or(Errno::BADMSG)?;
            let number = u32_at(datagram, 8).ok_or(Errno::BADMSG)?;
            let payload = datagram.get(MESSAGE_HEADER..length).ok_or(Errno::BADMSG)?;
            datagram = datagram.get(align(length)..).unwrap_or_default();
            if number != sequence {
                continue; // left over from an earlier request
            }
            self.interrupted |= flags & NLM_F_DUMP_INTR != 0;
            match kind {
                NLMSG_NOOP => {}
                // Both contain an error number, negative, or 0 for an acknowledgement; an old
                // NLMSG_DONE is empty.
                NLMSG_ERROR | NLMSG_DONE => {
                    let code = u32_at(payload, 0).unwrap_or(0).cast_signed();
                    return if code == 0 {
                        Ok(true)
                    } else {
                        Err(Errno::from_raw_os_error(code.wrapping_neg()))
                    };
                }
                _ => self.payloads.push(payload.to_vec()),
            }
        }
        Ok(false)
    }
}

fn message(kind: u16, flags: u16, sequence: u32, payload: &[u8]) -> io::Result<Vec<u8>> {
    let length = u32::try_from(MESSAGE_HEADER + payload.len()).map_err(|_| Errno::MSGSIZE)?;
    let mut bytes = Vec::with_capacity(length as usize);
    bytes.extend_from_slice(&length.to_ne_bytes());
    bytes.extend_from_slice(&kind.to_ne_bytes());
    bytes.extend_from_slice(&flags.to_ne_bytes());
    bytes.extend_from_slice(&sequence.to_ne_bytes());
    bytes.extend_from_slice(&0_u32.to_ne_bytes());
    bytes.extend_from_slice(payload);
    Ok(bytes)
}

/// Lengths are rounded up to a word between messages and between attributes.
fn align(length: usize) -> usize {
    length.next_multiple_of(4)
}

/// The kernel sends dumps in datagrams of at most 32 KiB (netlink_dump); a single message can be
/// longer.
const DATAGRAM: usize = 256 << 10;
/// `sizeof(struct nlmsghdr)`: length, type, flags, sequence, port.
const MESSAGE_HEADER: usize = 16;
/// `sizeof(struct nlattr)`: length, type.
const ATTRIBUTE_HEADER: usize = 4;
/// `NLA_TYPE_MASK`: without `NLA_F_NESTED` and `NLA_F_NET_BYTEORDER`.
const NLA_TYPE_MASK: u16 = 0x3fff;
const NLM_F_REQUEST: u16 = libc::NLM_F_REQUEST as u16;
const NLM_F_ACK: u16 = libc::NLM_F_ACK as u16;
const NLM_F_DUMP: u16 = libc::NLM_F_DUMP as u16;
const NLM_F_DUMP_INTR: u16 = 0x10;
const NLMSG_NOOP: u16 = libc::NLMSG_NOOP as u16;
const NLMSG_ERROR: u16 = libc::NLMSG_ERROR as u16;
const NLMSG_DONE: u16 = libc::NLMSG_DONE as u16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_read_back() {
        let mut bytes = Vec::new();
        push_attribute(&mut bytes, 3, b"eth0\0").unwrap();
        push_attribute(&mut bytes, 0x8000 | 4, &7_u32.to_ne_bytes()).unwrap();
        let read: Vec<_> = Attributes::new(&bytes).collect();
        assert_eq!(read, [(3, &b"eth0\0"[..]), (4, &7_u32.to_ne_bytes()[..])]);
        assert_eq!(text(read[0].1), "eth0");
    }

    #[test]
    fn attributes_end_at_an_impossible_length() {
        for length in [0_u16, 3, 9, u16::MAX] {
            let mut bytes = length.to_ne_bytes().to_vec();
            bytes.extend_from_slice(&[0; 6]);
            assert_eq!(Attributes::new(&bytes).count(), 0, "{length}");
        }
        assert_eq!(Attributes::new(&[4]).count(), 0);
    }

    #[test]
    fn an_answer_ends_with_done_or_an_error() {
        let entry = message(20, 2, 7, b"abcd").unwrap();
        let stale = message(20, 2, 6, b"old!").unwrap();
        let done = message(NLMSG_DONE, 2, 7, &0_u32.to_ne_bytes()).unwrap();
        let mut answer = Answer::default();
        assert_eq!(answer.take(&[stale, entry.clone(), entry].concat(), 7), Ok(false));
        assert_eq!(answer.take(&done, 7), Ok(true));
        assert_eq!(answer.payloads, [b"abcd".to_vec(), b"abcd".to_vec()]);

        let refusal = message(NLMSG_ERROR, 0, 7, &(-95_i32).to_ne_bytes()).unwrap();
        assert_eq!(Answer::default().take(&refusal, 7), Err(Errno::OPNOTSUPP));
    }

    #[test]
    fn a_damaged_answer_is_an_error() {
        let whole = message(20, NLM_F_DUMP_INTR, 7, b"abcd").unwrap();
        for length in 1..whole.len() {
            assert_eq!(Answer::default().take(&whole[..length], 7), Err(Errno::BADMSG), "{length}");
        }
        let mut answer = Answer::default();
        assert_eq!(answer.take(&whole, 7), Ok(false));
        assert!(answer.interrupted);
        let mut short = whole;
        short[..4].copy_from_slice(&15_u32.to_ne_bytes());
        assert_eq!(Answer::default().take(&short, 7), Err(Errno::BADMSG));
    }
}
