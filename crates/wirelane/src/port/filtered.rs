//! Filtering in user space: wraps a port whose backend cannot filter.
//!
//! ```text
//!   backend ─▶ batch ─▶ engine ─▶ what matches ─▶ consumer
//!                         └─▶ the rest is counted as `filtered` and given back
//! ```
//!
//! The filter is read once per batch, so each packet meets the old or the new filter.

use std::io;
use std::slice;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use super::control::{Control, Driver, Passed};
use super::options::OpenOptions;
use super::port::Port;
use super::rx::{Readiness, Receive};
use crate::error::{Error, Result};
use crate::filter::{Engine, Filter, retain_by};
use crate::frame::{Batch, SinkGso};
use crate::mask::QueueMask;
use crate::port::metadata::interfaces::{InterfaceTable, Tally};
use crate::remedy::Remedy;
use crate::stats::RxCounters;
use crate::sync::lock;

/// Puts the filter of `options` behind each receiving end of `port`.
///
/// # Errors
/// The filter has no meaning for this link type, or cannot run in user space.
pub(super) fn filtered(mut port: Port, options: &OpenOptions) -> Result<Port> {
    let tables = port.rx.iter().filter_map(|rx| rx.interface_table());
    let mut link_types: Vec<_> =
        tables.flat_map(|table| table.entries()).map(|one| one.source.link_type).collect();
    if link_types.is_empty() {
        link_types.push(port.info.link_type);
    }
    let shared = FilterControl {
        link_types,
        snaplen: options.snaplen,
        driver: Arc::clone(&port.driver),
        version: AtomicU64::new(0),
        filters: Mutex::new(None),
        note: Mutex::new(None),
    };
    let shared = Arc::new(shared);
    shared.set_filter(options.filter.as_ref().filter(|_| options.receive))?;
    port.map_rx(|rx| {
        let shared = Arc::clone(&shared);
        let table = rx.interface_table().cloned();
        let filtering = rx.wrap(|inner, counters| Filtering {
            inner,
            counters,
            table: table.clone(),
            tallies: Default::default(),
            shared,
            version: 0,
            filters: None,
            rejected: false,
            failure: None,
        });
        filtering.with_interface_table(table)
    });
    port.driver = shared;
    Ok(port)
}

/// State that the receiving ends of a port share with its control.
struct FilterControl {
    /// The link types of the interfaces that are known from the start.
    link_types: Vec<u16>,
    snaplen: u32,
    driver: Arc<dyn Driver>,
    /// Number of changes; 0 means that no filter was ever set.
    version: AtomicU64,
    filters: Mutex<Option<LinkFilters>>,
    /// Why the filter is not machine code, or has a different meaning than written.
    note: Mutex<Option<String>>,
}

impl Control for FilterControl {
    fn mask(&self) -> QueueMask {
        self.driver.mask()
    }

    fn set_mask(&self, mask: QueueMask) -> Result<()> {
        self.driver.set_mask(mask)
    }

    fn set_filter(&self, filter: Option<&Filter>) -> Result<()> {
        let filters = |filter| LinkFilters::new(filter, self.snaplen, &self.link_types);
        let filters = filter.map(filters).transpose()?;
        if let Some(note) = filters.as_ref().and_then(|filters| filters.note.as_ref()) {
            *lock(&self.note) = Some(note.clone());
        }
        let mut current = lock(&self.filters);
        *current = filters;
        self.version.fetch_add(1, Ordering::Release);
        Ok(())
    }

    fn set_offload(&self, offload: SinkGso) -> Result<()> {
        self.driver.set_offload(offload)
    }

    fn set_max_burst(&self, bytes: u32) -> Result<()> {
        self.driver.set_max_burst(bytes)
    }

    fn passed(&self) -> Result<Option<Passed>> {
        self.driver.passed()
    }

    fn inject(&self, frame: &[u8], wait: bool) -> Option<io::Result<usize>> {
        self.driver.inject(frame, wait)
    }

    fn stop(&self) {
        self.driver.stop();
    }
}

impl Driver for FilterControl {
    fn start(&self) -> Result<()> {
        self.driver.start()
    }

    fn diagnostics(&self) -> Vec<String> {
        let mut notes = self.driver.diagnostics();
        notes.extend(lock(&self.note).clone());
        notes
    }

    fn release(&self) {
        self.driver.release();
    }
}

/// A receiving end followed by the filter.
struct Filtering {
    inner: Box<dyn Receive>,
    counters: Arc<RxCounters>,
    table: Option<Arc<InterfaceTable>>,
    /// Per entry of the table: received, and accepted.
    tallies: [Vec<Tally>; 2],
    shared: Arc<FilterControl>,
    /// The version of `filters`.
    version: u64,
    filters: Option<LinkFilters>,
    /// The last call rejected packets, so more may be ready than it returned.
    rejected: bool,
    /// Why the latest packets cannot be filtered.
    failure: Option<Error>,
}

impl Receive for Filtering {
    fn ring_bytes(&self) -> Option<usize> {
        self.inner.ring_bytes()
    }

