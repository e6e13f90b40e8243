//! Lines appear at once, and a command without packets sleeps.

use std::thread;
use std::time::Instant;

use tempfile::tempdir;
use wirelane_testkit::tap::MultiQueueTap;
use wirelane_testkit::{packets, privileged};

use super::*;

impl Running {
    fn wait_for_lines(&mut self, count: usize) {
        let since = Instant::now();
        while self.child.stdout().lines().count() < count {
            let lines = self.child.stdout().lines().count();
            assert!(since.elapsed() < Duration::from_secs(20), "{lines} lines");
            thread::sleep(Duration::from_millis(20));
        }
    }
}

fn start(ns: &Namespace, args: &[&str]) -> Running {
    let mut running = Running { child: ChildGuard::spawn(ns.command(WIRELANE).args(args)) };
    running.wait_until_ready();
    running
}

#[test]
fn privileged_lines_come_within_milliseconds() {
    /// On a busy machine, this many lines may be late before one must be on time.
    const TRIES: u16 = 2000;
    if !privileged::require() {
        return;
    }
    let ns = Namespace::new();
    let tap = MultiQueueTap::new(&ns, "wl-line", 4);
    let directory = tempdir().unwrap();
    let file = directory.path().join("x.pcapng").display().to_string();
    for args in [
        &["-l", "packet:wl-line"][..],
        &["--print", "--immediate-mode", "-l", "packet:wl-line@0-3"],
        &["-l", "--print", "-w", &file, "any"],
    ] {
        let capture = start(&ns, &[&["capture", "-q", "-n"], args].concat());
        let age = |n: u16| {
            let line = format!(".{} > ", 10_000 + n);
            let sent = Instant::now();
            tap.write(usize::from(n % 4), &packets::udp4(n.into()).flow(n).build());
            while !capture.child.stdout().contains(&line) {
                assert!(sent.elapsed() < PATIENCE, "{}", capture.child.stderr());
                thread::sleep(Duration::from_micros(50));
            }
            sent.elapsed()
        };
        assert!((0..TRIES).any(|n| age(n) < Duration::from_millis(5)), "{args:?}");
        capture.child.interrupt();
        assert!(capture.child.wait(PATIENCE).status.success());
    }
}

/// Waking another thread takes longer than printing a line.
#[test]
fn privileged_immediate_lines_are_printed_by_the_thread_that_receives() {
    const PACKETS: u16 = 200;
    if !privileged::require() {
        return;
    }
    let ns = Namespace::new();
    let tap = MultiQueueTap::new(&ns, "wl-alone", 4);
    for queues in ["0", "0-3"] {
        let port = format!("packet:wl-alone@{queues}");
        let mut capture =
            start(&ns, &["capture", "-q", "-n", "--immediate-mode", "-l", &port, "udp"]);
        let of_others = || sleeps(&capture, &["wl-write", "wl-view"]);
        let (before, since) = (of_others(), Instant::now());
        for n in 0..PACKETS {
            tap.write(0, &packets::udp4(n.into()).build());
            thread::sleep(Duration::from_millis(2));
        }
        // These threads also wake up periodically.
        let most = 2 * (since.elapsed().as_millis() / 100 + 2) + u128::from(PACKETS) / 4;
        let woken = of_others() - before;
        assert!(u128::from(woken) <= most, "{queues}: woken {woken} times");
        capture.wait_for_lines(PACKETS.into());
        capture.child.interrupt();
        assert!(capture.child.wait(PATIENCE).status.success());
    }
}

/// The receiving thread does not wait for the reader. Another thread prints the rest.
#[test]
fn privileged_immediate_lines_wait_for_a_reader_and_lose_nothing() {
    const PACKETS: u16 = 6000;
    if !privileged::require() {
        return;
    }
    let ns = Namespace::new();
    let tap = MultiQueueTap::new(&ns, "wl-stall", 1);
    // The reader starts after it gets a line.
    let script = format!(
        "{WIRELANE} capture -n --immediate-mode -l packet:wl-stall udp | (read go; sleep 3; cat)"
    );
    let mut command = ns.command("sh");
    command.args(["-c", &script]);
    let mut capture = Running { child: ChildGuard::spawn(&mut command) };
    let since = Instant::now();
    while !capture.child.stderr().contains("capturing on") {
        assert!(since.elapsed() < PATIENCE, "{}", capture.child.stderr());
        thread::sleep(Duration::from_millis(20));
    }
    for n in 0..PACKETS {
        tap.write(0, &packets::udp4(n.into()).build());
        thread::sleep(Duration::from_micros(100));
    }
    // The shell has read the first line.
    capture.wait_for_lines(usize::from(PACKETS) - 1);
    let mut stop = ns.command("ip");
    assert!(stop.args(["link", "delete", "wl-stall"]).status().unwrap().success());
    drop(tap);
    let end = capture.child.wait(PATIENCE);
    assert!(
        end.stderr.contains("6,000 captured") && !end.stderr.contains("not printed"),
        "{}",
        end.stderr
    );
}

