//! Receiving ends that follow a test's script.

use std::collections::VecDeque;
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use wirelane::internal::stats::RxCounters;
use wirelane::port::{Readiness, Receive, Rx};
use wirelane::{Batch, Class, Error, Pool, PoolConfig, Result};
use wirelane_os::event::Event;

/// The behaviour of an end.
#[derive(Default)]
pub(super) struct Script {
    /// Times of the available packets.
    pub(super) ready: VecDeque<u64>,
    /// The most packets that a call brings; 0: all.
    pub(super) portion: usize,
    /// The promises beyond the available packets.
    pub(super) watermark: u64,
    pub(super) empty_at: u64,
    pub(super) ends: bool,
    pub(super) fails: bool,
    /// How often it was asked when it had nothing.
    pub(super) asked: u32,
}

/// The test's side of an end.
#[derive(Clone)]
pub(super) struct Scripted(Arc<Mutex<Script>>, Arc<Event>);

impl Scripted {
    pub(super) fn new(script: Script) -> (Self, Rx) {
        let scripted = Self(Arc::new(Mutex::new(script)), Arc::new(Event::new().unwrap()));
        let config = PoolConfig { chunks: 6000, chunk_size: 256, ..PoolConfig::default() };
        let end = ScriptedRx { script: scripted.clone(), pool: Pool::new(config).unwrap() };
        (scripted, Rx::new(end, Arc::new(RxCounters::new(0, Class::Rx))))
    }

    /// Several ends, each with its packets and then its end.
    pub(super) fn all(times: &[&[u64]]) -> (Vec<Self>, Vec<Rx>) {
        let script = |times: &&[u64]| {
            let ready: VecDeque<_> = times.iter().copied().collect();
            Self::new(Script { ready, ends: true, ..Script::default() })
        };
        times.iter().map(script).unzip()
    }

    pub(super) fn set(&self) -> MutexGuard<'_, Script> {
        self.0.lock().unwrap()
    }

    /// Its descriptor becomes readable, and stays so.
    pub(super) fn wake(&self) {
        self.1.happen();
    }
}

struct ScriptedRx {
    script: Scripted,
    pool: Pool,
}

impl Receive for ScriptedRx {
    fn receive(&mut self, batch: &mut Batch) -> usize {
        let mut script = self.script.set();
        let portion = if script.portion == 0 { usize::MAX } else { script.portion };
        let n = batch.room().min(portion).min(script.ready.len());
        for time in script.ready.drain(..n) {
            let mut frame = self.pool.take_one().unwrap();
            assert!(frame.fill(&time.to_be_bytes()));
            frame.set_timestamp(time);
            assert!(batch.push(frame).is_ok());
        }
        n
    }

    fn readiness(&mut self) -> Result<Readiness<'_>> {
        let mut script = self.script.0.lock().unwrap();
        script.asked += 1;
        if script.fails {
            return Err(Error::failed("script", "it fails"));
        }
        match (script.ready.is_empty(), script.ends) {
            (false, _) => Ok(Readiness::Now),
            (true, true) => Ok(Readiness::End),
            (true, false) => {
                Ok(Readiness::Descriptor(self.script.1.as_fd(), Duration::from_millis(50)))
            }
        }
    }

    fn watermark(&self) -> u64 {
        let script = self.script.set();
        script.ready.front().map_or(script.watermark, |next| script.watermark.min(*next))
    }

    fn empty_at(&self) -> u64 {
        self.script.set().empty_at
    }
}
