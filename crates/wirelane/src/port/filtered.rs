//! Filtering in user space: a port around a port whose backend cannot filter.
//!
//! ```text
//!   backend ─▶ batch ─▶ engine ─▶ what matches ─▶ consumer
//!                         └─▶ the rest is counted as `filtered` and given back
//! ```
//!
//! The engine is read once per batch, so each packet meets the old or the new filter.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use super::bundle::{Bundle, Tally};
use super::control::{Control, Driver, Passed};
use super::options::OpenOptions;
use super::port::Port;
use super::rx::{Readiness, Receive};
use super::sieve::Sieve;
use crate::error::{Error, Result};
use crate::filter::Filter;
use crate::frame::{Batch, SinkGso};
use crate::mask::QueueMask;
use crate::stats::RxCounters;
use crate::sync::lock;

/// Puts the filter of `options` around the receiving ends of `port`.
///
/// # Errors
/// The filter means nothing for packets of this link type, or cannot run in user space.
pub(super) fn filtered(mut port: Port, options: &OpenOptions) -> Result<Port> {
    let bundles = port.rx.iter().filter_map(|rx| rx.bundle());
    let mut link_types: Vec<_> =
        bundles.flat_map(|bundle| bundle.strands()).map(|one| one.source.link_type).collect();
    if link_types.is_empty() {
        link_types.push(port.info.link_type);
    }
    let shared = Shared {
        link_types,
        snaplen: options.snaplen,
        driver: Arc::clone(&port.driver),
        version: AtomicU64::new(0),
        sieve: Mutex::new(None),
        note: Mutex::new(None),
    };
    let shared = Arc::new(shared);
    shared.set_filter(options.filter.as_ref().filter(|_| options.receive))?;
    port.map_rx(|rx| {
        let shared = Arc::clone(&shared);
        let bundle = rx.bundle().cloned();
        let filtering = rx.wrap(|inner, counters| Filtering {
            inner,
            counters,
            bundle: bundle.clone(),
            tallies: Default::default(),
            shared,
            version: 0,
            sieve: None,
            rejected: false,
            failure: None,
        });
        filtering.with_bundle(bundle)
    });
    port.driver = shared;
    Ok(port)
}

/// What the receiving ends of a port share with its control.
struct Shared {
    /// Those of packets that come from the start.
    link_types: Vec<u16>,
    snaplen: u32,
    driver: Arc<dyn Driver>,
    /// Counts the changes; 0 is "no filter yet".
    version: AtomicU64,
    sieve: Mutex<Option<Sieve>>,
    /// Why the filter is not machine code, or does not mean what it should.
    note: Mutex<Option<String>>,
}

impl Control for Shared {
    fn mask(&self) -> QueueMask {
        self.driver.mask()
    }

    fn set_mask(&self, mask: QueueMask) -> Result<()> {
        self.driver.set_mask(mask)
    }

    fn set_filter(&self, filter: Option<&Filter>) -> Result<()> {
        let sieve = |filter| Sieve::new(filter, self.snaplen, &self.link_types);
        let sieve = filter.map(sieve).transpose()?;
        if let Some(note) = sieve.as_ref().and_then(Sieve::note) {
            *lock(&self.note) = Some(note.clone());
        }
        let mut current = lock(&self.sieve);
        *current = sieve;
        self.version.fetch_add(1, Ordering::Release);
        Ok(())
    }

    fn set_offload(&self, offload: SinkGso) -> Result<()> {
        self.driver.set_offload(offload)
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

impl Driver for Shared {
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

/// A receiving end with the filter before it.
struct Filtering {
    inner: Box<dyn Receive>,
    counters: Arc<RxCounters>,
    bundle: Option<Arc<Bundle>>,
    /// Per strand of the bundle: received, and accepted.
    tallies: [Vec<Tally>; 2],
    shared: Arc<Shared>,
    /// Of the filter.
    version: u64,
    sieve: Option<Sieve>,
    /// The last call rejected packets, so more may be ready than it returned.
    rejected: bool,
    /// Why packets that came last cannot be filtered.
    failure: Option<Error>,
}

impl Receive for Filtering {
    fn ring_bytes(&self) -> Option<usize> {
        self.inner.ring_bytes()
    }

    fn receive(&mut self, batch: &mut Batch) -> usize {
        let version = self.shared.version.load(Ordering::Acquire);
        if version != self.version {
            let sieve = lock(&self.shared.sieve);
            // Under the lock, so that both are of the same change.
            self.version = self.shared.version.load(Ordering::Relaxed);
            self.sieve.clone_from(&sieve);
        }
        let first = batch.len();
        let received = self.inner.receive(batch);
        let Some(sieve) = &mut self.sieve else { return received };
        let bytes = |batch: &Batch| -> u64 {
            batch.iter().skip(first).map(|frame| u64::from(frame.original_len())).sum()
        };
        let before = bytes(batch);
        let [came, stayed] = &mut self.tallies;
        if let Some(bundle) = &self.bundle {
            bundle.tally(batch.get(first..).unwrap_or_default(), came);
            if let Err(error) = sieve.learn(bundle) {
                self.shared.stop();
                self.failure = Some(error);
            }
        }
        let rejected = sieve.retain(self.bundle.as_deref(), batch, first);
        self.rejected = rejected > 0;
        if rejected > 0 {
            let left = before - bytes(batch);
            reject(&self.counters, (rejected as u64, left));
            if let Some(bundle) = &self.bundle {
                bundle.tally(batch.get(first..).unwrap_or_default(), stayed);
                let fixed = bundle.strands().iter().map(|strand| Arc::clone(&strand.counters));
                let all = fixed.chain(bundle.late_counters());
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

/// Counts rejected packets. They were received; the rest of `packets` is delivered.
fn reject(counters: &RxCounters, (packets, bytes): Tally) {
    counters.packets.add(packets);
    counters.bytes.add(bytes);
    counters.filtered.add(packets);
    counters.undelivered(Some(bytes));
}
