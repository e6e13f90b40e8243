//! An S3 server for a test: a separate program over a temporary directory.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use tempfile::TempDir;
use wirelane_testkit::process::ChildGuard;

pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// A program of the workspace, next to `wirelane-query`.
pub(crate) fn program(name: &str) -> Command {
    let path = Path::new(env!("CARGO_BIN_EXE_wirelane-query")).with_file_name(name);
    let build = "cargo build -p wirelane-cli -p wirelane-testkit";
    assert!(path.is_file(), "no {}: {build}", path.display());
    Command::new(path)
}

/// A server with the bucket `flows` and the read-only bucket `fixed`.
pub(crate) struct S3 {
    root: TempDir,
    address: String,
    server: Option<ChildGuard>,
}

impl S3 {
    pub(crate) fn start() -> Self {
        let root = tempfile::tempdir().unwrap();
        for bucket in ["flows", "fixed"] {
            fs::create_dir(root.path().join(bucket)).unwrap();
        }
        let mut server = Self { root, address: "127.0.0.1:0".into(), server: None };
        server.be_there(true);
        server
    }

    /// The directory of a bucket.
    pub(crate) fn bucket(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    /// Stops the server, or starts it again at the same address.
    pub(crate) fn be_there(&mut self, is_there: bool) {
        self.server = None;
        if !is_there {
            return;
        }
        let mut command = program("wirelane-s3");
        command.args(["--read-only", "fixed", "--listen", &self.address]).arg(self.root.path());
        let mut server = ChildGuard::spawn(&mut command);
        server.wait_until(LIMIT, |server| server.stdout().ends_with('\n'));
        self.address = server.stdout().trim().to_owned();
        self.server = Some(server);
    }

    /// The environment of a client.
    pub(crate) fn environment(&self) -> [(&'static str, String); 5] {
        [
            ("AWS_ACCESS_KEY_ID", "key".into()),
            ("AWS_SECRET_ACCESS_KEY", "secret".into()),
            ("AWS_REGION", "us-east-1".into()),
            ("AWS_ENDPOINT", format!("http://{}", self.address)),
            ("AWS_ALLOW_HTTP", "true".into()),
        ]
    }
}
