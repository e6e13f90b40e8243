//! The contents of a capture file: packets, their interfaces, and the counters of those interfaces.

use crate::class::Class;

/// The link type of Ethernet frames (LINKTYPE_ETHERNET).
pub const LINK_TYPE_ETHERNET: u16 = 1;

/// One captured packet, borrowed from a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// Index of the [`Source`] it came from, in order of the interface description blocks.
    pub interface: u32,
    /// Nanoseconds since the Unix epoch. 0 where the file has none (simple packet blocks).
    pub timestamp: u64,
    /// Bytes the packet had on the wire, before any snap length.
    pub original_len: u32,
    /// Its direction, if the file states it. It takes 12 bytes in pcapng; the interface of a queue
    /// implies it without extra bytes.
    pub direction: Direction,
    /// The captured bytes.
    pub data: &'a [u8],
}

/// Packets of a file whose time a [`Record`] cannot hold. Each receives the nearest time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OddTimes {
    /// From before 1970: their time becomes the first nanosecond of 1970, 0.
    pub early: u64,
    /// From after the 21st of July 2554: their time becomes the last nanosecond of 64 bits.
    pub late: u64,
    /// Finer than a nanosecond: their time is rounded down.
    pub finer: u64,
    /// Without any time (simple packet blocks): their time becomes 0.
    pub missing: u64,
}

impl OddTimes {
    /// One sentence for each kind.
    #[must_use]
    pub fn notes(&self) -> Vec<String> {
        let note = |count: u64, one: &str, more: &str, rest: &str| match count {
            0 => None,
            1 => Some(format!("1 packet {one} {rest}")),
            _ => Some(format!("{count} packets {more} {rest}")),
        };
        let notes = [
            note(
                self.early,
                "is",
                "are",
                "earlier than 1970, which cannot be stored: written as 1970-01-01 00:00:00",
            ),
            note(
                self.late,
                "is",
                "are",
                "later than 2554, which cannot be stored: written as 2554-07-21 23:34:33.709551615",
            ),
            note(
                self.finer,
                "has",
                "have",
                "a time finer than nanoseconds: truncated to nanoseconds",
            ),
            note(self.missing, "has", "have", "no time: written as 1970-01-01 00:00:00"),
        ];
        notes.into_iter().flatten().collect()
    }

    /// The sum of both.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            early: self.early + other.early,
            late: self.late + other.late,
            finer: self.finer + other.finer,
            missing: self.missing + other.missing,
        }
    }
}

/// Direction of a packet, as in bits 0 and 1 of `epb_flags`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Direction {
    /// The file does not state it.
    #[default]
    Unknown,
    /// Received.
    Inbound,
    /// Sent.
    Outbound,
}

/// The origin of packets: one queue and class of one interface, written as one interface
/// description block.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Source {
    /// Interface name (`if_name`), such as `eth0`; empty if unknown.
    pub name: String,
    /// Queue number; `None` for packets without a queue, and for files of other programs.
    pub queue: Option<u32>,
    /// Class of its packets; `None` for files that do not state it.
    pub class: Option<Class>,
    /// `if_description` of a file that was not written by Wirelane. When it is empty, the queue and
    /// class are written.
    pub description: String,
    /// Link type (LINKTYPE_ value); 1 is Ethernet.
    pub link_type: u16,
    /// Most bytes captured of a packet; 0 means no limit.
    pub snaplen: u32,
    /// Bytes of the frame check sequence at the end of its packets (`if_fcslen`), if the file
    /// states it.
    pub fcs_len: Option<u8>,
    /// Driver (`if_hardware`), if known.
    pub hardware: Option<String>,
    /// Operating system (`if_os`), if known.
    pub os: Option<String>,
    /// Filter expression (`if_filter`), if there is one.
    pub filter: Option<String>,
    /// Link speed in bit/s (`if_speed`), if known.
    pub speed: Option<u64>,
    /// Other encoded options of the interface, such as comments and addresses, in the byte order of
    /// this machine: see [`pcapng::options`](crate::pcapng::options).
    pub options: Vec<u8>,
}

