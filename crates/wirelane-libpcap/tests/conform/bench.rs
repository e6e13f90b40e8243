//! Compiles the suite and runs it in a separate network namespace.

use std::fs;
use std::hash::{DefaultHasher, Hasher};
use std::path::{Path, PathBuf};
use std::process::{self, Command, ExitStatus};
use std::sync::Mutex;
use std::time::Duration;

use tempfile::TempDir;
use wirelane_os::iface::wait_until_running;
use wirelane_testkit::c;
use wirelane_testkit::libpcap::{self, Library};
use wirelane_testkit::netns::Namespace;
use wirelane_testkit::process::{ChildGuard, Output, output, run};
use wirelane_testkit::veth::VethPair;

/// Longer than the limit of any test in the suite.
const PATIENCE: Duration = Duration::from_secs(90);
/// Valgrind is slow, and the machine may be busy.
const LONG_PATIENCE: Duration = Duration::from_secs(280);

/// The suite under ThreadSanitizer, whose tests have longer limits.
const LONGEST_PATIENCE: Duration = Duration::from_secs(1500);

/// The compiled suite.
pub(crate) struct Suite {
    program: PathBuf,
}

/// The drop-in, built for ThreadSanitizer.
pub(crate) struct Sanitized {
    pub(crate) library: PathBuf,
    /// The sanitizer's own library, of the compiler that built the other one.
    pub(crate) runtime: PathBuf,
}

/// A test of the suite.
pub(crate) struct Test {
    pub(crate) group: String,
    pub(crate) name: String,
    pub(crate) functions: Vec<String>,
}

/// The result of a test.
pub(crate) struct Run {
    pub(crate) answers: Vec<String>,
    pub(crate) kept_the_rules: bool,
    pub(crate) status: ExitStatus,
    pub(crate) stderr: String,
}

/// The suite and the interfaces that it uses: a cable with both ends in one namespace.
pub(crate) struct Bench {
    pub(crate) suite: Suite,
    ns: Namespace,
    cable: VethPair,
}

impl Suite {
    /// Compiled once for all tests; the name depends on the sources.
    pub(crate) fn compile() -> Self {
        // Two threads of one process would write the same file.
        static COMPILING: Mutex<()> = Mutex::new(());
        let _alone = COMPILING.lock();
        let mut hasher = DefaultHasher::new();
        for path in files(&sources(), "") {
            hasher.write(&fs::read(path).unwrap());
        }
        let name = format!("suite-{:016x}", hasher.finish());
        let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(&name);
        if !program.exists() {
            let own = program.with_file_name(format!("{name}-{}", process::id()));
            let mut args = files(&sources(), ".c");
            args.push("-lpcap".into());
            c::compile("gcc", &own, args);
            fs::rename(own, &program).unwrap();
        }
        Self { program }
    }

    /// Instruments with the C compiler, and links the runtime of the compiler that built the
    /// drop-in: a process has one runtime.
    pub(crate) fn compile_sanitized(runtime: &Path, directory: &Path) -> Self {
        let mut compile = Command::new("gcc");
        compile.args([
            "-std=c11",
            "-D_GNU_SOURCE",
            "-O1",
            "-g",
            "-pthread",
            "-fsanitize=thread",
            "-c",
        ]);
        run(compile.args(files(&sources(), ".c")).current_dir(directory));
        let program = directory.join("suite");
        let mut link = Command::new("gcc");
        link.arg("-o").arg(&program).args(files(directory, ".o"));
        link.arg("-Wl,--whole-archive").arg(runtime).args(["-Wl,--no-whole-archive", "-rdynamic"]);
        run(link.args(["-lpthread", "-ldl", "-lm", "-lrt", "-lpcap"]));
        Self { program }
    }

    pub(crate) fn tests(&self) -> Vec<Test> {
        let list = run(Command::new(&self.program).arg("list"));
        let test = |line: &str| {
            let mut words = line.split_whitespace().map(str::to_owned);
            let [group, name] = [words.next(), words.next()].map(Option::unwrap);
            Test { group, name, functions: words.collect() }
        };
        list.lines().map(test).collect()
    }
}

fn sources() -> PathBuf {
    concat!(env!("CARGO_MANIFEST_DIR"), "/tests/conform/suite").into()
}

/// The files of a directory whose names have this suffix.
fn files(directory: &Path, end: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = entries.filter(|path| path.to_string_lossy().ends_with(end)).collect();
    files.sort();
    files
}

