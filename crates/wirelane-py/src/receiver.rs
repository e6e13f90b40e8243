//! The receiving ends of a port, on whichever thread asks.

use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow_array::RecordBatch;
use wirelane::pcap::{Direction, Record, Source};
use wirelane::pipeline;
use wirelane::port::{Port, PortInfo, Rx};
use wirelane::session::interfaces::{Placing, interfaces};
use wirelane::{Batch, Error, Frame, Result};
use wirelane_arrow::Packets;

/// After so many receptions, ends that had nothing are asked for their state, as the library's own loop does.
const UNASKED: u32 = 32;

/// What a step says that waited for a while: nothing yet, or something, or the end.
pub(crate) type Step<T> = Option<Result<Option<T>>>;

/// The receiving ends of an open port. Dropping it closes the port.
pub(crate) struct Receiver {
    /// It is open as long as this is here.
    _port: Port,
    rx: Vec<Rx>,
    ends: Vec<End>,
    /// Frames of one end that were received, and not taken yet.
    batch: Batch,
    /// The end that they are from.
    from: usize,
    /// Receptions, to be fair to all ends.
    turn: u32,
    rows: Packets,
    /// When the first of the rows came.
    began: Instant,
    /// Packets still to be received.
    left: u64,
}

/// The interfaces of a receiving end.
struct End {
    placing: Placing,
    known: Vec<Option<Interface>>,
}

/// An interface: its name for frames, its number for rows.
#[derive(Clone)]
struct Interface {
    name: Arc<str>,
    number: u32,
}

impl Receiver {
    /// Of a port that has started, with the rows to be made. `count`: the packets after which it ends.
    pub(crate) fn new(port: Port, rx: Vec<Rx>, mut rows: Packets, count: Option<u64>) -> Self {
        let ends = rx.iter().map(|rx| End::new(port.info(), rx, &mut rows)).collect();
        Self {
            _port: port,
            rx,
            ends,
            batch: Batch::default(),
            from: 0,
            turn: 0,
            rows,
            began: Instant::now(),
            left: count.unwrap_or(u64::MAX),
        }
    }

    /// A frame and the name of its interface, if one comes before `until`.
    pub(crate) fn frame(&mut self, until: Instant) -> Step<(Frame, Arc<str>)> {
        match self.receive(Batch::DEFAULT, until)? {
            Ok(true) => {}
            Ok(false) => return Some(Ok(None)),
            Err(error) => return Some(Err(error)),
        }
        let frame = self.batch.drain(1).next()?;
        self.left = self.left.saturating_sub(1);
        let place = self.ends.get_mut(self.from).and_then(|end| end.place(&frame, &mut self.rows));
        let name = place.map_or_else(|| "".into(), |(interface, _)| Arc::clone(&interface.name));
        Some(Ok(Some((frame, name))))
    }

    /// A frame that was received already.
    pub(crate) fn ready(&mut self) -> Step<(Frame, Arc<str>)> {
        (!self.batch.is_empty()).then(|| self.frame(Instant::now()))?
    }

    /// Rows of `most` packets, or of fewer once the first one has waited for `patience`, if they come before `until`.
    /// Those that came stay for the next call otherwise.
    pub(crate) fn rows(
        &mut self,
        most: usize,
        patience: Duration,
        until: Instant,
    ) -> Step<RecordBatch> {
        loop {
            let has_rows = !self.rows.is_empty();
            let due = self.began.checked_add(patience).filter(|_| has_rows);
            if self.rows.len() >= most || due.is_some_and(|due| Instant::now() >= due) {
                return Some(self.finish());
            }
            let room = most - self.rows.len();
            match self.receive(room, due.map_or(until, |due| due.min(until))) {
                Some(Ok(true)) => self.add(room, has_rows),
                Some(Ok(false)) if has_rows => return Some(self.finish()),
                Some(Ok(false)) => return Some(Ok(None)),
                Some(Err(error)) => return Some(Err(error)),
                None if Instant::now() >= until => return None,
                None => {}
            }
        }
    }

    /// Makes rows of the frames in the batch, of `room` of them at most.
    fn add(&mut self, room: usize, has_rows: bool) {
        if !has_rows {
            self.began = Instant::now();
        }
        let Some(end) = self.ends.get_mut(self.from) else { return };
        let n = self.batch.len().min(room);
        for frame in self.batch.iter().take(n) {
            let Some((interface, direction)) = end.place(frame, &mut self.rows) else { continue };
            let number = interface.number;
            let record = Record {
                interface: number,
                timestamp: frame.timestamp(),
                original_len: frame.original_len(),
                direction,
                data: frame.data(),
            };
            self.rows.push(number, &record);
        }
        self.batch.release_first(n);
        self.left = self.left.saturating_sub(n as u64);
    }

    fn finish(&mut self) -> Result<Option<RecordBatch>> {
        let rows = self.rows.finish();
        rows.map(Some).map_err(|error| Error::failed("rows of packets", error.to_string()))
    }

    /// Frames of one end, `most` at most, unless there are some that were not taken yet. True if there are any, false at
    /// the end of all ends; `None` if nothing comes before `until`.
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
}

impl End {
    fn new(info: &PortInfo, rx: &Rx, rows: &mut Packets) -> Self {
        let placing = Placing::of(rx);
        let known = match placing.is_growing() {
            true => Vec::new(),
            false => interfaces(info, rx),
        };
        let known = known.iter().map(|one| Some(Interface::new(&one.source, rows))).collect();
        Self { placing, known }
    }

    /// The interface of a frame, and where it went if that differs from what the interface says of all.
    fn place(&mut self, frame: &Frame, rows: &mut Packets) -> Option<(&Interface, Direction)> {
        let (place, direction) = self.placing.place_late(frame);
        let is_known = self.known.get(place as usize).is_some_and(Option::is_some);
        if !is_known {
            self.find(place, rows);
        }
        Some((self.known.get(place as usize)?.as_ref()?, direction))
    }

    /// An interface that was found while the port runs, or is described late in a file.
    #[cold]
    fn find(&mut self, place: u32, rows: &mut Packets) {
        let Some(source) = self.placing.found(place) else { return };
        let found = Interface::new(&source, rows);
        let place = place as usize;
        self.known.resize(self.known.len().max(place + 1), None);
        if let Some(known) = self.known.get_mut(place) {
            *known = Some(found);
        }
    }
}

impl Interface {
    fn new(source: &Source, rows: &mut Packets) -> Self {
        Self { name: source.name.as_str().into(), number: rows.interface(source) }
    }
}
