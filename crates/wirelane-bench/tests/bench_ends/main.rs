//! What a benchmark leaves, however it ends: nothing but its report.
#![allow(clippy::unwrap_used)]

mod capture;

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use tempfile::{TempDir, tempdir};
use wirelane_os::bpf;
use wirelane_testkit::process::{ChildGuard, run};
use wirelane_testkit::{privileged, tools};

const BENCH: &str = env!("CARGO_BIN_EXE_wirelane-bench");
/// How long anything may take on a busy machine before a test gives up.
const PATIENCE: Duration = Duration::from_secs(120);
/// What a benchmark, and every program that it starts, has in its environment: `TEST-NUMBER`, of
/// which test process, and which of its benchmarks.
const MARK: &str = "WIRELANE_TEST_BENCHMARK=";
/// Each `lab down` removes what any killed benchmark has left: one that says what it removes must
/// be alone.
static WITHOUT_LAB_DOWN: Mutex<()> = Mutex::new(());

/// A benchmark that is running, and what it was seen to hold.
struct Bench {
    child: ChildGuard,
    pid: u32,
    mark: String,
    /// Where it runs, and may write to `disk` only.
    directory: TempDir,
    interfaces: Vec<String>,
    pinned: BTreeSet<PathBuf>,
    programs: BTreeSet<u32>,
    namespaces: BTreeSet<u64>,
}

impl Bench {
    fn start(args: &[&str]) -> Self {
        let directory = tempdir().unwrap();
        fs::create_dir(directory.path().join("disk")).unwrap();
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let mark = format!("{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        let mut command = Command::new(BENCH);
        command.args(args).current_dir(&directory);
        command.env(MARK.trim_end_matches('='), &mark);
        let (interfaces, pinned) = (interfaces(), listing("/sys/fs/bpf"));
        let child = ChildGuard::spawn(&mut command);
        let pid = child.id();
        let (programs, namespaces) = (BTreeSet::new(), BTreeSet::new());
        Self { child, pid, mark, directory, interfaces, pinned, programs, namespaces }
    }

    /// Lets it run for `time`, or to its end, and notes what it holds meanwhile.
    fn watch(&mut self, time: Duration) {
        let begin = Instant::now();
        while begin.elapsed() < time && self.child.is_running() {
            self.note();
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// Notes the programs and the network namespaces that it holds now.
    fn note(&mut self) {
        let own = fs::metadata("/proc/self/ns/net").unwrap().ino();
        let directory = PathBuf::from(format!("/proc/{}", self.pid));
        for entry in entries(&directory.join("fdinfo")) {
            let text = fs::read_to_string(entry).unwrap_or_default();
            let ids = text.lines().filter_map(|line| line.strip_prefix("prog_id:"));
            self.programs.extend(ids.filter_map(|id| id.trim().parse::<u32>().ok()));
        }
        self.namespaces.extend(namespaces_of(&directory).into_iter().filter(|id| *id != own));
    }

    /// Checks that nothing of it is left. The kernel takes its time to tear down what nobody holds
    /// any more.
    #[track_caller]
    fn assert_gone(&self) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let left = self.left();
            if left.is_empty() {
                return;
            }
            assert!(Instant::now() < deadline, "left: {left:?}");
            thread::sleep(Duration::from_millis(50));
        }
    }

    fn left(&self) -> Vec<String> {
        let mut left = Vec::new();
        for name in interfaces() {
            if !self.interfaces.contains(&name) {
                left.push(format!("interface {name}"));
            }
        }
        left.extend(
            listing("/sys/fs/bpf").difference(&self.pinned).map(|path| path.display().to_string()),
        );
        for id in &self.programs {
            if bpf::program_exists(*id).unwrap() {
                left.push(format!("BPF program {id}"));
            }
        }
        let referenced = self.referenced_namespaces();
        let namespaces = self.namespaces.iter().filter(|id| referenced.contains(id));
        left.extend(namespaces.map(|id| format!("network namespace {id}")));
        let own = folder_of(self.pid);
        let mut found = cgroups(&own);
        found.extend(["/dev/shm", "/tmp", "/var/tmp"].map(|parent| Path::new(parent).join(&own)));
        // Of DPDK, which stands beside ours where it is installed.
        found.push(Path::new("/run/dpdk").join(format!("wirelane-{}", self.pid)));
        left.extend(
            found.iter().filter(|path| path.exists()).map(|path| path.display().to_string()),
        );
        for entry in entries(self.directory.path()) {
            if !entry.ends_with("disk") {
                left.push(entry.display().to_string());
            }
        }
        left.extend(self.processes().iter().map(|path| format!("process {}", path.display())));
        left
    }

    /// The folders in /proc of its processes: itself, and the programs that it started.
    fn processes(&self) -> Vec<PathBuf> {
        let is_own = |process: &PathBuf| mark_of(process).as_ref() == Some(&self.mark);
        entries(Path::new("/proc")).into_iter().filter(is_own).collect()
    }

    /// Those of all processes, and those that are mounted somewhere. Benchmarks of other tests do
    /// not count: the kernel numbers theirs as those that are gone.
    fn referenced_namespaces(&self) -> BTreeSet<u64> {
        let is_other = |process: &&PathBuf| mark_of(process).is_some_and(|mark| mark != self.mark);
        let processes = entries(Path::new("/proc"));
        let counted = processes.iter().filter(|process| !is_other(process));
        let mut found: BTreeSet<u64> = counted.flat_map(|process| namespaces_of(process)).collect();
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
        let mounted =
            mounts.lines().filter_map(|line| line.split(' ').nth(3)?.strip_prefix("net:["));
        found.extend(mounted.filter_map(|rest| rest.strip_suffix(']')?.parse::<u64>().ok()));
        found
    }

    /// What is in the folder that it may write to: its report, or nothing.
    #[track_caller]
    fn assert_report_only(&self, suite: &[&str]) {
        let mut found = entries(&self.directory.path().join("disk"));
        let is_report =
            |path: &PathBuf| path.ends_with("report.json") || path.ends_with("index.html");
        if suite[0] == "all" {
            found.retain(|path| !is_report(path));
        }
        assert_eq!(found, [] as [PathBuf; 0], "{suite:?}");
    }
}

/// The command that it runs, and that removes what killed ones left.
fn wirelane() -> PathBuf {
    let path = Path::new(BENCH).with_file_name("wirelane");
    assert!(path.is_file(), "no {}: cargo build -p wirelane-cli", path.display());
    path
}

/// The name of what a benchmark makes: the process, and the PID namespace that it is in.
fn folder_of(pid: u32) -> String {
    format!("wirelane-bench-{pid}-{}", fs::metadata("/proc/self/ns/pid").unwrap().ino())
}

fn entries(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).collect()
}

