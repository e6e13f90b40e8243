//! The receiving ends of a port, for any thread.

use std::sync::Arc;
use std::time::Instant;

use wirelane::internal::session::{Placing, interfaces};
use wirelane::pcap::{Direction, Record, Source};
use wirelane::pipeline;
use wirelane::port::{Port, PortInfo, Rx};
use wirelane::{Batch, Frame, Result};
use wirelane_flow::arrow::Packets;

use super::{Data, Intake, ReceivedPacket};

/// After this number of receptions, idle ends are polled for their state, as in the library's own
/// loop.
const UNASKED: u32 = 32;

/// The receiving ends of an open port. Dropping it closes the port.
pub(crate) struct PortReceivers {
    /// The port stays open as long as this exists.
    _port: Port,
    rx: Vec<Rx>,
    ends: Vec<RxInterfaces>,
    /// Frames received from one end that were not taken yet.
    batch: Batch,
    /// The end of these frames.
    from: usize,
    /// Counts receptions, to treat all ends fairly.
    turn: u32,
    /// Number of packets still to take.
    left: u64,
}

/// The interfaces of a receiving end.
struct RxInterfaces {
    placing: Placing,
    known: Vec<Option<NumberedInterface>>,
}

/// An interface: its name for frames, its number for rows.
#[derive(Clone)]
struct NumberedInterface {
    name: Arc<str>,
    number: u32,
}

impl PortReceivers {
    /// The ends of a started port, and the rows to fill. It ends after `count` packets.
    pub(crate) fn new(port: Port, rx: Vec<Rx>, rows: &mut Packets, count: Option<u64>) -> Self {
        let ends = rx.iter().map(|rx| RxInterfaces::new(port.info(), rx, rows)).collect();
        let left = count.unwrap_or(u64::MAX);
        Self { _port: port, rx, ends, batch: Batch::default(), from: 0, turn: 0, left }
    }
}

impl Intake for PortReceivers {
    /// Frames of one end.
    fn receive(&mut self, most: usize, until: Instant) -> Option<Result<bool>> {
        if !self.batch.is_empty() {
            return Some(Ok(true));
        }
        if self.left == 0 || self.rx.is_empty() {
            return Some(Ok(false));
        }
        self.batch.set_limit(most.min(usize::try_from(self.left).unwrap_or(usize::MAX)));
        let ends = self.rx.len();
        loop {
            self.turn = self.turn.wrapping_add(1);
            for step in 0..ends {
                let at = (self.turn as usize + step) % ends;
                let Some(rx) = self.rx.get_mut(at) else { continue };
                if rx.receive(&mut self.batch) > 0 {
                    self.from = at;
                    return Some(Ok(true));
                }
                if self.turn.is_multiple_of(UNASKED)
                    && let Err(error) = rx.readiness()
                {
                    return Some(Err(error));
                }
            }
            match pipeline::wait_any(&mut self.rx, &[], Some(until)) {
                Ok(wake) if wake.ended => return Some(Ok(false)),
                Ok(wake) if wake.deadline => return None,
                Ok(_) => {}
                Err(error) => return Some(Err(error)),
            }
        }
    }

    fn has_some(&self) -> bool {
        !self.batch.is_empty()
    }

    fn take(&mut self, rows: &mut Packets) -> Option<ReceivedPacket> {
        let frame = self.batch.drain(1).next()?;
        self.left = self.left.saturating_sub(1);
        let place = self.ends.get_mut(self.from).and_then(|end| end.place(&frame, rows));
        let interface = place.map_or_else(|| "".into(), |(found, _)| Arc::clone(&found.name));
        Some(ReceivedPacket {
            interface,
            time: frame.timestamp(),
            length: frame.original_len(),
            queue: frame.queue(),
            class: frame.class(),
            data: Data::Received(frame),
        })
    }

    fn add(&mut self, room: usize, rows: &mut Packets) {
        let Some(end) = self.ends.get_mut(self.from) else { return };
        let n = self.batch.len().min(room);
        for frame in self.batch.iter().take(n) {
            let Some((interface, direction)) = end.place(frame, rows) else { continue };
            let number = interface.number;
            let record = Record {
                interface: number,
                timestamp: frame.timestamp(),
                original_len: frame.original_len(),
                direction,
                data: frame.data(),
            };
            rows.push(number, &record);
        }
        self.batch.release_first(n);
        self.left = self.left.saturating_sub(n as u64);
    }
}

impl RxInterfaces {
    fn new(info: &PortInfo, rx: &Rx, rows: &mut Packets) -> Self {
        let placing = Placing::of(rx);
        let known = match placing.is_growing() {
            true => Vec::new(),
            false => interfaces(info, rx),
        };
        let known =
            known.iter().map(|one| Some(NumberedInterface::new(&one.source, rows))).collect();
        Self { placing, known }
    }

    /// The interface of a frame, and its direction if that differs from the interface's.
    fn place(
        &mut self,
        frame: &Frame,
        rows: &mut Packets,
    ) -> Option<(&NumberedInterface, Direction)> {
        let (place, direction) = self.placing.place_late(frame);
        let is_known = self.known.get(place as usize).is_some_and(Option::is_some);
        if !is_known {
            self.find(place, rows);
        }
        Some((self.known.get(place as usize)?.as_ref()?, direction))
    }

    /// Adds an interface that the port found while running, or that a file describes late.
    #[cold]
    fn find(&mut self, place: u32, rows: &mut Packets) {
        let Some(source) = self.placing.found(place) else { return };
        let found = NumberedInterface::new(&source, rows);
        let place = place as usize;
        self.known.resize(self.known.len().max(place + 1), None);
        if let Some(known) = self.known.get_mut(place) {
            *known = Some(found);
        }
    }
}

impl NumberedInterface {
    fn new(source: &Source, rows: &mut Packets) -> Self {
        Self { name: source.name.as_str().into(), number: rows.interface(source) }
    }
}
