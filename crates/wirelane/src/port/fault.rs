//! Misfortune on purpose: an end of a port that drops, corrupts and falters as told, and always in
//! the same way for the same seed. What it drops it counts.

use std::sync::Arc;
use std::time::Duration;

use super::sim::mix;
use super::{Readiness, Receive, Rx, Transmit, Tx};
use crate::error::Result;
use crate::frame::{Batch, Frame};
use crate::stats::{RxCounters, TxCounters};

/// Most frames of a short batch.
const SHORT: usize = 3;

/// What goes wrong and how often: probabilities from 0 (the default) to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Faults {
    /// Decides what happens when. Each queue and class has a sequence of its own.
    pub seed: u64,
    /// Per frame: it is lost, and counted as `fault` (receiving) or as an error (transmitting).
    pub drop: f64,
    /// Per frame: one byte changes.
    pub corrupt: f64,
    /// Per call: at most three frames pass, although there are more.
    pub short: f64,
    /// Per call: none passes, although there are some (the system's `EAGAIN`).
    pub again: f64,
    /// Per call: a stall begins.
    pub stall: f64,
    /// Calls that a stall lasts, the one it begins with included; at least 1.
    pub stall_calls: u32,
}

impl Faults {
    /// Brings the faults to a receiving end.
    pub fn rx(&self, rx: Rx) -> Rx {
        let dice = Dice::new(self, u64::from(rx.counters().number) << 2 | rx.class() as u64);
        rx.wrap(|inner, counters| {
            let short = Batch::new(SHORT);
            FaultRx { inner, counters, dice, short, is_holding_back: false }
        })
    }

    /// Brings the faults to a transmitting end.
    pub fn tx(&self, tx: Tx) -> Tx {
        let dice = Dice::new(self, u64::from(tx.queue()) << 2 | 3);
        tx.wrap(|inner, counters| FaultTx { inner, counters, dice, short: Batch::new(SHORT) })
    }
}

/// What happens to a call.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Call {
    Normal,
    Short,
    Nothing,
}

/// Draws what happens.
struct Dice {
    faults: Faults,
    state: u64,
    /// Calls until the stall is over.
    stalled: u32,
}

impl Dice {
    fn new(faults: &Faults, end: u64) -> Self {
        Self { faults: *faults, state: mix(faults.seed ^ mix(end)), stalled: 0 }
    }

    fn draw(&mut self) -> u64 {
        self.state = self.state.wrapping_add(1);
        mix(self.state)
    }

    fn happens(&mut self, probability: f64) -> bool {
        // 53 bits, which a float holds exactly: from 0 on and below 1.
        let fraction = (self.draw() >> 11) as f64 / (1u64 << 53) as f64;
        fraction < probability
    }

    fn call(&mut self) -> Call {
        if self.stalled == 0 && self.happens(self.faults.stall) {
            self.stalled = self.faults.stall_calls.max(1);
        }
        if self.stalled > 0 {
            self.stalled -= 1;
            return Call::Nothing;
        }
        if self.happens(self.faults.again) {
            return Call::Nothing;
        }
        if self.happens(self.faults.short) { Call::Short } else { Call::Normal }
    }

    /// Drops and corrupts frames from `first` on; returns how many were dropped.
    fn spoil(&mut self, batch: &mut Batch, first: usize) -> usize {
        let (before, mut at) = (batch.len(), 0);
        batch.retain(|frame| {
            at += 1;
            at <= first || self.survives(frame)
        });
        before - batch.len()
    }

    fn survives(&mut self, frame: &mut Frame) -> bool {
        if self.happens(self.faults.drop) {
            return false;
        }
        if self.happens(self.faults.corrupt) && !frame.is_empty() {
            let at = (self.draw() % frame.len() as u64) as usize;
            let change = (self.draw() % 255 + 1) as u8;
            frame.data_mut()[at] ^= change;
        }
        true
    }
}

struct FaultRx {
    inner: Box<dyn Receive>,
    counters: Arc<RxCounters>,
    dice: Dice,
    /// Where a short batch is received.
    short: Batch,
    /// The last call returned nothing of what there may be.
    is_holding_back: bool,
}

impl Receive for FaultRx {
    fn receive(&mut self, batch: &mut Batch) -> usize {
        let first = batch.len();
        let call = self.dice.call();
        match call {
            Call::Short if batch.room() >= SHORT => {
                self.inner.receive(&mut self.short);
                batch.append(&mut self.short);
            }
            Call::Short | Call::Normal => {
                self.inner.receive(batch);
            }
            Call::Nothing => {}
        }
        let dropped = self.dice.spoil(batch, first);
        self.counters.fault.add(dropped as u64);
        self.is_holding_back = call == Call::Nothing || dropped > 0;
        batch.len() - first
    }

    fn readiness(&mut self) -> Result<Readiness<'_>> {
        if self.is_holding_back { Ok(Readiness::Now) } else { self.inner.readiness() }
    }

    fn watermark(&self) -> u64 {
        self.inner.watermark()
    }
}

struct FaultTx {
    inner: Box<dyn Transmit>,
    counters: Arc<TxCounters>,
    dice: Dice,
    /// What a short call transmits.
    short: Batch,
}

