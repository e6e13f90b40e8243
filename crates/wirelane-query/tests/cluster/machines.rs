//! The processes of a cluster, and their data.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;
use wirelane_testkit::process::{self, ChildGuard};

use crate::s3::{LIMIT, S3, program};

/// The shortest valid timeout of executors.
const SILENCE: &str = "6s";

/// The warning of each process.
const WARNING: &str = "warning: no authentication: every user of this host can ";

/// A scheduler and executors, with the keys of a server.
pub(crate) struct Cluster {
    scheduler: ChildGuard,
    pub(crate) executors: Vec<ChildGuard>,
    work: TempDir,
}

impl Cluster {
    pub(crate) fn start(server: &S3, executors: usize) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_wirelane-query"));
        command.args(["scheduler", "--listen", "127.0.0.1:0", "--executor-timeout", SILENCE]);
        let mut scheduler = ChildGuard::spawn(command.envs(server.environment()));
        scheduler.wait_until(LIMIT, |it| it.stderr().contains("; ^C ends it"));
        assert!(scheduler.stderr().contains(WARNING), "{}", scheduler.stderr());
        let work = tempfile::tempdir().unwrap();
        let mut cluster = Self { scheduler, executors: Vec::new(), work };
        for _ in 0..executors {
            cluster.add(&server.environment());
        }
        cluster
    }

    /// Adds an executor with one task at a time.
    pub(crate) fn add(&mut self, environment: &[(&'static str, String)]) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_wirelane-query"));
        let work = self.work.path().join(self.executors.len().to_string());
        command.args(["executor", "--scheduler", &self.url(), "--tasks", "1", "--work"]).arg(work);
        let mut executor = ChildGuard::spawn(command.envs(environment.iter().cloned()));
        executor.wait_until(LIMIT, |it| it.stderr().contains("works for df://"));
        assert!(executor.stderr().contains(WARNING), "{}", executor.stderr());
        self.executors.push(executor);
    }

    /// The scheduler's address, from its message.
    pub(crate) fn url(&self) -> String {
        let said = self.scheduler.stderr();
        let (_, rest) = said.split_once("scheduler at ").unwrap();
        rest.split(';').next().unwrap().to_owned()
    }

    /// The number of an executor's intermediate results.
    pub(crate) fn results(&self, executor: usize) -> usize {
        count(&self.work.path().join(executor.to_string()))
    }

    /// The directories that executors have not removed.
    pub(crate) fn left(&self) -> Vec<PathBuf> {
        let entries = |path: &Path| fs::read_dir(path).unwrap().map(|it| it.unwrap().path());
        entries(self.work.path()).flat_map(|parent| entries(&parent).collect::<Vec<_>>()).collect()
    }
}

/// Counts files below a directory, where files may disappear at any time.
fn count(directory: &Path) -> usize {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.map(|it| if it.path().is_dir() { count(&it.path()) } else { 1 }).sum()
}

/// Writes the flows of two captures to the server.
pub(crate) fn fill(server: &S3, flows: u64) {
    let directory = tempfile::tempdir().unwrap();
    for seed in [3, 4] {
        let path = directory.path().join("capture.pcapng");
        let port = format!("sim:1?count={}&flows={flows}&seed={seed}", flows * 10);
        process::run(program("wirelane").args(["capture", &port, "-w"]).arg(&path));
        let mut command = program("wirelane");
        command.arg("flows").arg(&path).args(["--quiet", "-w", "s3://flows/all"]);
        process::run(command.envs(server.environment()));
    }
}

/// `query SQL s3://flows/all`, here or on a cluster.
pub(crate) fn query(server: &S3, cluster: Option<&str>, sql: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_wirelane-query"));
    command.args(["query", sql, "s3://flows/all", "--format", "json"]).envs(server.environment());
    if let Some(url) = cluster {
        command.args(["--cluster", url]);
    }
    command
}