    fn receive(&mut self, batch: &mut Batch) -> usize {
        let version = self.shared.version.load(Ordering::Acquire);
        if version != self.version {
            let filters = lock(&self.shared.filters);
            // Under the lock, so that filter and version belong to the same change.
            self.version = self.shared.version.load(Ordering::Relaxed);
            self.filters.clone_from(&filters);
        }
        let first = batch.len();
        let received = self.inner.receive(batch);
        let Some(filters) = &mut self.filters else { return received };
        let bytes = |batch: &Batch| -> u64 {
            batch.iter().skip(first).map(|frame| u64::from(frame.original_len())).sum()
        };
        let before = bytes(batch);
        let [came, stayed] = &mut self.tallies;
        if let Some(table) = &self.table {
            table.tally(batch.get(first..).unwrap_or_default(), came);
            if let Err(error) = filters.learn(table) {
                self.shared.stop();
                self.failure = Some(error);
            }
        }
        let rejected = filters.retain(self.table.as_deref(), batch, first);
        self.rejected = rejected > 0;
        if rejected > 0 {
            let left = before - bytes(batch);
            reject(&self.counters, (rejected as u64, left));
            if let Some(table) = &self.table {
                table.tally(batch.get(first..).unwrap_or_default(), stayed);
                let fixed = table.entries().iter().map(|entry| Arc::clone(&entry.counters));
                let all = fixed.chain(table.late_counters());
                for (counters, (came, stayed)) in all.zip(came.iter().zip(stayed)) {
                    reject(&counters, (came.0 - stayed.0, came.1 - stayed.1));
                }
            }
        }
        received - rejected
    }

    fn readiness(&mut self) -> Result<Readiness<'_>> {
        if let Some(failure) = self.failure.take() {
            return Err(failure);
        }
        if std::mem::take(&mut self.rejected) { Ok(Readiness::Now) } else { self.inner.readiness() }
    }

    fn watermark(&self) -> u64 {
        self.inner.watermark()
    }
}

/// Counts rejected packets. They were received; the others of `packets` are delivered.
fn reject(counters: &RxCounters, (packets, bytes): Tally) {
    counters.packets.add(packets);
    counters.bytes.add(bytes);
    counters.filtered.add(packets);
    counters.undelivered(Some(bytes));
}

/// A filter, compiled for each link type of the packets.
#[derive(Clone, Debug)]
struct LinkFilters {
    filter: Filter,
    snaplen: u32,
    /// Engines, each with its link type.
    engines: Vec<(u16, Arc<Engine>)>,
    /// The index into `engines`, by the entry's number in the interface table.
    places: Vec<usize>,
    /// Why it is not machine code, or has a different meaning than written.
    note: Option<String>,
}

impl LinkFilters {
    /// # Errors
    /// The filter has no meaning for one of these link types, or cannot run in user space.
    fn new(filter: &Filter, snaplen: u32, link_types: &[u16]) -> Result<Self> {
        let filter = filter.clone();
        let mut filters =
            Self { filter, snaplen, engines: Vec::new(), places: Vec::new(), note: None };
        link_types.iter().try_for_each(|link_type| filters.place(*link_type).map(drop))?;
        Ok(filters)
    }

    /// Adds the interfaces that were described since the last call.
    ///
    /// # Errors
    /// The filter has no meaning for their link type.
    #[inline]
    fn learn(&mut self, table: &InterfaceTable) -> Result<()> {
        while self.places.len() < table.len() {
            let entry = table.entry(self.places.len());
            let place = self.place(entry.map_or(1, |(source, _)| source.link_type))?;
            self.places.push(place);
        }
        Ok(())
    }

    /// Keeps matching frames from index `first` on; returns how many were rejected. Frames of an
    /// interface that `learn` failed for are rejected.
    #[inline]
    fn retain(&self, table: Option<&InterfaceTable>, batch: &mut Batch, first: usize) -> usize {
        match (table, &self.engines[..]) {
            (None, [(_, engine), ..]) => engine.retain(batch, first),
            (Some(table), [(_, engine)]) if self.places.len() >= table.len() => {
                engine.retain(batch, first)
            }
            (Some(table), _) => self.retain_each(table, batch, first),
            (None, []) => 0,
        }
    }

    #[cold]
    fn retain_each(&self, table: &InterfaceTable, batch: &mut Batch, first: usize) -> usize {
        retain_by(batch, first, |frames, verdicts| {
            for (frame, verdict) in frames.iter().zip(verdicts) {
                let place = self.places.get(table.number_of(frame));
                match place.and_then(|place| self.engines.get(*place)) {
                    Some((_, engine)) => {
                        engine.verdicts(slice::from_ref(frame), slice::from_mut(verdict));
                    }
                    None => *verdict = 0,
                }
            }
        })
    }

    /// The index of the engine for a link type; compiles it on first use.
    #[cold]
    fn place(&mut self, link_type: u16) -> Result<usize> {
        if let Some(place) = self.engines.iter().position(|(known, _)| *known == link_type) {
            return Ok(place);
        }
        let program = self.filter.program(link_type, self.snaplen);
        let program = program.map_err(|error| {
            let error = Error::from(error);
            if self.engines.is_empty() {
                return error;
            }
            error.remedy(Remedy::SplitFiltered(link_type))
        })?;
        let engine = Engine::new(&program, 0)?;
        let slow = || engine.note().map(|cause| format!("the filter is interpreted: {cause}"));
        let note = program.note().map(str::to_owned).or_else(slow);
        self.note = self.note.take().or(note);
        self.engines.push((link_type, Arc::new(engine)));
        Ok(self.engines.len() - 1)
    }
}