impl Source {
    /// An Ethernet source without a snap length.
    #[must_use]
    pub fn new(name: &str, class: Class, queue: Option<u32>) -> Self {
        Self {
            name: name.into(),
            queue,
            class: Some(class),
            link_type: LINK_TYPE_ETHERNET,
            ..Self::default()
        }
    }

    /// Text of `if_description`: `rx queue 3`, `tx queue 0`, `other`, or the text in the file.
    #[must_use]
    pub fn describe(&self) -> String {
        match (self.class, self.queue) {
            _ if !self.description.is_empty() => self.description.clone(),
            (Some(class), Some(queue)) => format!("{class} queue {queue}"),
            (Some(class), None) => class.to_string(),
            (None, _) => String::new(),
        }
    }

    /// Whether it has more information than every format supports, which is a link type and
    /// lengths.
    pub(crate) fn says_more(&self) -> bool {
        let plain = Self {
            link_type: self.link_type,
            snaplen: self.snaplen,
            fcs_len: self.fcs_len,
            ..Self::default()
        };
        *self != plain
    }

    /// Parses an `if_description`, and keeps text of any other form unchanged.
    pub(crate) fn set_description(&mut self, text: String) {
        match parse_description(&text) {
            Some((class, queue)) => (self.class, self.queue) = (Some(class), queue),
            None => self.description = text,
        }
    }
}

/// The inverse of [`Source::describe`].
fn parse_description(text: &str) -> Option<(Class, Option<u32>)> {
    let mut words = text.split(' ');
    let class = words.next()?.parse().ok()?;
    match (words.next(), words.next(), words.next()) {
        (None, ..) => Some((class, None)),
        // `+3` and `03` parse as numbers, but describe() does not write them, so a copy would
        // change them.
        (Some("queue"), Some(number), None) => number
            .parse()
            .ok()
            .filter(|queue: &u32| queue.to_string() == number)
            .map(|queue| (class, Some(queue))),
        _ => None,
    }
}

/// Counters of one interface (interface statistics block). Unknown counters are left out of the
/// file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Index of the [`Source`].
    pub interface: u32,
    /// When the counters were read, in nanoseconds since the Unix epoch.
    pub timestamp: u64,
    /// When the capture started (`isb_starttime`).
    pub start: Option<u64>,
    /// When the capture ended (`isb_endtime`).
    pub end: Option<u64>,
    /// Packets the interface received (`isb_ifrecv`).
    pub received: Option<u64>,
    /// Packets the interface dropped for lack of resources (`isb_ifdrop`).
    pub dropped: Option<u64>,
    /// Packets the filter accepted (`isb_filteraccept`).
    pub filter_accepted: Option<u64>,
    /// Packets the operating system dropped (`isb_osdrop`).
    pub os_dropped: Option<u64>,
    /// Packets delivered to the file (`isb_usrdeliv`).
    pub delivered: Option<u64>,
}

/// The program and the machine that wrote a file (section header block). Empty strings are left
/// out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Section {
    /// `shb_hardware`.
    pub hardware: String,
    /// `shb_os`.
    pub os: String,
    /// `shb_userappl`, such as `wirelane 0.1.0`.
    pub application: String,
    /// Encoded comments and other options, in the byte order of this machine: see
    /// [`pcapng::options`](crate::pcapng::options).
    pub options: Vec<u8>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn description_survives_a_copy() {
        for (class, queue, text) in [
            (Class::Rx, Some(3), "rx queue 3"),
            (Class::Tx, Some(0), "tx queue 0"),
            (Class::Other, None, "other"),
        ] {
            let source = Source::new("eth0", class, queue);
            assert_eq!(source.describe(), text);
            assert_eq!(parse_description(text), Some((class, queue)));
        }
        for text in [
            "",
            "rx queue",
            "rx queue 03",
            "rx queue +3",
            "rx queue 1 2",
            "RX queue 1",
            "uplink",
            "rx ",
        ] {
            assert_eq!(parse_description(text), None, "{text:?}");
            let mut source = Source::default();
            source.set_description(text.into());
            assert_eq!(source.describe(), text);
        }
    }
}
