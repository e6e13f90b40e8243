//! Waiting for several descriptors: in one call, or by one descriptor for an event loop.
#![allow(unsafe_code)]

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, IntoRawFd, OwnedFd, RawFd};
use std::ptr;
use std::time::Duration;

use rustix::event::epoll;
use rustix::io::Errno;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use wirelane_os::{OsError, Result};

/// Waits until one of `descriptors` is readable or has an error, `timeout` has passed, or a signal
/// comes; true if it is the first. Without a timeout it waits for ever.
///
/// `pthread_cancel` ends the thread here, as it does in the poll(2) of other libraries.
///
/// # Errors
/// What ppoll(2) gives; EBADF if one of them is not open.
pub(crate) fn wait(descriptors: &[BorrowedFd<'_>], timeout: Option<Duration>) -> Result<bool> {
    let events = libc::POLLIN | libc::POLLERR;
    let entry = |fd: &BorrowedFd<'_>| libc::pollfd { fd: fd.as_raw_fd(), events, revents: 0 };
    let mut set: Vec<_> = descriptors.iter().map(entry).collect();
    // What does not fit is as good as for ever.
    let time = timeout.and_then(|timeout| {
        let tv_sec = timeout.as_secs().try_into().ok()?;
        Some(libc::timespec { tv_sec, tv_nsec: timeout.subsec_nanos().into() })
    });
    let time = time.as_ref().map_or(ptr::null(), ptr::from_ref);
    // SAFETY: the set and the time live until the call returns, and the length is that of the set.
    let found = unsafe { ppoll(set.as_mut_ptr(), set.len() as libc::nfds_t, time, ptr::null()) };
    if set.iter().any(|entry| entry.revents & libc::POLLNVAL != 0) {
        let error = std::io::Error::from_raw_os_error(libc::EBADF);
        return Err(OsError::new("ppoll", "", error));
    }
    if found >= 0 {
        return Ok(set.first().is_some_and(|first| first.revents != 0));
    }
    let error = OsError::last("ppoll", "");
    if error.errno() == Some(libc::EINTR) { Ok(false) } else { Err(error) }
}

unsafe extern "C-unwind" {
    /// As in the C library. It unwinds when the thread is cancelled.
    fn ppoll(
        set: *mut libc::pollfd,
        count: libc::nfds_t,
        timeout: *const libc::timespec,
        signals: *const libc::sigset_t,
    ) -> libc::c_int;
}

/// A descriptor that is readable while one of several others is, or from a given time on (epoll
/// with a timerfd).
#[derive(Debug)]
pub(crate) struct WaitDescriptor {
    /// Foreign code that was given it may have closed it.
    epoll: RawFd,
    timer: OwnedFd,
    is_armed: bool,
}

impl WaitDescriptor {
    /// One that watches nothing.
    ///
    /// # Errors
    /// The process has no descriptor left.
    pub(crate) fn new() -> Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)
            .map_err(|errno| OsError::new("epoll_create1", "", errno))?;
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags)
            .map_err(|errno| OsError::new("timerfd_create", "", errno))?;
        let watch = Self { epoll: epoll.into_raw_fd(), timer, is_armed: false };
        watch.add(watch.timer.as_fd())?;
        Ok(watch)
    }

    /// Watches `fd` as well.
    ///
    /// # Errors
    /// What epoll_ctl(2) gives.
    pub(crate) fn add(&self, fd: BorrowedFd<'_>) -> Result<()> {
        let data = epoll::EventData::new_u64(0);
        match epoll::add(self.as_fd(), fd, data, epoll::EventFlags::IN) {
            Ok(()) | Err(Errno::EXIST) => Ok(()),
            Err(errno) => Err(OsError::new("epoll_ctl", "EPOLL_CTL_ADD", errno)),
        }
    }

    /// Watches `fd` no more, if it did; what is closed was forgotten then.
    ///
    /// # Errors
    /// What epoll_ctl(2) gives.
    pub(crate) fn remove(&self, fd: RawFd) -> Result<()> {
        // SAFETY: takes numbers and reads no event; the kernel finds out whether the descriptor is
        // open.
        let removed =
            unsafe { libc::epoll_ctl(self.epoll, libc::EPOLL_CTL_DEL, fd, ptr::null_mut()) };
        if removed == 0 {
            return Ok(());
        }
        let error = OsError::last("epoll_ctl", "EPOLL_CTL_DEL");
        match error.errno() {
            Some(libc::ENOENT | libc::EBADF) => Ok(()),
            _ => Err(error),
        }
    }

    /// Is readable from `after` now on, whatever else is watched; `None`: only for what is watched.
    ///
    /// # Errors
    /// What timerfd_settime(2) gives.
    pub(crate) fn arm(&mut self, after: Option<Duration>) -> Result<()> {
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

impl AsFd for WaitDescriptor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: not -1. Who has closed it gets errors, as with any number of a descriptor.
        unsafe { BorrowedFd::borrow_raw(self.epoll) }
    }
}

impl Drop for WaitDescriptor {
    fn drop(&mut self) {
        // SAFETY: it is ours. If it was closed already, this fails.
        unsafe { libc::close(self.epoll) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{PollFd, PollFlags, poll};
    use wirelane_os::event::Event;

    fn is_readable(watch: &WaitDescriptor) -> bool {
        let mut set = [PollFd::new(watch, PollFlags::IN)];
        poll(&mut set, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).unwrap() == 1
    }

    #[test]
    fn readable_while_what_is_watched_is() {
        let watch = WaitDescriptor::new().unwrap();
        let (one, other) = (Event::new().unwrap(), Event::new().unwrap());
        watch.add(one.as_fd()).unwrap();
        watch.add(one.as_fd()).unwrap();
        assert!(!is_readable(&watch));
        other.happen();
        assert!(!is_readable(&watch));
        one.happen();
        assert!(is_readable(&watch) && is_readable(&watch));
        watch.remove(one.as_fd().as_raw_fd()).unwrap();
        watch.remove(one.as_fd().as_raw_fd()).unwrap();
        watch.remove(-1).unwrap();
        assert!(!is_readable(&watch));
        watch.add(other.as_fd()).unwrap();
        assert!(is_readable(&watch));
    }

    #[test]
    fn readable_from_a_time_on_until_it_is_armed_anew() {
        let mut watch = WaitDescriptor::new().unwrap();
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
        let other = Event::new().unwrap();
        let both = [event.as_fd(), other.as_fd()];
        assert!(!wait(&both, Some(Duration::from_millis(1))).unwrap());
        assert!(!wait(&[], Some(Duration::from_millis(1))).unwrap());
        other.happen();
        assert!(!wait(&both, None).unwrap());
        event.happen();
        assert!(wait(&both, None).unwrap());
        // SAFETY: a number that no process has as a descriptor.
        let closed = unsafe { BorrowedFd::borrow_raw(i32::MAX) };
        assert_eq!(wait(&[both[0], closed], None).unwrap_err().errno(), Some(libc::EBADF));
    }
}
