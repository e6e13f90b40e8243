//! Runs processes with little memory.

use std::fs;
use std::panic::Location;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use wirelane_os::cgroup::{self, Version};

use crate::gate;

/// A cgroup with a memory limit. It is a child of the cgroup of this process, and is removed when
/// dropped.
#[derive(Debug)]
pub struct MemoryGroup(PathBuf);

impl MemoryGroup {
    /// Creates a cgroup with a memory limit of `bytes`. Returns `None` if this process may not
    /// create child cgroups, as in most containers; the test is then reported as skipped and should
    /// return.
    ///
    /// # Panics
    /// When it may not create child cgroups and `WIRELANE_REQUIRE_PRIVILEGED=1`.
    #[track_caller]
    pub fn require(bytes: u64) -> Option<Self> {
        let group = Self::new(bytes);
        if group.is_none() {
            let test = gate::test_name(Location::caller());
            let reason = "needs a cgroup whose memory this process may divide";
            assert!(
                !gate::demanded("WIRELANE_REQUIRE_PRIVILEGED"),
                "{test}: {reason}, and WIRELANE_REQUIRE_PRIVILEGED=1"
            );
            gate::skip(&test, reason);
        }
        group
    }

    fn new(bytes: u64) -> Option<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let (own, version) = cgroup::own("memory")?;
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = own.join(format!("wirelane-{}-{number}", std::process::id()));
        fs::create_dir(&path).ok()?;
        let group = Self(path);
        let limit = match version {
            Version::One => "memory.limit_in_bytes",
            Version::Two => "memory.max",
        };
        fs::write(group.0.join(limit), bytes.to_string()).ok()?;
        Some(group)
    }

    /// Returns a command that runs `command` in the cgroup.
    #[must_use]
    pub fn command(&self, command: &Command) -> Command {
        let mut inside = Command::new("sh");
        inside.args(["-c", "echo $$ > \"$0\"/cgroup.procs && exec \"$@\""]).arg(&self.0);
        inside.arg(command.get_program()).args(command.get_args());
        inside
    }
}

impl Drop for MemoryGroup {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}
