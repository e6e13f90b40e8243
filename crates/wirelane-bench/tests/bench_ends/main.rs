//! However a benchmark ends, it leaves only its report.
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
/// How long any step may take on a busy machine before a test gives up.
const PATIENCE: Duration = Duration::from_secs(120);
/// The environment variable of a benchmark and of every program that it starts. Its value is
/// `TEST-NUMBER`: the test process, and the number of its benchmark.
const MARK: &str = "WIRELANE_TEST_BENCHMARK=";
/// Each `lab down` removes the remains of any killed benchmark, so a test that checks the list of
/// removed objects must run alone.
static WITHOUT_LAB_DOWN: Mutex<()> = Mutex::new(());

/// A running benchmark, and the objects that it was seen to hold.
struct Bench {
    child: ChildGuard,
    pid: u32,
    mark: String,
    /// Its working directory. It may write to `disk` only.
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

    /// Lets it run for `time`, or to its end, and notes the objects that it holds.
    fn watch(&mut self, time: Duration) {
        let begin = Instant::now();
        while begin.elapsed() < time && self.child.is_running() {
            self.note();
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// Notes the BPF programs and the network namespaces that it holds now.
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

    /// Checks that none of its objects is left. The kernel takes time to destroy unreferenced
    /// objects.
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
        // The directory of DPDK, if DPDK takes part.
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

    /// The directories in /proc of its processes: the benchmark, and the programs that it started.
    fn processes(&self) -> Vec<PathBuf> {
        let is_own = |process: &PathBuf| mark_of(process).as_ref() == Some(&self.mark);
        entries(Path::new("/proc")).into_iter().filter(is_own).collect()
    }

    /// The namespaces of all processes, and mounted namespaces. Benchmarks of other tests are
    /// ignored: the kernel reuses the numbers of destroyed namespaces.
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

    /// Checks that the folder that it may write to has its report at most.
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

/// The command that it runs. It also removes the remains of killed benchmarks.
fn wirelane() -> PathBuf {
    let path = Path::new(BENCH).with_file_name("wirelane");
    assert!(path.is_file(), "no {}: cargo build -p wirelane-cli", path.display());
    path
}

/// The name of a benchmark's objects: its process, and its PID namespace.
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

/// The network namespaces that a process is in or holds open.
fn namespaces_of(process: &Path) -> BTreeSet<u64> {
    let mut links = entries(&process.join("fd"));
    links.extend(entries(&process.join("task")).into_iter().map(|thread| thread.join("ns/net")));
    let target = |link: PathBuf| {
        let target = fs::read_link(link).ok()?;
        target.to_str()?.strip_prefix("net:[")?.strip_suffix(']')?.parse().ok()
    };
    links.into_iter().filter_map(target).collect()
}

/// The benchmark of a process, if the process runs and belongs to one.
fn mark_of(process: &Path) -> Option<String> {
    // The environment of an ended process is empty.
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

/// The suites. A suite without a lab or a file leaves little: `all` runs these once.
const CAPTURE: &[&str] = &["capture", "--quick", "--disk", "disk"];
const SOCKETS: &[&str] = &["sockets", "--quick", "--case", "rxdrop", "--case", "xdp-drop"];
const SCALING: &[&str] =
    &["scaling", "--quick", "--case", "rx", "--case", "capture", "--disk", "disk"];
const GSO: &[&str] = &["gso", "--quick", "--cpu", "50"];
const NOLOSS: &[&str] = &["noloss", "--quick"];
/// Wirelane and all other programs are started one after the other.
const SEND: &[&str] =
    &["send", "--quick", "--size", "64", "--case", "generate", "--case", "timing"];
/// Wirelane and all other programs are started one after the other, and a store exists for a while.
const RECORD: &[&str] = &["record", "--quick", "--disk", "disk"];
/// The other programs record soon after the start.
const RECORD_COST: &[&str] = &["record", "--quick", "--disk", "disk", "--case", "cost"];
/// Programs are compiled. Wirelane's and the system's libpcap are used in turns.
const LIBPCAP: &[&str] = &["libpcap", "--quick"];
const QDISC: &[&str] = &["qdisc", "--quick"];
const FILTER: &[&str] = &["filter", "--quick"];
/// Several suites that end soon.
const ALL: &[&str] = &[
    "all", "--quick", "--report", "disk", "--suite", "noloss", "--suite", "scaling", "--suite",
    "filter",
];
/// Another program is started early, with an interface and an XDP program on it.
const SOCKETS_WITH_PEER: &[&str] = &["sockets", "--quick", "--case", "rxdrop", "--size", "64"];
/// Another program is started early, and its output is read.
const ALL_WITH_PEER: &[&str] = &["all", "--quick", "--report", "disk", "--suite", "qdisc"];

/// The moment at which a benchmark is ended.
#[derive(Clone, Copy, Debug)]
enum Moment {
    /// This number of milliseconds after its start.
    After(u64),
    /// When this other program runs.
    Beside(&'static str),
}

use Moment::{After, Beside};

impl Bench {
    /// Lets it run until `moment`. False if the other program is not installed.
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
            // Each program is first started to print its version.
            let words = fs::read(process.join("cmdline")).unwrap_or_default();
            let mut words = words.split(|byte| *byte == 0);
            found.trim_end() == short && !words.any(|word| word == b"--version")
        })
    }
}

// Two tests, because each waits most of the time.
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

/// Runs suites to their ends and returns the reports.
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
            // The report has the results so far.
            let report = bench.directory.path().join("disk/report.json");
            assert!(suite[0] != "all" || report.exists(), "{suite:?}");
        }
    }
}

/// `wirelane lab down` removes named objects, also when no lab is up.
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
            // The benchmark is stopped before the kill, so that its last objects are noted.
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

/// A kill between making a folder and opening a file in it leaves the folder.
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
    // The cgroup still has a member, like the kernel's threads while it destroys their objects.
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
