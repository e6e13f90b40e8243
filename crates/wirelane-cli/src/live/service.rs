//! Tells a service manager such as systemd that the command receives, ends, or still works:
//! sd_notify(3) and its watchdog. Without a service manager, nothing happens.
//!
//! The watchdog is fed only while every receiving thread makes rounds. A thread that is stuck, or a
//! stuck main thread, ends the feeding: the service manager then ends the command and starts it
//! again.

use std::env;
use std::ffi::OsStr;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::{Duration, Instant};

/// The longest wait for room in the service manager's socket.
const PATIENCE: Duration = Duration::from_secs(1);

/// The interval of the lines for `systemctl status`.
const STATUS: Duration = Duration::from_secs(10);

/// The rounds of each receiving thread; `None` after its end.
type Rounds = Vec<Option<u64>>;

/// The connection to the service manager, if there is one.
pub(super) struct Service {
    socket: Option<UnixDatagram>,
    watchdog: Option<Watchdog>,
    last_status: Instant,
}

impl Service {
    /// As the environment says: `NOTIFY_SOCKET`, `WATCHDOG_USEC` and `WATCHDOG_PID`.
    pub(super) fn of_environment() -> Self {
        let number = |name| env::var(name).ok()?.parse::<u64>().ok();
        let is_other =
            number("WATCHDOG_PID").is_some_and(|pid| pid != u64::from(std::process::id()));
        let timeout = number("WATCHDOG_USEC").filter(|time| *time > 0 && !is_other);
        let socket = env::var_os("NOTIFY_SOCKET").and_then(|name| connect(&name));
        Self::new(socket, timeout.map(Duration::from_micros))
    }

    fn new(socket: Option<UnixDatagram>, timeout: Option<Duration>) -> Self {
        let watchdog = timeout.filter(|_| socket.is_some()).map(Watchdog::new);
        Self { socket, watchdog, last_status: Instant::now() }
    }

    /// The longest pause between two calls of [`Service::tick`].
    pub(super) fn pace(&self) -> Duration {
        self.watchdog.as_ref().map_or(Duration::MAX, |watchdog| watchdog.interval / 2)
    }

    /// All ports receive or send.
    pub(super) fn ready(&self, status: &str) {
        self.send(&format!("READY=1\nSTATUS={}", one_line(status)));
    }

    /// Some time has passed. Feeds the watchdog if a feed is due and all threads work. Sends a
    /// status line every 10 seconds.
    pub(super) fn tick(
        &mut self,
        now: Instant,
        rounds: impl Fn() -> Rounds,
        status: impl Fn() -> String,
    ) {
        if self.socket.is_none() {
            return;
        }
        if self.watchdog.as_mut().is_some_and(|watchdog| watchdog.is_due(now, rounds)) {
            self.send("WATCHDOG=1");
        }
        if now.saturating_duration_since(self.last_status) >= STATUS {
            self.last_status = now;
            self.send(&format!("STATUS={}", one_line(&status())));
        }
    }

    /// The command ends: it writes the received packets, and closes its files.
    pub(super) fn stopping(&self) {
        self.send("STOPPING=1\nSTATUS=stopping");
    }

    /// The service manager may be gone: the command works without it.
    fn send(&self, text: &str) {
        if let Some(socket) = &self.socket {
            let _ = socket.send(text.as_bytes());
        }
    }
}

/// A socket to the service manager: a path, or a name in the abstract namespace after `@`.
fn connect(name: &OsStr) -> Option<UnixDatagram> {
    let address = match name.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name),
        [b'/', ..] => SocketAddr::from_pathname(name),
        // Of a virtual machine (`vsock:`), or unknown.
        _ => return None,
    };
    let socket = UnixDatagram::unbound().ok()?;
    socket.connect_addr(&address.ok()?).ok()?;
    socket.set_write_timeout(Some(PATIENCE)).ok()?;
    Some(socket)
}

/// Text without line ends, which would begin another assignment.
fn one_line(text: &str) -> String {
    text.replace(char::is_control, " ")
}

/// Decides when to feed the watchdog.
struct Watchdog {
    /// Between two feeds.
    interval: Duration,
    last: Option<Instant>,
    seen: Rounds,
}