/// Without the capability, the kernel hands over blocks, which must last for a pause. In immediate
/// mode it hands over single packets, if sockets may queue enough long ones.
#[test]
fn privileged_without_cap_net_admin_a_pause_loses_no_lines() {
    const PACKETS: u16 = 300;
    /// Bytes of long packets that the port demands.
    const QUEUED: usize = 4 << 20;
    if !privileged::require() {
        return;
    }
    let ns = Namespace::new();
    let tap = MultiQueueTap::new(&ns, "wl-raw", 4);
    let limit = fs::read_to_string("/proc/sys/net/core/rmem_max").unwrap();
    let is_immediate = limit.trim().parse::<usize>().unwrap() >= QUEUED;
    for mode in [&[][..], &["--immediate-mode"]] {
        if !mode.is_empty() && !is_immediate {
            continue;
        }
        let mut command = ns.command("setpriv");
        command.args(["--bounding-set=-all,+net_raw", WIRELANE, "capture"]).args(mode);
        command.args(["-q", "-n", "-l", "packet:wl-raw", "udp"]);
        let mut capture = Running { child: ChildGuard::spawn(&mut command) };
        capture.wait_until_ready();
        capture.child.signal(rustix::process::Signal::STOP);
        for n in 0..PACKETS {
            tap.write(0, &packets::udp4(n.into()).build());
            thread::sleep(Duration::from_millis(5));
        }
        capture.child.signal(rustix::process::Signal::CONT);
        capture.wait_for_lines(PACKETS.into());
        capture.child.interrupt();
        assert!(capture.child.wait(PATIENCE).status.success());
    }
}

/// Every wake-up without packets costs: on a quiet machine the more the longer a CPU has slept.
#[test]
fn privileged_without_packets_commands_sleep() {
    const WATCHED: Duration = Duration::from_secs(4);
    if !privileged::require() {
        return;
    }
    let ns = Namespace::new();
    let _tap = MultiQueueTap::new(&ns, "wl-idle", 1);
    let directory = tempdir().unwrap();
    let place = |name: &str| directory.path().join(name).display().to_string();
    let (file, store) = (place("x.pcapng"), place("store"));
    // Commands, each with the most wake-ups per second.
    let commands: [(&[&str], u64); 5] = [
        (&["capture", "packet:wl-idle", "-w", &file], 12),
        (&["capture", "packet:wl-idle", "-l"], 14),
        (&["record", "packet:wl-idle", &store], 18),
        (&["count", "packet:wl-idle"], 10),
        (&["flows", "packet:wl-idle"], 6),
    ];
    let running: Vec<_> = commands.iter().map(|(args, _)| start(&ns, args)).collect();
    // While packets are likely, the command polls more often.
    thread::sleep(Duration::from_secs(4));
    let before: Vec<_> = running.iter().map(wake_ups).collect();
    let since = Instant::now();
    thread::sleep(WATCHED);
    let after: Vec<_> = running.iter().map(wake_ups).collect();
    // A busy machine may be late.
    let seconds = since.elapsed().as_secs() + 1;
    for (((args, most), before), after) in commands.iter().zip(before).zip(after) {
        let all = after - before;
        assert!(all <= most * seconds, "{all} wake-ups in {seconds} s of {args:?}");
    }
}

/// How often the threads of a command have gone to sleep, without the threads that answer requests.
fn wake_ups(running: &Running) -> u64 {
    switches(running, |status| {
        !["wl-control", "wl-answer"].iter().any(|name| status.contains(name))
    })
}

/// How often the threads of these names have gone to sleep.
fn sleeps(running: &Running, names: &[&str]) -> u64 {
    switches(running, |status| names.iter().any(|name| status.contains(name)))
}

fn switches(running: &Running, is_counted: impl Fn(&str) -> bool) -> u64 {
    let tasks = fs::read_dir(format!("/proc/{}/task", running.child.id())).unwrap();
    let of_task = |task: PathBuf| {
        // A thread that has ended counts 0.
        let status = fs::read_to_string(task.join("status")).unwrap_or_default();
        if status.is_empty() || !is_counted(&status) {
            return 0;
        }
        let count = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        count.unwrap().trim().parse::<u64>().unwrap()
    };
    tasks.map(|task| of_task(task.unwrap().path())).sum()
}
