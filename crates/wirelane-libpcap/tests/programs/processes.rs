//! The kernel's view of running programs.

use std::collections::HashSet;
use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use wirelane_testkit::process::ChildGuard;

/// The process `root` and all its descendants.
pub(crate) fn tree(root: u32) -> Vec<u32> {
    let all: Vec<(u32, u32)> = fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter_map(|pid| Some((pid, stat(pid)?.parent)))
        .collect();
    let mut found = vec![root];
    let mut next = 0;
    while let Some(&parent) = found.get(next) {
        found.extend(all.iter().filter(|(_, of)| *of == parent).map(|(pid, _)| *pid));
        next += 1;
    }
    found
}

/// The number of bound and running packet sockets of `root` and its descendants.
pub(crate) fn packet_sockets(root: u32) -> usize {
    let Ok(table) = fs::read_to_string(format!("/proc/{root}/net/packet")) else { return 0 };
    let sockets: HashSet<String> = tree(root).into_iter().flat_map(sockets).collect();
    // sk RefCnt Type Proto Iface R Rmem User Inode
    let rows = table.lines().skip(1).map(|line| line.split_whitespace().collect::<Vec<_>>());
    rows.filter(|row| row.len() == 9 && row[5] == "1" && sockets.contains(row[8])).count()
}

/// Whether `root` or one of its descendants has loaded the library `file`.
pub(crate) fn has_loaded(root: u32, file: &Path) -> bool {
    let file = file.to_string_lossy();
    let maps = |pid| fs::read_to_string(format!("/proc/{pid}/maps"));
    tree(root).into_iter().any(|pid| maps(pid).is_ok_and(|maps| maps.contains(&*file)))
}

/// Waits until nothing has happened in a program for `rest`: it has read all packets.
///
/// A program that is never quiet is no longer waited for after a few times `rest`.
pub(crate) fn wait_until_quiet(child: &mut ChildGuard, rest: Duration) {
    let start = Instant::now();
    let mut quiet = Quiet::new();
    while quiet.time(child.id()) < rest && start.elapsed() < 4 * rest && child.is_running() {
        thread::sleep(Duration::from_millis(20));
    }
}

/// Measures how long a program has been idle. A runnable program is not idle.
pub(crate) struct Quiet {
    since: Instant,
    cpu_time: u64,
}

impl Quiet {
    pub(crate) fn new() -> Self {
        Self { since: Instant::now(), cpu_time: 0 }
    }

    /// How long `root` and its descendants have been idle.
    pub(crate) fn time(&mut self, root: u32) -> Duration {
        let states: Vec<Stat> = tree(root).into_iter().filter_map(stat).collect();
        let time = states.iter().map(|stat| stat.time).sum();
        if time != self.cpu_time || states.iter().any(|stat| stat.runs) {
            *self = Self { since: Instant::now(), cpu_time: time };
        }
        self.since.elapsed()
    }
}

struct Stat {
    parent: u32,
    runs: bool,
    /// CPU time in ticks.
    time: u64,
}

/// The required parts of `/proc/PID/stat`.
fn stat(pid: u32) -> Option<Stat> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name, in parentheses, may contain any characters.
    let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
    let number = |index: usize| fields.get(index)?.parse::<u64>().ok();
    Some(Stat {
        parent: u32::try_from(number(1)?).ok()?,
        runs: fields.first().is_some_and(|state| matches!(*state, "R" | "D")),
        time: number(11)? + number(12)?,
    })
}

/// The inodes of a process's sockets.
fn sockets(pid: u32) -> Vec<String> {
    let Ok(entries) = fs::read_dir(format!("/proc/{pid}/fd")) else { return Vec::new() };
    let links = entries.flatten().filter_map(|entry| fs::read_link(entry.path()).ok());
    links
        .filter_map(|link| {
            Some(link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned())
        })
        .collect()
}
