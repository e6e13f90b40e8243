//! Sleeps until a receiving end or a descriptor of the program is ready, or a deadline passes.

use std::borrow::BorrowMut;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::time::Timespec;

use crate::error::{Error, Result};
use crate::port::{Readiness, Rx};

/// The number of descriptors that are polled without allocating.
const FEW: usize = 32;
/// The maximum number of the program's descriptors in a [`Wake`].
const MOST: usize = 64;

/// Why a wait ended; several reasons at once are possible.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Wake {
    /// A receiving end may have packets: check all of them.
    pub packets: bool,
    /// The deadline has passed.
    pub deadline: bool,
    /// All receiving ends have ended, or there are none.
    pub ended: bool,
    ready: u64,
}

impl Wake {
    /// Whether the program's descriptor at index `position` is readable, has an error or was hung
    /// up.
    #[must_use]
    pub fn is_ready(&self, position: usize) -> bool {
        position < MOST && self.ready >> position & 1 == 1
    }
}

/// Waits until one of `inputs` may have packets, one of `descriptors` is readable, or `deadline`
/// has passed. Call it after a round without packets.
///
/// If an end busy-polls, it does not sleep, but checks `descriptors` and `deadline`. If all ends
/// have ended, it returns at once. Without ends it waits for descriptors and deadline.
///
/// ```
/// use std::os::fd::AsFd;
/// use wirelane::port::{self, OpenOptions};
/// use wirelane::{Batch, pipeline};
///
/// # fn main() -> wirelane::Result<()> {
/// let mut port = port::open(&"sim:2?count=1000".parse()?, &OpenOptions::default())?;
/// let mut rx = port.rx()?;
/// port.start()?;
/// let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
/// let (mut batch, mut packets) = (Batch::default(), 0);
/// loop {
///     let mut received = 0;
///     for rx in &mut rx {
///         received += rx.receive(&mut batch);
///         batch.clear();
///     }
///     packets += received;
///     if received > 0 {
///         continue;
///     }
///     let wake = pipeline::wait_any(&mut rx, &[socket.as_fd()], None)?;
///     if wake.is_ready(0) { /* receive from the socket */ }
///     if wake.ended {
///         break;
///     }
/// }
/// assert_eq!(packets, 1000);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// A port failed, or there are more than 64 descriptors.
pub fn wait_any<R: BorrowMut<Rx>>(
    inputs: &mut [R],
    descriptors: &[BorrowedFd<'_>],
    deadline: Option<Instant>,
) -> Result<Wake> {
    if descriptors.len() > MOST {
        let cause = format!("{} descriptors are more than {MOST}", descriptors.len());
        return Err(Error::usage("wait_any", cause));
    }
    let timeout = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
    let mut wake = wait(inputs, descriptors, timeout, true)?;
    wake.deadline = deadline.is_some_and(|deadline| Instant::now() >= deadline);
    Ok(wake)
}

/// As [`wait_any`], but does not report the deadline. `looks`: check the descriptors even if an end
/// busy-polls, which costs a system call.
pub(super) fn wait<R: BorrowMut<Rx>>(
    inputs: &mut [R],
    descriptors: &[BorrowedFd<'_>],
    timeout: Option<Duration>,
    looks: bool,
) -> Result<Wake> {
    let (count, mut ended) = (inputs.len(), 0);
    let mut set = WaitSet::default();
    descriptors.iter().for_each(|fd| set.add(*fd));
    // The time after which the ends must be checked again.
    let mut patience = Duration::MAX;
    for rx in inputs.iter_mut() {
        match rx.borrow_mut().readiness()? {
            // This thread has no descriptors to check.
            Readiness::Now | Readiness::Soon(..) if !looks || descriptors.is_empty() => {
                return Ok(Wake { packets: true, ..Wake::default() });
            }
            Readiness::Now | Readiness::Soon(..) => patience = Duration::ZERO,
            Readiness::After(time) => patience = patience.min(time),
            Readiness::Descriptor(fd, time) => {
                patience = patience.min(time);
                set.add(fd);
            }
            Readiness::End => ended += 1,
        }
    }
    let ended = ended == count;
    let nothing = set.is_empty() && timeout.is_none();
    if ended && (count > 0 || nothing) {
        return Ok(Wake { ended, ..Wake::default() });
    }
    let time = timeout.map_or(patience, |timeout| timeout.min(patience));
    let polled = set.poll(time, descriptors.len());
    // One system call for all ends, counted once.
    if let Some(rx) = inputs.first() {
        rx.borrow().counters().system_calls.add(1);
    }
    let (ready, others) = polled?;
    // `readiness` finds conditions of these descriptors again, with a better error.
    let packets = count > 0 && (others || ready == 0 && time == patience);
    Ok(Wake { packets: packets || patience.is_zero(), deadline: false, ended, ready })
}

/// Descriptors to wait for.
#[derive(Default)]
struct WaitSet<'a> {
    few: [Option<BorrowedFd<'a>>; FEW],
    count: usize,
    more: Vec<BorrowedFd<'a>>,
}

impl<'a> WaitSet<'a> {
    fn add(&mut self, fd: BorrowedFd<'a>) {
        match self.few.get_mut(self.count) {
            Some(place) => *place = Some(fd),
            None => self.more.push(fd),
        }
        self.count += 1;
    }

    fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Waits until one is readable or `timeout` has passed. Returns a bit for each of the first
    /// `own` descriptors that is ready, and whether another one is.
    fn poll(&self, timeout: Duration, own: usize) -> Result<(u64, bool)> {
        let mut all = self
            .few
            .iter()
            .flatten()
            .chain(&self.more)
            .map(|fd| PollFd::from_borrowed_fd(*fd, PollFlags::IN | PollFlags::ERR));
        let Some(first) = all.next() else {
            std::thread::sleep(timeout);
            return Ok((0, false));
        };
        if self.count > FEW {
            return poll_for(&mut [first].into_iter().chain(all).collect::<Vec<_>>(), timeout, own);
        }
        let mut on_stack = std::array::from_fn::<_, FEW, _>(|_| first.clone());
        on_stack.iter_mut().skip(1).zip(all).for_each(|(place, fd)| *place = fd);
        poll_for(on_stack.get_mut(..self.count).unwrap_or_default(), timeout, own)
    }
}

fn poll_for(set: &mut [PollFd<'_>], timeout: Duration, own: usize) -> Result<(u64, bool)> {
    // A longer time is as good as no limit.
    let time = Timespec::try_from(timeout).ok();
    match poll(set, time.as_ref()) {
        Ok(_) => {}
        // Unknown: check the ends.
        Err(Errno::INTR) => return Ok((0, true)),
        Err(errno) => return Err(Error::io("receiving ends", "poll", errno.into())),
    }
    let (own, others) = set.split_at(own.min(set.len()));
    let is_ready = |fd: &PollFd<'_>| !fd.revents().is_empty();
    let bits = own.iter().enumerate().filter(|(_, fd)| is_ready(fd)).map(|(i, _)| 1 << i);
    Ok((bits.sum(), others.iter().any(is_ready)))
}
