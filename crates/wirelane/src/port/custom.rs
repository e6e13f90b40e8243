//! A port whose packets come from the program.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::accounting::{Accounting, FrameCounts};
use super::control::{Control, Driver};
use super::filtered::filtered;
use super::info::{PortInfo, PortMode};
use super::options::OpenOptions;
use super::port::Port;
use super::rx::{Readiness, Receive, Rx};
use super::spec::{Backend, Spec};
use crate::error::{Error, Result};
use crate::filter::Filter;
use crate::frame::Batch;
use crate::mask::{Class, QueueMask};
use crate::stats::RxCounters;
use crate::sync::lock;

/// Time between two checks whether the port has started.
const BEFORE_START: Duration = Duration::from_millis(1);

/// A port whose Ethernet frames come from `sources`: source i is RX queue i. Reports and capture
/// files call its interface `name`. It works in every session and loop that only receives.
///
/// A source is not called before the start. After a stop it is at its end. The filter and the mask
/// of `options` apply, and can be changed; the other options do not. Packets of queues that are not
/// selected are dropped and not counted.
///
/// ```
/// use std::time::Duration;
/// use wirelane::port::{self, OpenOptions, Readiness, Receive};
/// use wirelane::session::capture::{Capture, CaptureConfig};
/// use wirelane::{Batch, Pool, PoolConfig, Result};
///
/// /// Creates a number of packets.
/// struct Some(usize, Pool);
///
/// impl Receive for Some {
///     fn receive(&mut self, batch: &mut Batch) -> usize {
///         let count = self.1.take(batch, self.0.min(batch.room()));
///         batch.iter_mut().rev().take(count).for_each(|frame| assert!(frame.fill(&[7; 60])));
///         self.0 -= count;
///         count
///     }
///
///     fn readiness(&mut self) -> Result<Readiness<'_>> {
///         Ok(if self.0 > 0 { Readiness::Now } else { Readiness::End })
///     }
///
///     fn watermark(&self) -> u64 {
///         0
///     }
/// }
///
/// # fn main() -> Result<()> {
/// let pool = || Pool::new(PoolConfig::default());
/// let sources = [Some(1000, pool()?), Some(500, pool()?)];
/// let port = port::custom("mine", sources, &OpenOptions::default())?;
/// let capture = Capture::start(vec![port], &CaptureConfig::default())?;
/// while !capture.wait(Duration::from_secs(1)) {}
/// let queues = capture.join().queues;
/// assert_eq!(queues.iter().map(|queue| queue.packets).collect::<Vec<_>>(), [1000, 500]);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// The mask selects a queue that the port does not have, or the filter cannot run.
pub fn custom<R: Receive + 'static>(
    name: &str,
    sources: impl IntoIterator<Item = R>,
    options: &OpenOptions,
) -> Result<Port> {
    let sources: Vec<R> = sources.into_iter().collect();
    let spec = Spec {
        backend: Some(Backend::Custom),
        name: name.into(),
        queues: None,
        options: Vec::new(),
        offloads: Default::default(),
    };
    let mut info = PortInfo::new(&spec, Backend::Custom, PortMode::Custom);
    info.interface = Some(name.to_owned());
    info.filter = options.filter.as_ref().and_then(Filter::expression).map(str::to_owned);
    info.queues = (0..).take(sources.len()).collect();
    let switch = CustomSwitch {
        spec: spec.to_string(),
        mask: Mutex::default(),
        selected: sources.iter().map(|_| AtomicBool::new(false)).collect(),
        started: AtomicBool::new(false),
        stopped: AtomicBool::new(false),
    };
    switch.set_mask(options.mask.clone())?;
    let switch = Arc::new(switch);
    // The pools belong to the sources.
    let accounting = Accounting::new(FrameCounts::default);
    let mut port = Port::new(info, Arc::clone(&switch) as Arc<dyn Driver>, accounting);
    let end = |(queue, source)| {
        let counters = Arc::new(RxCounters::new(queue, Class::Rx));
        Rx::new(SourceReceiver { source, queue, switch: Arc::clone(&switch) }, counters)
    };
    port.rx = (0..).zip(sources).map(end).collect();
    filtered(port, options)
}

/// Start, stop and mask of the port.
struct CustomSwitch {
    /// The port, for errors.
    spec: String,
    mask: Mutex<QueueMask>,
    /// Whether the mask selects each queue.
    selected: Box<[AtomicBool]>,
    started: AtomicBool,
    stopped: AtomicBool,
}

impl Control for CustomSwitch {
    fn mask(&self) -> QueueMask {
        lock(&self.mask).clone()
    }