impl Watchdog {
    /// sd_watchdog_enabled(3) recommends half of `timeout`. A third leaves room for a late feed.
    fn new(timeout: Duration) -> Self {
        Self { interval: timeout / 3, last: None, seen: Rounds::new() }
    }

    /// Whether to feed now: the interval has passed, and all threads have made rounds since the
    /// last feed, or have ended.
    fn is_due(&mut self, now: Instant, rounds: impl Fn() -> Rounds) -> bool {
        let is_early = |last| now.saturating_duration_since(last) < self.interval;
        if self.last.is_some_and(is_early) {
            return false;
        }
        let rounds = rounds();
        let is_stuck = |(now, before): (&Option<u64>, &Option<u64>)| now.is_some() && now == before;
        if rounds.iter().zip(&self.seen).any(is_stuck) {
            return false;
        }
        (self.last, self.seen) = (Some(now), rounds);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The service manager's side, and a service with this watchdog.
    fn pair(timeout: Duration) -> (UnixDatagram, Service) {
        let (manager, socket) = UnixDatagram::pair().unwrap();
        manager.set_nonblocking(true).unwrap();
        (manager, Service::new(Some(socket), Some(timeout)))
    }

    fn received(manager: &UnixDatagram) -> Vec<String> {
        let mut buffer = [0; 4096];
        let next = || {
            let length = manager.recv(&mut buffer).ok()?;
            Some(String::from_utf8(buffer[..length].to_vec()).unwrap())
        };
        std::iter::from_fn(next).collect()
    }

    #[test]
    fn a_thread_without_rounds_ends_the_feeding_until_it_works_again() {
        let (manager, mut service) = pair(Duration::from_secs(30));
        let start = Instant::now();
        let mut feeds = |seconds, rounds: &[Option<u64>]| {
            let now = start + Duration::from_secs(seconds);
            service.tick(now, || rounds.to_vec(), String::new);
            received(&manager).iter().filter(|text| *text == "WATCHDOG=1").count()
        };
        assert_eq!(feeds(0, &[Some(1), Some(1)]), 1);
        // Too early, and then in time.
        assert_eq!(feeds(9, &[Some(5), Some(5)]), 0);
        assert_eq!(feeds(10, &[Some(6), Some(6)]), 1);
        // The second thread is stuck, however long the first one works.
        assert_eq!(feeds(20, &[Some(9), Some(6)]), 0);
        assert_eq!(feeds(40, &[Some(20), Some(6)]), 0);
        // It works again, and then ends.
        assert_eq!(feeds(41, &[Some(21), Some(7)]), 1);
        assert_eq!(feeds(51, &[Some(30), None]), 1);
        assert_eq!(feeds(61, &[Some(40), None]), 1);
        assert_eq!(feeds(71, &[Some(40), None]), 0);
        // Without receiving threads, the main thread is enough.
        assert_eq!(feeds(81, &[]), 1);
    }

    #[test]
    fn messages_have_one_status_line() {
        let (manager, mut service) = pair(Duration::from_secs(3600));
        service.ready("recording x\nREADY=0");
        service.tick(Instant::now() + STATUS, Rounds::new, || "7 packets".into());
        service.stopping();
        assert_eq!(
            received(&manager),
            [
                "READY=1\nSTATUS=recording x READY=0",
                "WATCHDOG=1",
                "STATUS=7 packets",
                "STOPPING=1\nSTATUS=stopping"
            ]
        );
        // The manager is gone.
        drop(manager);
        service.stopping();
    }

    #[test]
    fn names_are_paths_or_abstract() {
        for name in ["", "relative", "vsock:2:1234", "/no/such/socket"] {
            assert!(connect(OsStr::new(name)).is_none(), "{name}");
        }
        let name = format!("wirelane-test-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        let manager = UnixDatagram::bind_addr(&address).unwrap();
        let socket = connect(OsStr::new(&format!("@{name}")));
        Service::new(socket, None).stopping();
        manager.set_nonblocking(true).unwrap();
        assert_eq!(received(&manager), ["STOPPING=1\nSTATUS=stopping"]);
    }
}
