//! Encodes flows to messages, without sending them.

use super::element::Element;
use super::format::{HEADER, SET_HEADER};
use super::record::put;
use super::shape::{RecordField, RecordShape, Shapes};
use crate::Flow;

/// Collects flows in messages of a limited size.
#[derive(Debug)]
pub struct Encoder {
    enterprise: Option<u32>,
    one_way: bool,
    limit: usize,
    /// The fields of each shape that occurred, by its index.
    layouts: Vec<Option<Vec<(Element, RecordField)>>>,
    message: Message,
    /// A buffer for the current record, which may not fit into the current message.
    record: Vec<u8>,
    /// The shape of the last set of the message, and the offset of the set.
    open: Option<(RecordShape, usize)>,
}

/// The data records of one IPFIX message. [`Pipe`](super::Pipe) and [`Exporter`](super::Exporter)
/// complete its header.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Message {
    /// The header, which is filled before sending, and the sets.
    pub(super) bytes: Vec<u8>,
    /// The templates it needs.
    pub(super) shapes: Shapes,
    /// The number of data records, which sequence numbers count.
    pub(super) records: u32,
    /// Packets in them.
    pub(super) packets: u64,
    /// Their bytes.
    pub(super) octets: u64,
}

impl Encoder {
    /// An encoder for messages of up to `limit` bytes. A longer record has a separate message.
    ///
    /// `enterprise` is the number for private elements; they are omitted without it. With
    /// `one_way`, a two-way flow becomes two records, for collectors without RFC 5103.
    pub fn new(limit: usize, enterprise: Option<u32>, one_way: bool) -> Self {
        let limit = limit.min(usize::from(u16::MAX));
        let layouts = vec![None; usize::from(RecordShape::COUNT)];
        let message = Message::default();
        Self { enterprise, one_way, limit, layouts, message, record: Vec::new(), open: None }
    }

    /// Adds a flow. Returns the completed messages.
    pub fn add(&mut self, flow: &Flow) -> [Option<Message>; 2] {
        if !self.one_way || flow.reverse.packets == 0 {
            return [self.add_record(flow), None];
        }
        let [forward, reverse] = halves(flow);
        [self.add_record(&forward), self.add_record(&reverse)]
    }

    /// Returns the incomplete message, if it has records.
    pub fn flush(&mut self) -> Option<Message> {
        self.open = None;
        (self.message.records > 0).then(|| std::mem::take(&mut self.message))
    }

    /// Whether the incomplete message has no records.
    pub fn is_empty(&self) -> bool {
        self.message.records == 0
    }

    fn add_record(&mut self, flow: &Flow) -> Option<Message> {
        let shape = RecordShape::of(flow);
        self.record.clear();
        let layout = self.layouts.get_mut(usize::from(shape.index()))?;
        let layout = layout.get_or_insert_with(|| shape.fields(self.enterprise));
        for (element, field) in layout {
            put(&mut self.record, flow, *field, element.length);
        }
        let is_open = self.open.is_some_and(|(it, _)| it == shape);
        let needed = self.record.len() + if is_open { 0 } else { SET_HEADER };
        let full = self.message.bytes.len() + needed > self.limit;
        let done = if full { self.flush() } else { None };
        self.append(shape);
        let message = &mut self.message;
        message.shapes.add(shape);
        message.records += 1;
        let halves = [&flow.forward, &flow.reverse];
        // Counts decoded from other messages can be arbitrarily large.
        message.packets =
            halves.iter().fold(message.packets, |sum, it| sum.wrapping_add(it.packets));
        message.octets = halves.iter().fold(message.octets, |sum, it| sum.wrapping_add(it.octets));
        done
    }

    /// Appends the record to the set of its template.
    fn append(&mut self, shape: RecordShape) {
        let bytes = &mut self.message.bytes;
        if bytes.is_empty() {
            bytes.resize(HEADER, 0);
        }
        let start = match self.open {
            Some((it, start)) if it == shape => start,
            _ => {
                let start = bytes.len();
                bytes.extend(shape.template().to_be_bytes());
                bytes.extend([0; 2]);
                self.open = Some((shape, start));
                start
            }
        };
        bytes.extend(&self.record);
        let length = u16::try_from(bytes.len() - start).unwrap_or(u16::MAX);
        if let Some(place) = bytes.get_mut(start + 2..start + 4) {
            place.copy_from_slice(&length.to_be_bytes());
        }
    }
}

/// Splits a two-way flow into two one-way flows.
fn halves(flow: &Flow) -> [Flow; 2] {
    let mut forward = flow.clone();
    let mut reverse = flow.clone();
    reverse.forward = std::mem::take(&mut forward.reverse);
    reverse.reverse = crate::Half::default();
    let key = &mut reverse.key;
    std::mem::swap(&mut key.source, &mut key.destination);
    std::mem::swap(&mut key.source_port, &mut key.destination_port);
    if let Some(tunnel) = &mut key.tunnel {
        std::mem::swap(&mut tunnel.source, &mut tunnel.destination);
    }
    [forward, reverse]
}