    fn set_mask(&self, mask: QueueMask) -> Result<()> {
        let queues = self.selected.len();
        let refuse = |cause| Err(Error::usage(format!("port '{}'", self.spec), cause));
        if let Some(queue) = mask.rx.largest().filter(|queue| *queue >= queues) {
            return refuse(format!("there is no queue {queue}: it has {queues}"));
        }
        if let Some(queue) = mask.tx.largest() {
            return refuse(format!("there is no TX queue {queue}: it only receives"));
        }
        let mut current = lock(&self.mask);
        for (queue, selected) in self.selected.iter().enumerate() {
            selected.store(mask.selects(Class::Rx, queue), Ordering::Relaxed);
        }
        *current = mask;
        Ok(())
    }

    fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }
}

impl Driver for CustomSwitch {
    fn start(&self) -> Result<()> {
        self.started.store(true, Ordering::Release);
        Ok(())
    }
}

/// The receiver of one source.
struct SourceReceiver<R> {
    source: R,
    queue: u16,
    switch: Arc<CustomSwitch>,
}

impl<R> SourceReceiver<R> {
    fn is_running(&self) -> bool {
        self.switch.started.load(Ordering::Acquire) && !self.switch.stopped.load(Ordering::Relaxed)
    }
}

impl<R: Receive> Receive for SourceReceiver<R> {
    fn receive(&mut self, batch: &mut Batch) -> usize {
        if !self.is_running() {
            return 0;
        }
        let before = batch.len();
        let count = self.source.receive(batch);
        let selected = self.switch.selected.get(usize::from(self.queue));
        if !selected.is_some_and(|selected| selected.load(Ordering::Relaxed)) {
            batch.truncate(before);
            return 0;
        }
        for frame in batch.iter_mut().skip(before) {
            frame.stamp(frame.timestamp(), self.queue, Class::Rx);
        }
        count
    }

    fn readiness(&mut self) -> Result<Readiness<'_>> {
        if self.switch.stopped.load(Ordering::Relaxed) {
            return Ok(Readiness::End);
        }
        if !self.is_running() {
            return Ok(Readiness::After(BEFORE_START));
        }
        self.source.readiness()
    }

    fn watermark(&self) -> u64 {
        self.source.watermark()
    }

    fn empty_at(&self) -> u64 {
        self.source.empty_at()
    }

    fn ring_bytes(&self) -> Option<usize> {
        self.source.ring_bytes()
    }
}

#[cfg(test)]
mod tests {
    use crate::mask::QueueSet;
    use crate::pool::{Pool, PoolConfig};

    use super::*;

    /// Creates frames of the length of their number, without end.
    struct Counting(Pool, u8);

    impl Receive for Counting {
        fn receive(&mut self, batch: &mut Batch) -> usize {
            let count = self.0.take(batch, batch.room().min(4));
            for frame in batch.iter_mut().rev().take(count) {
                self.1 = self.1 % 100 + 1;
                assert!(frame.fill(&[0; 100][..usize::from(self.1)]));
            }
            count
        }

        fn readiness(&mut self) -> Result<Readiness<'_>> {
            Ok(Readiness::Now)
        }

        fn watermark(&self) -> u64 {
            7
        }
    }

    fn open(options: &OpenOptions) -> Result<Port> {
        let source = || Counting(Pool::new(PoolConfig::default()).unwrap(), 0);
        custom("mine", [source(), source()], options)
    }

    #[test]
    fn starts_selects_filters_and_stops() {
        let filter: Filter = "greater 99".parse().unwrap();
        let mut port = open(&OpenOptions::default().filter(filter)).unwrap();
        assert_eq!((port.info().spec.as_str(), &*port.info().queues), ("custom:mine", &[0, 1][..]));
        let mut rx = port.rx().unwrap();
        let mut batch = Batch::default();
        assert_eq!(rx[0].receive(&mut batch), 0);
        assert!(matches!(rx[0].readiness(), Ok(Readiness::After(_))));

        port.start().unwrap();
        let received = |rx: &mut Rx| {
            let mut batch = Batch::default();
            (0..50).for_each(|_| _ = rx.receive(&mut batch));
            assert!(batch.iter().all(|frame| frame.len() >= 99 && frame.queue() == rx.queue()));
            batch.len()
        };
        assert_eq!(received(&mut rx[1]), 4);
        let control = port.control();
        let second = QueueMask { rx: QueueSet::from_iter([1]), ..control.mask() };
        control.set_mask(second.clone()).unwrap();
        assert_eq!(control.mask(), second);
        assert_eq!((received(&mut rx[0]), received(&mut rx[1])), (0, 4));
        let third = QueueMask { rx: QueueSet::from_iter([2]), ..second.clone() };
        assert!(control.set_mask(third).unwrap_err().to_string().contains("it has 2"));
        let sent = QueueMask { tx: QueueSet::from_iter([0]), ..second.clone() };
        assert!(control.set_mask(sent).unwrap_err().to_string().contains("only receives"));
        assert_eq!(control.mask(), second);

        control.stop();
        assert_eq!(received(&mut rx[1]), 0);
        assert!(matches!(rx[1].readiness(), Ok(Readiness::End)));
        assert_eq!(rx[1].watermark(), 7);
    }
}
