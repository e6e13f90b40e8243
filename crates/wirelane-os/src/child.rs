//! Children that do not outlive us.

use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::process::{Signal, getpid, getppid, set_parent_process_death_signal};

/// Makes the kernel end what `command` starts (SIGKILL) when the thread that starts it ends, however that happens:
/// start it from a thread that waits for it.
pub fn end_with_thread(command: &mut Command) -> &mut Command {
    let parent = getpid();
    let ask = move || {
        set_parent_process_death_signal(Some(Signal::KILL))?;
        // The parent may have ended before the kernel was asked.
        match getppid() == Some(parent) {
            true => Ok(()),
            false => Err(std::io::ErrorKind::NotFound.into()),
        }
    };
    // SAFETY: between fork and exec only functions that are safe in signal handlers may be called. The
    // closure makes two system calls, and allocates nothing.
    unsafe { command.pre_exec(ask) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::process::Stdio;
    use std::thread;
    use std::time::{Duration, Instant};

    #[test]
    fn a_child_ends_with_its_thread() {
        let start = || {
            let mut command = Command::new("sh");
            command.args(["-c", "echo up; exec sleep 600"]).stdout(Stdio::piped());
            let mut child = end_with_thread(&mut command).spawn().unwrap();
            let mut text = [0; 3];
            child.stdout.as_mut().unwrap().read_exact(&mut text).unwrap();
            child
        };
        let mut child = thread::spawn(start).join().unwrap();
        let deadline = Instant::now() + Duration::from_secs(20);
        while child.try_wait().unwrap().is_none() {
            assert!(Instant::now() < deadline, "the child lives on");
            thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn a_child_ends_by_itself() {
        let mut command = Command::new("sh");
        let status = end_with_thread(command.args(["-c", "exit 7"])).status().unwrap();
        assert_eq!(status.code(), Some(7));
    }
}
