//! Filtering in user space: a port around a port whose backend cannot filter.
//!
//! ```text
//!   backend ─▶ batch ─▶ engine ─▶ what matches ─▶ consumer
//!                         └─▶ the rest is counted as `filtered` and given back
//! ```
//!
//! The engine is looked at once per batch, so each packet meets the old or the new filter.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::bundle::{Bundle, Tally};
use super::{Census, Control, OpenOptions, Port, PortInfo, Readiness, Receive, Rx, Tx};
use crate::error::Result;
use crate::filter::{Engine, Filter};
use crate::frame::{Batch, Sink, SinkGso};
use crate::mask::QueueMask;
use crate::pcap::FileId;
use crate::stats::RxCounters;

/// A port that filters what its backend receives.
pub(super) struct FilteredPort<P> {
    inner: P,
    shared: Arc<Shared>,
    rx: Vec<Rx>,
}

impl<P: Port> FilteredPort<P> {
    /// Puts the filter of `options` around `inner`.
    ///
    /// # Errors
    /// The filter means nothing for packets of this link type, or cannot run in user space.
    pub(super) fn new(mut inner: P, options: &OpenOptions) -> Result<Self> {
        let link_type = inner.info().link_type;
        let shared = Shared {
            link_type,
            snaplen: options.snaplen,
            control: inner.control(),
            version: AtomicU64::new(0),
            engine: Mutex::new(None),
            note: Mutex::new(None),
        };
        let shared = Arc::new(shared);
        shared.set_filter(options.filter.as_ref().filter(|_| options.receive))?;
        let wrap = |rx: Rx| {
            let shared = Arc::clone(&shared);
            let bundle = rx.bundle().cloned();
            let filtering = rx.wrap(|inner, counters| Filtering {
                inner,
                counters,
                bundle: bundle.clone(),
                tallies: Default::default(),
                shared,
                version: 0,
                engine: None,
                rejected: false,
            });
            filtering.with_bundle(bundle)
        };
        let rx = inner.rx().into_iter().map(wrap).collect();
        Ok(Self { inner, shared, rx })
    }
}

impl<P: Port> Port for FilteredPort<P> {
    fn info(&self) -> &PortInfo {
        self.inner.info()
    }

    fn rx(&mut self) -> Vec<Rx> {
        std::mem::take(&mut self.rx)
    }

    fn tx(&mut self) -> Vec<Tx> {
        self.inner.tx()
    }

    fn start(&mut self) -> Result<()> {
        self.inner.start()
    }

    fn control(&self) -> Arc<dyn Control> {
        Arc::clone(&self.shared) as Arc<dyn Control>
    }

    fn census(&self) -> Census {
        self.inner.census()
    }

    fn is_endless(&self) -> bool {
        self.inner.is_endless()
    }

    fn sink(&self) -> Sink {
        self.inner.sink()
    }

    fn inputs(&self) -> Vec<FileId> {
        self.inner.inputs()
    }

    fn late_notes(&self) -> Vec<String> {
        let mut notes = self.inner.late_notes();
        notes.extend(lock(&self.shared.note).clone());
        notes
    }
}

/// What the receiving ends of a port share with its control.
struct Shared {
    link_type: u16,
    snaplen: u32,
    control: Arc<dyn Control>,
    /// Counts the changes; 0 is "no filter yet".
    version: AtomicU64,
    engine: Mutex<Option<Arc<Engine>>>,
    /// Why packets are not filtered by machine code.
    note: Mutex<Option<String>>,
}

impl Control for Shared {
    fn mask(&self) -> QueueMask {
        self.control.mask()
    }

    fn set_mask(&self, mask: QueueMask) -> Result<()> {
        self.control.set_mask(mask)
    }

    fn set_filter(&self, filter: Option<&Filter>) -> Result<()> {
        let engine = match filter {
            Some(filter) => {
                let program = filter.program(self.link_type, self.snaplen)?;
                Some(Arc::new(Engine::new(&program, 0)?))
            }
            None => None,
        };
        if let Some(cause) = engine.as_ref().and_then(|engine| engine.note()) {
            *lock(&self.note) = Some(format!("the filter is interpreted: {cause}"));
        }
        let mut current = lock(&self.engine);
        *current = engine;
        self.version.fetch_add(1, Ordering::Release);
        Ok(())
    }

    fn set_offload(&self, offload: SinkGso) -> Result<()> {
        self.control.set_offload(offload)
    }

    fn stop(&self) {
        self.control.stop();
    }
}

/// A receiving end with the filter before it.
struct Filtering {
    inner: Box<dyn Receive>,
    counters: Arc<RxCounters>,
    bundle: Option<Arc<Bundle>>,
    /// What came of each strand of the bundle, and what is left of it.
    tallies: [Vec<Tally>; 2],
    shared: Arc<Shared>,
    /// Of the engine.
    version: u64,
    engine: Option<Arc<Engine>>,
    /// The last call left something out, so that there may be more than it returned.
    rejected: bool,
}

impl Receive for Filtering {
    fn receive(&mut self, batch: &mut Batch) -> usize {
        let version = self.shared.version.load(Ordering::Acquire);
        if version != self.version {
            let engine = lock(&self.shared.engine);
            // Under the lock, so that both are of the same change.
            self.version = self.shared.version.load(Ordering::Relaxed);
            self.engine.clone_from(&engine);
        }
        let first = batch.len();
        let received = self.inner.receive(batch);
        let Some(engine) = &self.engine else { return received };
        let bytes = |batch: &Batch| -> u64 {
            batch.iter().skip(first).map(|frame| u64::from(frame.original_len())).sum()
        };
        let before = bytes(batch);
        let [came, stayed] = &mut self.tallies;
        if let Some(bundle) = &self.bundle {
            bundle.tally(batch.get(first..).unwrap_or_default(), came);
        }
        let rejected = engine.retain(batch, first);
        self.rejected = rejected > 0;
        if rejected > 0 {
            let left = before - bytes(batch);
            reject(&self.counters, (rejected as u64, left));
            if let Some(bundle) = &self.bundle {
                bundle.tally(batch.get(first..).unwrap_or_default(), stayed);
                for (strand, (came, stayed)) in bundle.strands().iter().zip(came.iter().zip(stayed))
                {
                    reject(&strand.counters, (came.0 - stayed.0, came.1 - stayed.1));
                }
            }
        }
        received - rejected
    }

    fn readiness(&mut self) -> Result<Readiness<'_>> {
        if std::mem::take(&mut self.rejected) { Ok(Readiness::Now) } else { self.inner.readiness() }
    }

    fn watermark(&self) -> u64 {
        self.inner.watermark()
    }
}

/// Counts what was left out. It was received: what is delivered is what remains of `packets`.
fn reject(counters: &RxCounters, (packets, bytes): Tally) {
    counters.packets.add(packets);
    counters.bytes.add(bytes);
    counters.filtered.add(packets);
    counters.undelivered(Some(bytes));
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What is behind these locks is whole at every moment.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
