//! Children that start with default signals, and end with their parent.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, getpid, getppid, kill_process_group,
    set_parent_process_death_signal, waitid,
};

/// Makes the kernel end the child (SIGKILL) when the thread that starts it ends in any way: start
/// it from a thread that waits for it.
pub fn end_with_thread(command: &mut Command) -> &mut Command {
    let parent = getpid();
    let ask = move || {
        set_parent_process_death_signal(Some(Signal::KILL))?;
        // The parent may have ended before the request.
        match getppid() == Some(parent) {
            true => Ok(()),
            false => Err(io::ErrorKind::NotFound.into()),
        }
    };
    // SAFETY: between fork and exec only functions that are safe in signal handlers may be called.
    // The closure makes two system calls, and allocates nothing.
    unsafe { command.pre_exec(ask) }
}

/// Gives the child the default action for every signal, with no signal blocked.
///
/// A background process of a script ignores SIGINT and SIGQUIT, a process under nohup(1) ignores
/// SIGHUP, and children inherit that (execve(2)). Not even a shell can undo it (POSIX, `trap`), so
/// ^C would never reach such a child.
pub fn default_signals(command: &mut Command) -> &mut Command {
    let reset = || {
        // Refused for SIGKILL and SIGSTOP, whose action is fixed, and for the two signals that the
        // C library reserves, which every program sets when it needs them.
        for signal in 1..=libc::SIGRTMAX() {
            // SAFETY: sets a disposition that takes no code of this process.
            unsafe { libc::signal(signal, libc::SIG_DFL) };
        }
        // SAFETY: both functions are given memory of the right type, which the first one fills.
        let status = unsafe {
            let mut none = std::mem::zeroed();
            libc::sigemptyset(&mut none);
            libc::sigprocmask(libc::SIG_SETMASK, &none, std::ptr::null_mut())
        };
        if status == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    };
    // SAFETY: signal(), sigemptyset() and sigprocmask() are safe between fork and exec
    // (signal-safety(7)), and nothing is allocated.
    unsafe { command.pre_exec(reset) }
}

/// [`default_signals`], and a separate process group for the child, so that only this process sends
/// it signals: neither ^C nor the end of the terminal reaches it, and [`end`] also reaches the
/// child's descendants.
pub fn independent(command: &mut Command) -> &mut Command {
    default_signals(command).process_group(0)
}

/// Ends the [`independent`] `child` and its descendants: sends SIGTERM, and SIGKILL after `grace`.
/// A child that was already waited for is left alone.
///
/// # Errors
/// The errors of waitid(2).
pub fn end(child: &mut Child, grace: Duration) -> io::Result<ExitStatus> {
    if let Some(status) = child.try_wait()? {
        return Ok(status);
    }
    // The child was not waited for, so its ID still belongs to it.
    let group = Pid::from_child(child);
    let _ = kill_process_group(group, Signal::TERM);
    let deadline = Instant::now() + grace;
    while is_running(group)? && Instant::now() < deadline {
        thread::sleep(POLL);
    }
    // Also after the child has ended: its descendants may still run.
    let _ = kill_process_group(group, Signal::KILL);
    child.wait()
}

const POLL: Duration = Duration::from_millis(2);

/// Whether the child runs; its ID stays reserved until it is waited for.
fn is_running(child: Pid) -> io::Result<bool> {
    let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    Ok(waitid(WaitId::Pid(child), look)?.is_none())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::io::Read;
    use std::process::Stdio;

    /// Starts a script that prints `up` when it is ready.
    fn start(script: &str) -> Child {
        let mut command = Command::new("sh");
        command.args(["-c", script]).stdout(Stdio::piped());
        let mut child = independent(&mut command).spawn().unwrap();
        child.stdout.as_mut().unwrap().read_exact(&mut [0; 3]).unwrap();
        child
    }

    /// A child does not inherit the signal settings of a script, a parent that ignores signals, or
    /// a thread that blocks them.
    #[test]
    fn a_child_begins_with_default_signals_whatever_its_parent_ignores_and_blocks() {
        let signals = |begin: bool| {
            let mut command = Command::new("cat");
            command.arg("/proc/self/status");
            let inherit = || {
                // SAFETY: as in `default_signals`.
                unsafe {
                    for signal in [libc::SIGINT, libc::SIGQUIT, libc::SIGHUP, libc::SIGUSR1] {
                        libc::signal(signal, libc::SIG_IGN);
                    }
                    let mut all = std::mem::zeroed();
                    libc::sigfillset(&mut all);
                    libc::sigprocmask(libc::SIG_SETMASK, &all, std::ptr::null_mut());
                }
                Ok(())
            };
            // SAFETY: as above. It stands for the parent.
            unsafe { command.pre_exec(inherit) };
            if begin {
                default_signals(&mut command);
            }
            let status = String::from_utf8(command.output().unwrap().stdout).unwrap();
            ["SigIgn:", "SigBlk:"].map(|name| {
                let mask = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
                u64::from_str_radix(mask.trim(), 16).unwrap()
            })
        };
        assert!(signals(false).iter().all(|mask| mask & 1 << (libc::SIGINT - 1) != 0));
        // Without 32 and 33, which the C library reserves.
        assert_eq!(signals(true).map(|mask| mask & !(0b11 << 31)), [0, 0]);
    }

    #[test]
    fn a_child_is_asked_to_end_before_it_is_ended() {
        let patience = Duration::from_secs(60);
        let mut polite = start("trap 'exit 7' TERM; echo up; while :; do sleep 0.01; done");
        assert_eq!(end(&mut polite, patience).unwrap().code(), Some(7));
        // A second call: the child was already waited for.
        assert_eq!(end(&mut polite, patience).unwrap().code(), Some(7));
        let mut deaf = start("trap '' TERM; echo up; while :; do sleep 0.01; done");
        let ended = end(&mut deaf, Duration::from_millis(20)).unwrap();
        assert_eq!(std::os::unix::process::ExitStatusExt::signal(&ended), Some(libc::SIGKILL));
    }

    /// Also a descendant that ignores the signal, of a child that does not.
    #[test]
    fn what_a_child_has_started_ends_with_it() {
        let script = "sh -c 'trap \"\" TERM; echo up $$; while :; do sleep 0.01; done' & \
                      trap 'exit 0' TERM; while :; do sleep 0.01; done";
        let mut child = start(script);
        let mut grandchild = Vec::new();
        let out = child.stdout.as_mut().unwrap();
        while grandchild.last() != Some(&b'\n') {
            let mut byte = [0];
            out.read_exact(&mut byte).unwrap();
            grandchild.push(byte[0]);
        }
        let stat = format!("/proc/{}/stat", String::from_utf8(grandchild).unwrap().trim());
        let lives = || fs::read_to_string(&stat).is_ok_and(|stat| !stat.contains(") Z "));
        assert!(lives());
        end(&mut child, Duration::from_secs(60)).unwrap();
        let deadline = Instant::now() + Duration::from_secs(20);
        while lives() {
            assert!(Instant::now() < deadline, "it lives on");
            thread::sleep(POLL);
        }
    }

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
