//! The receive loop: poll some receiving ends, hand what comes to a consumer, sleep when nothing
//! does.

mod wait;

pub use self::wait::wait_any;
use crate::error::Result;
use crate::frame::Batch;
use crate::port::Rx;

/// Longest sleep, so that housekeeping and stop requests are never far away.
const LONGEST_SLEEP: std::time::Duration = std::time::Duration::from_millis(100);

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
/// A port failed; what was received before has been consumed.
pub fn run(inputs: &mut [Rx], consumer: &mut impl Consumer) -> Result<()> {
    let mut batch = Batch::default();
    let mut rounds = 0;
    loop {
        let mut idle = true;
        rounds = if rounds < ROUNDS_UNASKED { rounds + 1 } else { 0 };
        for (input, rx) in inputs.iter_mut().enumerate() {
            let admitted = consumer.admit(Batch::DEFAULT);
            if admitted == 0 {
                return Ok(());
            }
            batch.limit(admitted);
            if rx.receive(&mut batch) > 0 {
                idle = false;
                consumer.consume(input, &mut batch);
                batch.clear();
            } else if rounds == ROUNDS_UNASKED {
                rx.readiness()?;
            }
        }
        consumer.round(inputs, idle);
        if idle && !wait_any(inputs, LONGEST_SLEEP)? {
            return Ok(());
        }
    }
}
