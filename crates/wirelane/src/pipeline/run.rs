//! The receive loop: polls receiving ends, passes frames to a consumer, sleeps when there are none.

use std::os::fd::AsFd;
use std::time::Duration;

use wirelane_os::event::Event;

use super::consumer::Consumer;
use super::progress::LoopRounds;
use super::quota::Portion;
use super::wait::wait;
use crate::error::{Error, Result};
use crate::frame::Batch;
use crate::port::Rx;

/// The longest sleep if the consumer sets none, so that housekeeping is not delayed for long.
const LONGEST_SLEEP: Duration = Duration::from_millis(500);

/// While some inputs are busy, silent ones are queried after this many rounds: a merge by time
/// waits for their watermarks.
const ROUNDS_UNASKED: u32 = 32;

/// Receives from all of `inputs` in turn on the calling thread until every one of them has ended.
/// Calls `consume` with the index of a receiving end and its frames; frames left in the batch
/// return to their owner.
///
/// # Errors
/// An error of `consume`, which ends the loop, or of a receiving end. In the latter case, the loop
/// receives from the other ends until they end or fail, so their packets are not lost. The first
/// error is returned.
pub fn run(
    inputs: &mut [Rx],
    mut consume: impl FnMut(usize, &mut Batch) -> Result<()>,
) -> Result<()> {
    run_with(inputs, &mut consume)
}

/// As [`run`], with a [`Consumer`], which may also end the loop by returning a capacity of 0.
///
/// # Errors
/// The errors of [`run`].
pub fn run_with(inputs: &mut [Rx], consumer: &mut impl Consumer) -> Result<()> {
    run_until(inputs, consumer, None, Portion::of(None), &LoopRounds::default())
}

/// As [`run_with`], for at most `portion` packets, with its rounds counted in `progress`. After
/// `stopped` has happened, a sleeping loop checks its ends again.
pub(super) fn run_until(
    inputs: &mut [Rx],
    consumer: &mut impl Consumer,
    stopped: Option<&Event>,
    mut portion: Portion,
    progress: &LoopRounds,
) -> Result<()> {
    let mut errors = Errors::default();
    if let Err(error) = receive(inputs, consumer, stopped, &mut portion, &mut errors, progress) {
        errors.add(error);
    }
    progress.end();
    // Other threads need not wait until this consumer has finished.
    drop(portion);
    if let Err(error) = consumer.finish() {
        errors.add(error);
    }
    errors.first.map_or(Ok(()), Err)
}

/// The first of several errors, and their number.
#[derive(Default)]
struct Errors {
    first: Option<Error>,
    count: usize,
}

impl Errors {
    fn add(&mut self, error: Error) {
        self.first.get_or_insert(error);
        self.count += 1;
    }
}

/// The loop itself. Adds errors of ends to `errors`; returns an error that ends the loop.
fn receive(
    inputs: &mut [Rx],
    consumer: &mut impl Consumer,
    stopped: Option<&Event>,
    portion: &mut Portion,
    errors: &mut Errors,
    progress: &LoopRounds,
) -> Result<()> {
    let mut batch = Batch::default();
    let mut stopped = stopped.map(Event::as_fd);
    let mut rounds = 0;
    loop {
        progress.round();
        let mut idle = true;
        rounds = if rounds < ROUNDS_UNASKED { rounds + 1 } else { 0 };
        for (input, rx) in inputs.iter_mut().enumerate() {
            let capacity = portion.admit(consumer.capacity());
            if capacity == 0 {
                return Ok(());
            }
            batch.set_limit(capacity);
            if receive_within(rx, &mut batch, portion) > 0 {
                idle = false;
                consumer.consume(input, &mut batch)?;
                batch.clear();
            } else if rounds == ROUNDS_UNASKED
                && let Err(error) = rx.readiness()
            {
                errors.add(error);
            }
        }
        if idle {
            portion.give_back();
        }
        consumer.round(inputs, idle)?;
        if !idle {
            continue;
        }
        let time = consumer.longest_sleep().unwrap_or(LONGEST_SLEEP);
        match wait(inputs, stopped.as_slice(), Some(time), false) {
            Ok(wake) if wake.ended => return Ok(()),
            // The event stays readable, so the loop ignores it and receives the rest.
            Ok(wake) => stopped = stopped.filter(|_| !wake.is_ready(0)),
            // Every end fails at most once; further errors are errors of the wait itself.
            Err(error) if errors.count >= inputs.len() => return Err(error),
            Err(error) => errors.add(error),
        }
    }
}