impl Transmit for FaultTx {
    fn transmit(&mut self, batch: &mut Batch) -> usize {
        let offered = batch.len();
        match self.dice.call() {
            Call::Nothing => return 0,
            Call::Normal => {
                let dropped = self.dice.spoil(batch, 0);
                self.counters.errors.add(dropped as u64);
                self.inner.transmit(batch);
            }
            Call::Short => {
                self.short.as_vec().extend(batch.drain(SHORT));
                let dropped = self.dice.spoil(&mut self.short, 0);
                self.counters.errors.add(dropped as u64);
                self.inner.transmit(&mut self.short);
                // What did not fit goes back to the front.
                batch.as_vec().splice(0..0, self.short.as_vec().drain(..));
            }
        }
        offered - batch.len()
    }

    fn allocate(&mut self, batch: &mut Batch, n: usize) -> usize {
        self.inner.allocate(batch, n)
    }

    fn sent(&mut self, batch: &mut Batch) -> usize {
        self.inner.sent(batch)
    }

    fn flush(&mut self) -> Result<()> {
        self.inner.flush()
    }

    fn pending(&self) -> usize {
        self.inner.pending()
    }

    fn wait(&mut self, timeout: Duration) -> Result<()> {
        self.inner.wait(timeout)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::port::sim::{Sim, Stream};
    use crate::port::{OpenOptions, Port};

    const COUNT: u64 = 20_000;

    fn open(text: &str) -> Sim {
        let options = OpenOptions { transmit: true, ..OpenOptions::default() };
        Sim::open(&text.parse().unwrap(), &options).unwrap()
    }

    /// Receives the whole stream through `faults`: the numbers of intact packets, how many calls
    /// returned nothing, and what the counters say.
    fn receive(faults: Faults) -> (Vec<u64>, usize, u64, u64) {
        let spec = format!("sim:1?count={COUNT}&size=100");
        let stream = Stream::new(&spec.parse().unwrap()).unwrap();
        let mut sim = open(&spec);
        let mut rx = faults.rx(sim.rx().remove(0));
        sim.start().unwrap();
        let (mut batch, mut numbers, mut nothing) = (Batch::default(), Vec::new(), 0);
        loop {
            if rx.receive(&mut batch) == 0 {
                nothing += 1;
                if matches!(rx.readiness().unwrap(), Readiness::End) {
                    break;
                }
            }
            numbers.extend(batch.iter().filter_map(|frame| {
                let k = stream.number(frame.data())?;
                (stream.packet(k).bytes == frame.data()).then_some(k)
            }));
            batch.clear();
        }
        assert_eq!(sim.frames().held(), 0);
        (numbers, nothing, rx.counters().packets.value(), rx.counters().fault.value())
    }

    #[test]
    fn without_faults_nothing_happens() {
        let (numbers, nothing, packets, lost) = receive(Faults::default());
        assert!(numbers.into_iter().eq(0..COUNT));
        assert_eq!((nothing, packets, lost), (1, COUNT, 0));
    }

    #[test]
    fn what_is_dropped_is_counted() {
        let faults = Faults { drop: 0.25, seed: 1, ..Faults::default() };
        let (numbers, _, packets, lost) = receive(faults);
        assert_eq!((packets + lost, numbers.len() as u64), (COUNT, packets));
        assert!((4500..5500).contains(&lost), "{lost}");
        assert_eq!(receive(faults).0, numbers, "the same seed, the same faults");
        assert_ne!(receive(Faults { seed: 2, ..faults }).0, numbers);
        assert_eq!(receive(Faults { drop: 1.0, ..faults }).3, COUNT);
    }

    #[test]
    fn what_is_corrupted_still_arrives() {
        let (numbers, _, packets, lost) = receive(Faults { corrupt: 0.1, ..Faults::default() });
        assert_eq!((packets, lost), (COUNT, 0));
        let changed = COUNT - numbers.len() as u64;
        assert!((1600..2400).contains(&changed), "{changed}");
    }

    #[test]
    fn short_batches_and_stalls_lose_nothing() {
        let faults =
            Faults { short: 0.3, again: 0.2, stall: 0.01, stall_calls: 5, ..Faults::default() };
        let (numbers, nothing, packets, lost) = receive(faults);
        assert!(numbers.into_iter().eq(0..COUNT));
        assert_eq!((packets, lost), (COUNT, 0));
        assert!(nothing > 50, "{nothing}");
    }

    #[test]
    fn what_is_transmitted_is_sent_or_counted() {
        let mut sim = open("sim:1?verify=on&count=5000");
        let (mut rx, tx) = (sim.rx().remove(0), sim.tx().remove(0));
        let faults = Faults {
            drop: 0.1,
            corrupt: 0.1,
            short: 0.2,
            again: 0.2,
            stall: 0.02,
            stall_calls: 3,
            seed: 3,
        };
        let mut tx = faults.tx(tx);
        sim.start().unwrap();
        let (mut batch, mut taken) = (Batch::default(), 0);
        while rx.receive(&mut batch) > 0 || !batch.is_empty() {
            taken += tx.transmit(&mut batch) as u64;
        }
        let counters = tx.counters();
        let (packets, errors) = (counters.packets.value(), counters.errors.value());
        assert_eq!((taken, packets + errors), (5000, 5000));
        // A change of an address is no error for the sink, any other is.
        assert!((600..1000).contains(&errors), "{errors}");
        assert_eq!(sim.frames().held(), 0);
    }
}