fn listing(directory: &str) -> BTreeSet<PathBuf> {
    entries(Path::new(directory)).into_iter().collect()
}

fn interfaces() -> Vec<String> {
    let table = fs::read_to_string("/proc/self/net/dev").unwrap();
    table.lines().filter_map(|line| Some(line.split_once(':')?.0.trim().to_owned())).collect()
}

/// The network namespaces that a process is in, or holds open.
fn namespaces_of(process: &Path) -> BTreeSet<u64> {
    let mut links = entries(&process.join("fd"));
    links.extend(entries(&process.join("task")).into_iter().map(|thread| thread.join("ns/net")));
    let target = |link: PathBuf| {
        let target = fs::read_link(link).ok()?;
        target.to_str()?.strip_prefix("net:[")?.strip_suffix(']')?.parse().ok()
    };
    links.into_iter().filter_map(target).collect()
}

/// To which benchmark a process belongs, if it runs and belongs to any.
fn mark_of(process: &Path) -> Option<String> {
    // Empty for one that has ended.
    let environment = fs::read(process.join("environ")).ok()?;
    let mut words = environment.split(|byte| *byte == 0);
    let mark = words.find_map(|word| word.strip_prefix(MARK.as_bytes()))?;
    Some(String::from_utf8_lossy(mark).into_owned())
}

/// All cgroups of this name.
fn cgroups(name: &str) -> Vec<PathBuf> {
    fn below(directory: &Path, name: &str, depth: u32, found: &mut Vec<PathBuf>) {
        for entry in entries(directory) {
            if depth > 0 && fs::symlink_metadata(&entry).is_ok_and(|entry| entry.is_dir()) {
                if entry.ends_with(name) {
                    found.push(entry.clone());
                }
                below(&entry, name, depth - 1, found);
            }
        }
    }
    let mut found = Vec::new();
    below(Path::new("/sys/fs/cgroup"), name, 8, &mut found);
    found
}

/// Suites, and what they are seen to hold when they have run for a while. Those without a lab or a
/// file have little to leave: `all` runs them, once.
const CAPTURE: &[&str] = &["capture", "--quick", "--disk", "disk"];
const SOCKETS: &[&str] = &["sockets", "--quick", "--case", "rxdrop", "--case", "xdp-drop"];
const SCALING: &[&str] =
    &["scaling", "--quick", "--case", "rx", "--case", "capture", "--disk", "disk"];