/// Receives a batch and counts its packets, including packets merged into others.
#[inline]
fn receive_within(rx: &mut Rx, batch: &mut Batch, portion: &mut Portion) -> usize {
    if !portion.is_limited() {
        return rx.receive(batch);
    }
    let merged = rx.counters().merged.value();
    let received = rx.receive(batch);
    portion.spend(received + (rx.counters().merged.value() - merged) as usize);
    received
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::port::sim;
    use crate::port::{OpenOptions, Readiness, Receive};

    /// Receives nothing, fails once, and is at its end then.
    struct Failing(u32);

    impl Receive for Failing {
        fn receive(&mut self, _: &mut Batch) -> usize {
            0
        }

        fn readiness(&mut self) -> Result<Readiness<'_>> {
            self.0 += 1;
            if self.0 == 1 { Err(Error::failed("wire", "cut")) } else { Ok(Readiness::End) }
        }

        fn watermark(&self) -> u64 {
            0
        }
    }

    #[test]
    fn one_end_that_fails_does_not_cost_the_others_their_packets() {
        let spec = "sim:2?rate=1Mpps&count=20000&tx=2&flows=63".parse().unwrap();
        let mut sim = sim::open(&spec, &OpenOptions::default()).unwrap();
        let mut inputs = sim.rx().unwrap();
        let broken = inputs.remove(0).wrap(|_, _| Failing(0));
        inputs.insert(0, broken);
        sim.start().unwrap();
        let mut received = 0;
        let error = run(&mut inputs, |_, batch| {
            received += batch.len();
            Ok(())
        });
        assert_eq!(error.unwrap_err().to_string(), "wire: cut");
        let stream = crate::port::sim::stream::Stream::new(&spec).unwrap();
        let place = |rx: &Rx| (rx.class(), rx.queue());
        let expected = (0..20_000).filter(|k| {
            let packet = stream.packet(*k);
            (packet.class, Some(packet.queue)) != place(&inputs[0])
        });
        assert_eq!(received, expected.count());
    }

    /// Takes some frames, then fails; counts the calls of `finish`.
    struct Fussy {
        left: usize,
        finished: u32,
    }

    impl Consumer for Fussy {
        fn consume(&mut self, _: usize, batch: &mut Batch) -> Result<()> {
            self.left = self.left.saturating_sub(batch.len());
            if self.left == 0 { Err(Error::failed("consumer", "full")) } else { Ok(()) }
        }

        fn finish(&mut self) -> Result<()> {
            self.finished += 1;
            Err(Error::failed("consumer", "later"))
        }
    }

    #[test]
    fn an_error_of_the_consumer_ends_the_loop_and_is_returned() {
        let spec = "sim:1?rate=max".parse().unwrap();
        let mut sim = sim::open(&spec, &OpenOptions::default()).unwrap();
        let mut inputs = sim.rx().unwrap();
        sim.start().unwrap();
        let mut consumer = Fussy { left: 1000, finished: 0 };
        let error = run_with(&mut inputs, &mut consumer).unwrap_err();
        assert_eq!((error.to_string().as_str(), consumer.finished), ("consumer: full", 1));
        let received = inputs[0].counters().packets.value();
        assert!((1000..1000 + Batch::DEFAULT as u64).contains(&received), "{received}");
    }
}