impl Bench {
    pub(crate) fn new(suite: Suite) -> Self {
        let ns = Namespace::new();
        let cable = VethPair::new(&ns, &ns, 4, 1500);
        ns.run("ip", ["link", "add", DOWN, "type", "veth", "peer", "name", "wldown1"]);
        Self { suite, ns, cable }
    }

    pub(crate) fn run(&self, library: Library, test: &Test) -> Run {
        let directory = tempfile::tempdir().unwrap();
        let mut command = self.ns.command(&self.suite.program);
        command.args([&test.group, &test.name]);
        let output = self.finish(library.of(&mut command), &directory, PATIENCE);
        let path = directory.path().to_string_lossy().into_owned();
        Run {
            answers: output.stdout.lines().map(|line| line.replace(&path, "DIRECTORY")).collect(),
            kept_the_rules: output.status.success(),
            status: output.status,
            stderr: output.stderr,
        }
    }

    /// Runs a group over the drop-in under valgrind, in one process.
    pub(crate) fn examine(&self, group: &str) -> Output {
        const FLAGS: [&str; 8] = [
            "--quiet",
            "--vgdb=no",
            // Children of tests exit without freeing memory.
            "--child-silent-after-fork=yes",
            "--leak-check=full",
            "--errors-for-leak-kinds=definite,indirect,possible",
            "--show-leak-kinds=definite,indirect,possible",
            "--num-callers=30",
            "--error-exitcode=99",
        ];
        let directory = tempfile::tempdir().unwrap();
        let mut command = self.ns.command("valgrind");
        command
            .args(FLAGS)
            .arg(format!("--suppressions={}", sources().with_file_name("valgrind.supp").display()));
        command.arg(&self.suite.program).args([group, "all"]);
        self.finish(Library::Ours.of(&mut command), &directory, LONG_PATIENCE)
    }

    /// Runs a group over the drop-in, in a process with a separate allocator.
    pub(crate) fn run_with_allocator(&self, group: &str) -> Output {
        let directory = tempfile::tempdir().unwrap();
        let allocator = directory.path().join("allocator.so");
        let source = sources().with_file_name("allocator.c");
        let flags = ["-shared", "-fPIC", "-fno-builtin"].map(PathBuf::from);
        c::compile("gcc", &allocator, flags.into_iter().chain([source]));
        let mut command = self.ns.command(&self.suite.program);
        let preload = [allocator, libpcap::ours()].map(|it| it.display().to_string()).join(":");
        Library::Stock.of(&mut command).env("LD_PRELOAD", preload).args([group, "all"]);
        self.finish(&mut command, &directory, PATIENCE)
    }

    /// Runs a group over the drop-in under ThreadSanitizer, in one process.
    pub(crate) fn sanitize(&self, sanitized: &Sanitized, group: &str) -> Output {
        let directory = tempfile::tempdir().unwrap();
        // `ip` must not load it: it has no such runtime.
        let mut command = self.ns.command("env");
        let preload = format!("LD_PRELOAD={}", sanitized.library.display());
        command.args([&preload, "SUITE_LIMIT_S=300"]).arg(&self.suite.program);
        Library::Stock.of(&mut command).args([group, "all"]);
        self.finish(&mut command, &directory, LONGEST_PATIENCE)
    }

    fn finish(&self, command: &mut Command, directory: &TempDir, patience: Duration) -> Output {
        // The last test may have removed it.
        let _ = output(self.ns.command("ip").args(["link", "del", DOOMED]));
        self.ns.run("ip", ["link", "add", DOOMED, "type", "veth", "peer", "name", "wldoom1"]);
        let ends = [DOOMED, "wldoom1"];
        for end in ends {
            self.ns.run("ip", ["link", "set", end, "up"]);
        }
        // Both libraries list the interfaces with the flags of this state.
        self.ns
            .inside(|| ends.map(|end| wait_until_running(end, Duration::from_secs(10)).unwrap()));
        command.args([&self.cable.a.interface, &self.cable.b.interface]);
        command.arg(directory.path()).args([DOWN, DOOMED]);
        ChildGuard::spawn(command).wait(patience)
    }
}

/// The interface that is down, and the one for a test to remove.
const DOWN: &str = "wldown0";
const DOOMED: &str = "wldoom0";