const GSO: &[&str] = &["gso", "--quick", "--cpu", "50"];
const NOLOSS: &[&str] = &["noloss", "--quick"];
/// Ours and all others are started one after the other.
const SEND: &[&str] =
    &["send", "--quick", "--size", "64", "--case", "generate", "--case", "timing"];
/// Ours and all others are started one after the other, and a store is there for a while.
const RECORD: &[&str] = &["record", "--quick", "--disk", "disk"];
/// The others record soon after the start.
const RECORD_COST: &[&str] = &["record", "--quick", "--disk", "disk", "--case", "cost"];
/// Programs are compiled, and ours and the system's libpcap are used in turns.
const LIBPCAP: &[&str] = &["libpcap", "--quick"];
const QDISC: &[&str] = &["qdisc", "--quick"];
const FILTER: &[&str] = &["filter", "--quick"];
/// Several of them, those that end soon.
const ALL: &[&str] = &[
    "all", "--quick", "--report", "disk", "--suite", "noloss", "--suite", "scaling", "--suite",
    "filter",
];
/// Another program takes part soon after the start. Here it has an interface, and a program on it;
const SOCKETS_WITH_PEER: &[&str] = &["sockets", "--quick", "--case", "rxdrop", "--size", "64"];
/// and here it talks with ours.
const ALL_WITH_PEER: &[&str] = &["all", "--quick", "--report", "disk", "--suite", "qdisc"];

/// When a benchmark is ended.
#[derive(Clone, Copy, Debug)]
enum Moment {
    /// So many milliseconds after its start.
    After(u64),
    /// When this other program runs beside it.
    Beside(&'static str),
}

use Moment::{After, Beside};

impl Bench {
    /// Lets it run until then. False if the other program is not installed.
    fn watch_until(&mut self, moment: Moment) -> bool {
        let name = match moment {
            After(milliseconds) => {
                self.watch(Duration::from_millis(milliseconds));
                return true;
            }
            Beside(name) => name,
        };
        if !tools::require(name) {
            return false;
        }
        let deadline = Instant::now() + 2 * PATIENCE;
        while !self.runs(name) {
            assert!(self.child.is_running() && Instant::now() < deadline, "{name} was not seen");
            self.watch(Duration::from_millis(20));
        }
        true
    }

