//! The state of a transport session: announced templates and sequence numbers (RFC 7011 section
//! 3.1).

use super::element::{Element, iana};
use super::encoder::Message;
use super::format::{
    HEADER, OPTIONS_TEMPLATES, SET_HEADER, TEMPLATES, VERSION, put_specifier, put_template,
};
use super::shape::{RecordShape, Shapes};

/// The template of [`TransportSession::report`], after the templates of the shapes.
const REPORT: u16 = 512;

/// A transport session: one connection, or all datagrams to a collector.
#[derive(Debug)]
pub(super) struct TransportSession {
    domain: u32,
    enterprise: Option<u32>,
    /// The largest length of a message.
    limit: usize,
    /// The templates sent so far.
    announced: Shapes,
    /// Data records sent so far, modulo 2³².
    sequence: u32,
}

/// Statistics of the exporter (RFC 7011 sections 4.1 and 4.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ExporterStatistics {
    pub(super) messages: u64,
    pub(super) flows: u64,
    pub(super) octets: u64,
    pub(super) not_sent_flows: u64,
    pub(super) not_sent_packets: u64,
    pub(super) not_sent_octets: u64,
}

impl TransportSession {
    pub(super) fn new(domain: u32, enterprise: Option<u32>, limit: usize) -> Self {
        let limit = limit.min(usize::from(u16::MAX));
        Self { domain, enterprise, limit, announced: Shapes::default(), sequence: 0 }
    }

    /// Resets the state for a new connection.
    pub(super) fn restart(&mut self) {
        self.announced = Shapes::default();
        self.sequence = 0;
    }

    /// Lets templates be sent again before the next data (RFC 7011 section 8.4).
    pub(super) fn refresh(&mut self) {
        self.announced = Shapes::default();
    }

    /// Messages with templates that `message` needs and that were not sent yet. Send them first.
    pub(super) fn templates(&mut self, message: &Message, now: u32) -> Vec<Vec<u8>> {
        let announced = self.announced;
        let is_missing = |shape: &RecordShape| message.shapes.has(*shape) && !announced.has(*shape);
        let mut messages: Vec<Vec<u8>> = Vec::new();
        let mut set = Vec::new();
        for shape in RecordShape::all().filter(is_missing) {
            self.announced.add(shape);
            let mut template = Vec::new();
            put_template(&mut template, shape, self.enterprise);
            if !set.is_empty() && HEADER + SET_HEADER + set.len() + template.len() > self.limit {
                messages.push(self.of_set(TEMPLATES, &std::mem::take(&mut set), now));
            }
            set.extend(template);
        }
        if !set.is_empty() {
            messages.push(self.of_set(TEMPLATES, &set, now));
        }
        messages
    }

    /// Completes the header of `message` with the export time `now`, in seconds.
    pub(super) fn seal(&mut self, message: &mut Message, now: u32) {
        self.put_header(&mut message.bytes, now);
        self.sequence = self.sequence.wrapping_add(message.records);
    }

    /// Messages with the statistics of sent and lost flows.
    pub(super) fn report(&mut self, report: &ExporterStatistics, now: u32) -> Vec<Vec<u8>> {
        let fields = [
            (iana::EXPORTING_PROCESS, 4, 1),
            (iana::EXPORTED_MESSAGES, 8, report.messages),
            (iana::EXPORTED_FLOWS, 8, report.flows),
            (iana::EXPORTED_OCTETS, 8, report.octets),
            (iana::NOT_SENT_FLOWS, 8, report.not_sent_flows),
            (iana::NOT_SENT_PACKETS, 8, report.not_sent_packets),
            (iana::NOT_SENT_OCTETS, 8, report.not_sent_octets),
        ];
        let mut template = Vec::new();
        // The template ID, the number of fields, and the number of scope fields (RFC 7011 section
        // 3.4.2.2).
        template.extend(REPORT.to_be_bytes());
        template.extend((fields.len() as u16).to_be_bytes());
        template.extend(1_u16.to_be_bytes());
        let mut record = Vec::new();
        for (id, length, value) in fields {
            put_specifier(&mut template, Element { enterprise: 0, id, length });
            record.extend(&value.to_be_bytes()[8 - usize::from(length)..]);
        }
        let messages =
            vec![self.of_set(OPTIONS_TEMPLATES, &template, now), self.of_set(REPORT, &record, now)];
        // The report is a data record, so the sequence number counts it.
        self.sequence = self.sequence.wrapping_add(1);
        messages
    }

    fn of_set(&self, id: u16, records: &[u8], now: u32) -> Vec<u8> {
        let mut bytes = vec![0; HEADER];
        bytes.extend(id.to_be_bytes());
        bytes.extend(((SET_HEADER + records.len()) as u16).to_be_bytes());
        bytes.extend(records);
        self.put_header(&mut bytes, now);
        bytes
    }

    fn put_header(&self, bytes: &mut [u8], now: u32) {
        let length = u16::try_from(bytes.len()).unwrap_or(u16::MAX);
        let mut header = [0; HEADER];
        header[0..2].copy_from_slice(&VERSION.to_be_bytes());
        header[2..4].copy_from_slice(&length.to_be_bytes());
        header[4..8].copy_from_slice(&now.to_be_bytes());
        header[8..12].copy_from_slice(&self.sequence.to_be_bytes());
        header[12..16].copy_from_slice(&self.domain.to_be_bytes());
        if let Some(place) = bytes.get_mut(..HEADER) {
            place.copy_from_slice(&header);
        }
    }
}
