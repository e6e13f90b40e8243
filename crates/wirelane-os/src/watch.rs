//! Waiting for several descriptors: in one call, or by one descriptor for an event loop.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, epoll, poll};
use rustix::io::Errno;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};

use crate::error::{OsError, Result};

/// Waits until one of `descriptors` is readable or has an error, `timeout` has passed, or a signal
/// comes. Without a timeout it waits for ever.
///
/// # Errors
/// What poll(2) gives.
pub fn wait(descriptors: &[BorrowedFd<'_>], timeout: Option<Duration>) -> Result<()> {
    let mut set: Vec<_> = descriptors
        .iter()
        .map(|fd| PollFd::from_borrowed_fd(*fd, PollFlags::IN | PollFlags::ERR))
        .collect();
    // What does not fit is as good as for ever.
    let time = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
    match poll(&mut set, time.as_ref()) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(errno) => Err(OsError::new("poll", "", errno)),
    }
}

/// A descriptor that is readable while one of several others is, or from a given time on (epoll
/// with a timerfd).
#[derive(Debug)]
pub struct Watch {
    epoll: OwnedFd,
    timer: OwnedFd,
    is_armed: bool,
}

impl Watch {
    /// One that watches nothing.
    ///
    /// # Errors
    /// The process has no descriptor left.
    pub fn new() -> Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)
            .map_err(|errno| OsError::new("epoll_create1", "", errno))?;
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags)
            .map_err(|errno| OsError::new("timerfd_create", "", errno))?;
        let watch = Self { epoll, timer, is_armed: false };
        watch.add(watch.timer.as_fd())?;
        Ok(watch)
    }

    /// Watches `fd` as well.
    ///
    /// # Errors
    /// What epoll_ctl(2) gives.
    pub fn add(&self, fd: BorrowedFd<'_>) -> Result<()> {
        let data = epoll::EventData::new_u64(0);
        match epoll::add(&self.epoll, fd, data, epoll::EventFlags::IN) {
            Ok(()) | Err(Errno::EXIST) => Ok(()),
            Err(errno) => Err(OsError::new("epoll_ctl", "EPOLL_CTL_ADD", errno)),
        }
    }

    /// Watches `fd` no more.
    ///
    /// # Errors
    /// What epoll_ctl(2) gives.
    pub fn remove(&self, fd: BorrowedFd<'_>) -> Result<()> {
        match epoll::delete(&self.epoll, fd) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(OsError::new("epoll_ctl", "EPOLL_CTL_DEL", errno)),
        }
    }

    /// Is readable from `after` now on, whatever else is watched; `None`: only for what is watched.
    ///
    /// # Errors
    /// What timerfd_settime(2) gives.
    pub fn arm(&mut self, after: Option<Duration>) -> Result<()> {
        if after.is_none() && !self.is_armed {
            return Ok(());
        }
        let never = Timespec { tv_sec: 0, tv_nsec: 0 };
        // Zero would switch the timer off.
        let soonest = after.map(|after| after.max(Duration::from_nanos(1)));
        let value = soonest.map_or(Some(never), |time| Timespec::try_from(time).ok());
        let time = Itimerspec { it_interval: never, it_value: value.unwrap_or(never) };
        timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &time)
            .map_err(|errno| OsError::new("timerfd_settime", "", errno))?;
        self.is_armed = after.is_some();
        Ok(())
    }
}

impl AsFd for Watch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Event;

    fn is_readable(watch: &Watch) -> bool {
        let mut set = [PollFd::new(watch, PollFlags::IN)];
        poll(&mut set, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).unwrap() == 1
    }

    #[test]
    fn readable_while_what_is_watched_is() {
        let watch = Watch::new().unwrap();
        let (one, other) = (Event::new().unwrap(), Event::new().unwrap());
        watch.add(one.as_fd()).unwrap();
        watch.add(one.as_fd()).unwrap();
        assert!(!is_readable(&watch));
        other.happen();
        assert!(!is_readable(&watch));
        one.happen();
        assert!(is_readable(&watch) && is_readable(&watch));
        watch.remove(one.as_fd()).unwrap();
        watch.remove(one.as_fd()).unwrap();
        assert!(!is_readable(&watch));
        watch.add(other.as_fd()).unwrap();
        assert!(is_readable(&watch));
    }

    #[test]
    fn readable_from_a_time_on_until_it_is_armed_anew() {
        let mut watch = Watch::new().unwrap();
        watch.arm(None).unwrap();
        watch.arm(Some(Duration::from_secs(1000))).unwrap();
        assert!(!is_readable(&watch));
        watch.arm(Some(Duration::ZERO)).unwrap();
        wait(&[watch.as_fd()], None).unwrap();
        assert!(is_readable(&watch));
        watch.arm(None).unwrap();
        assert!(!is_readable(&watch));
    }

    #[test]
    fn a_wait_ends_by_its_time_or_a_descriptor() {
        let event = Event::new().unwrap();
        wait(&[event.as_fd()], Some(Duration::from_millis(1))).unwrap();
        wait(&[], Some(Duration::from_millis(1))).unwrap();
        event.happen();
        wait(&[event.as_fd()], None).unwrap();
    }
}