    /// Whether it has started this program.
    fn runs(&self, name: &str) -> bool {
        let own = self.processes();
        // The kernel keeps 15 bytes of a name.
        let short = &name[..name.len().min(15)];
        own.iter().any(|process| {
            let found = fs::read_to_string(process.join("comm")).unwrap_or_default();
            // Each is asked for its version first, and does nothing then.
            let words = fs::read(process.join("cmdline")).unwrap_or_default();
            let mut words = words.split(|byte| *byte == 0);
            found.trim_end() == short && !words.any(|word| word == b"--version")
        })
    }
}

// Two tests, because most of the time of either is waiting.
#[test]
fn privileged_a_capture_benchmark_that_ends_by_itself_leaves_nothing_but_its_figures() {
    if privileged::require() {
        let report = ends_by_itself(&[CAPTURE]).remove(0);
        capture::has_its_figures(&serde_json::from_str(&report).unwrap());
    }
}

#[test]
fn privileged_a_benchmark_that_ends_by_itself_leaves_nothing() {
    if privileged::require() {
        ends_by_itself(&[SOCKETS, GSO, ALL]);
    }
}

/// The reports.
fn ends_by_itself(suites: &[&[&str]]) -> Vec<String> {
    let mut reports = Vec::new();
    for suite in suites {
        let mut bench = Bench::start(&[*suite, &["--samples", "1", "--json"]].concat());
        bench.watch(Duration::from_secs(600));
        assert!(!bench.child.is_running(), "{suite:?} takes too long");
        let status = bench.child.stderr();
        let report = bench.child.stdout();
        assert!(report.contains("\"schema\":\"wirelane.bench/1\""), "{suite:?}: {status}");
        reports.push(report);
        assert!(!bench.namespaces.is_empty(), "{suite:?} was not seen at work");
        bench.assert_report_only(suite);
        bench.assert_gone();
    }
    reports
}

#[test]
fn privileged_a_benchmark_that_is_interrupted_leaves_nothing() {
    if !privileged::require() {
        return;
    }
    for (suite, moments) in [
        (CAPTURE, &[After(30), After(700), After(2500)][..]),
        (SOCKETS, &[After(30), After(700)]),
        (SCALING, &[After(300), After(2500)]),
        (GSO, &[After(30), After(700), After(2500)]),
        (NOLOSS, &[After(700)]),
        (SEND, &[After(700), Beside("trafgen")]),
        (RECORD, &[After(2500)]),
        (RECORD_COST, &[Beside("tcpdump"), Beside("dumpcap")]),
        (LIBPCAP, &[After(300), Beside("tcpdump")]),
        (QDISC, &[After(300)]),
        (FILTER, &[After(200)]),
        (SOCKETS_WITH_PEER, &[Beside("dpdk-testpmd")]),
        (ALL_WITH_PEER, &[Beside("dpdk-test")]),
    ] {
        for moment in moments {
            let begin = Instant::now();
            let mut bench = Bench::start(suite);
            if !bench.watch_until(*moment) {
                continue;
            }
            bench.child.interrupt();
            let asked = begin.elapsed();
            bench.watch(PATIENCE);
            assert!(!bench.child.is_running(), "{suite:?} goes on after ^C");
            let ended = begin.elapsed();
            eprintln!("{suite:?}, {moment:?}: ^C at {asked:.1?}, ended at {ended:.1?}");
            bench.assert_gone();
            bench.assert_report_only(suite);
            // What was measured until then is told.
            let report = bench.directory.path().join("disk/report.json");
            assert!(suite[0] != "all" || report.exists(), "{suite:?}");
        }
    }
}

/// Then `wirelane lab down` removes what has a name, also when no lab is up.
#[test]
fn privileged_a_benchmark_that_is_killed_leaves_what_lab_down_removes() {
    if !privileged::require() {
        return;
    }
    let mut programs = 0;
    for (suite, moments) in [
        (CAPTURE, &[After(20), After(400), After(900), After(1600), After(2700)][..]),
        (SOCKETS, &[After(20), After(400), After(900)]),
        (GSO, &[After(20), After(400), After(900), After(1600), After(2700)]),
        (SCALING, &[After(400), After(2700)]),
        (NOLOSS, &[After(400), After(1500)]),
        (SEND, &[After(700), Beside("tcpreplay")]),
        (RECORD, &[After(2500)]),
        (RECORD_COST, &[Beside("tcpdump"), Beside("dumpcap")]),
        (LIBPCAP, &[After(300), Beside("tcpdump")]),
        (QDISC, &[After(300)]),
        (FILTER, &[After(200)]),
        (SOCKETS_WITH_PEER, &[Beside("dpdk-testpmd")]),
        (ALL_WITH_PEER, &[Beside("dpdk-test")]),
    ] {
        for moment in moments {
            let begin = Instant::now();
            let mut bench = Bench::start(suite);
            if !bench.watch_until(*moment) {
                continue;
            }
            // What it holds at the end, and not just before.
            bench.child.signal(Signal::STOP);
            bench.note();
            bench.child.signal(Signal::KILL);
            let killed = begin.elapsed();
            bench.watch(PATIENCE);
            assert!(!bench.child.is_running());
            programs += bench.programs.len();
            let name = format!("wlb{}", std::process::id());
            let others = WITHOUT_LAB_DOWN.lock().unwrap_or_else(PoisonError::into_inner);
            run(Command::new(wirelane()).args(["lab", "down", "--name", &name]));
            drop(others);
            bench.assert_gone();
            let gone = begin.elapsed();
            eprintln!("{suite:?}, {moment:?}: killed at {killed:.1?}, all gone at {gone:.1?}");
        }
    }
    assert!(programs > 0, "no benchmark was seen at work");
}

/// What a kill in the moment between making a folder and opening a file in it leaves.
#[test]
fn privileged_folders_and_cgroups_of_killed_benchmarks_are_removed() {
    if !privileged::require() {
        return;
    }
    let _others = WITHOUT_LAB_DOWN.lock().unwrap_or_else(PoisonError::into_inner);
    // No process has this number: it is above PID_MAX_LIMIT.
    let name = folder_of((1 << 23) + std::process::id());
    let folder = Path::new("/dev/shm").join(&name);
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("capture.pcapng"), "x").unwrap();
    let cgroup = Path::new("/sys/fs/cgroup/cpu").join(&name);
    let divided = fs::create_dir(&cgroup).is_ok();
    // Somebody is still in it, as the kernel's threads are while it tears down what they serve.
    let mut member = ChildGuard::spawn(Command::new("sleep").arg("60"));
    if divided {
        fs::write(cgroup.join("tasks"), member.id().to_string()).unwrap();
    }
    let lab = format!("wlb{}", std::process::id());
    let mut down = Command::new(wirelane());
    let said = run(down.args(["lab", "down", "--json", "--name", &lab]));
    assert!(said.contains(folder.to_str().unwrap()), "{said}");
    assert!(!folder.exists() && !cgroup.exists());
    assert!(!divided || said.contains(cgroup.to_str().unwrap()), "{said}");
    assert!(member.is_running(), "what is in it is left alone");
}
