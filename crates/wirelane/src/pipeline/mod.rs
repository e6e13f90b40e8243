//! The receive loop: poll some receiving ends, hand what comes to a consumer, sleep when nothing
//! does.

pub(crate) mod budget;
mod wait;

use std::time::Duration;

pub use self::wait::wait_any;
use crate::error::Result;
use crate::frame::Batch;
use crate::port::Rx;

/// Longest sleep, so that housekeeping and stop requests are never far away.
const LONGEST_SLEEP: Duration = Duration::from_millis(100);

/// While some inputs are busy, the silent ones are asked for their state after this many rounds:
/// their time goes on, and a merge by time waits for it.
const ROUNDS_UNASKED: u32 = 32;

/// What is done with received frames.
///
/// Any `FnMut(usize, &mut Batch)` is a consumer; the number is the position of the receiving end.
pub trait Consumer {
    /// Takes what it wants out of `batch`. Frames left in it are given back to their owner.
    fn consume(&mut self, input: usize, batch: &mut Batch);

    /// How many of `wanted` frames may be received next. Zero ends the loop.
    fn admit(&mut self, wanted: usize) -> usize {
        wanted
    }

    /// How long the loop may sleep when nothing comes. Asked after each idle round.
    fn patience(&self) -> Duration {
        LONGEST_SLEEP
    }

    /// One round over all inputs is done; `idle` says that it brought nothing.
    fn round(&mut self, inputs: &[Rx], idle: bool) {
        let _ = (inputs, idle);
    }
}

impl<F: FnMut(usize, &mut Batch)> Consumer for F {
    fn consume(&mut self, input: usize, batch: &mut Batch) {
        self(input, batch);
    }
}

/// Receives from all of `inputs` in turn on the calling thread until every one of them has ended
/// or the consumer admits nothing more.
///
/// # Errors
/// A receiving end failed. The others have been received from until they ended or failed, too: what
/// they held is not lost. The first error is returned.
pub fn run(inputs: &mut [Rx], consumer: &mut impl Consumer) -> Result<()> {
    let mut batch = Batch::default();
    let mut rounds = 0;
    let (mut failure, mut failures) = (None, 0);
    loop {
        let mut idle = true;
        rounds = if rounds < ROUNDS_UNASKED { rounds + 1 } else { 0 };
        for (input, rx) in inputs.iter_mut().enumerate() {
            let admitted = consumer.admit(Batch::DEFAULT);
            if admitted == 0 {
                return failure.map_or(Ok(()), Err);
            }
            batch.set_limit(admitted);
            if rx.receive(&mut batch) > 0 {
                idle = false;
                consumer.consume(input, &mut batch);
                batch.clear();
            } else if rounds == ROUNDS_UNASKED
                && let Err(error) = rx.readiness()
            {
                failures += 1;
                failure.get_or_insert(error);
            }
        }
        consumer.round(inputs, idle);
        if !idle {
            continue;
        }
        match wait_any(inputs, consumer.patience().min(LONGEST_SLEEP)) {
            Ok(true) => {}
            Ok(false) => return failure.map_or(Ok(()), Err),
            // Every end fails once at most; more errors than ends are of the waiting itself.
            Err(error) if failures >= inputs.len() => return Err(failure.unwrap_or(error)),
            Err(error) => {
                failures += 1;
                failure.get_or_insert(error);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;
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
        let mut inputs = sim.rx();
        let broken = inputs.remove(0).wrap(|_, _| Failing(0));
        inputs.insert(0, broken);
        sim.start().unwrap();
        let mut received = 0;
        let error = run(&mut inputs, &mut |_, batch: &mut Batch| received += batch.len());
        assert_eq!(error.unwrap_err().to_string(), "wire: cut");
        let stream = crate::port::sim::Stream::new(&spec).unwrap();
        let place = |rx: &Rx| (rx.class(), rx.queue());
        let expected = (0..20_000).filter(|k| {
            let packet = stream.packet(*k);
            (packet.class, packet.queue) != place(&inputs[0])
        });
        assert_eq!(received, expected.count());
    }
}
