//! The context of every step: the options of the run, the rights of the user, and the workspace.

use std::cell::OnceCell;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use crate::step::Outcome;

/// The options of a run, and the rights of the user.
pub(crate) struct Context {
    pub(crate) quick: bool,
    pub(crate) fuzz_seconds: Option<u32>,
    /// Whether the user is root, and may install packages.
    pub(crate) root: bool,
    /// Whether the privileged tests can run.
    pub(crate) privileged: bool,
    /// Whether a check that cannot run is a failure.
    pub(crate) ci: bool,
    /// Whether to write snapshots instead of comparing them.
    pub(crate) bless: bool,
    /// Whether the documentation was built without an error; empty if it was not built.
    pub(crate) documented: OnceCell<bool>,
    target: PathBuf,
}

impl Context {
    /// `CI=true` in the environment asks for `ci`, too.
    pub(crate) fn new(quick: bool, ci: bool, fuzz_seconds: Option<u32>) -> Self {
        let is_root = |ids: &str| ids.split_whitespace().nth(1) == Some("0");
        Self {
            quick,
            fuzz_seconds,
            root: status_field("Uid:").as_deref().is_some_and(is_root),
            privileged: status_field("CapEff:").as_deref().is_some_and(has_capabilities),
            ci: ci || env::var_os("CI").is_some_and(|value| value == "true" || value == "1"),
            bless: false,
            documented: OnceCell::new(),
            target: target_directory(),
        }
    }

    /// `count` checks that cannot be made on this machine: failures in CI, visible skips elsewhere.
    pub(crate) fn unavailable(&self, count: usize, note: String) -> Outcome {
        let notes = vec![note];
        if self.ci {
            Outcome { failed: count, notes, ..Outcome::default() }
        } else {
            Outcome { skipped: count, notes, ..Outcome::default() }
        }
    }

    /// The target directory of a step with special compiler flags, so that caches survive.
    pub(crate) fn target(&self, step: &str) -> PathBuf {
        self.target.join(step)
    }
}

/// The root of the workspace.
pub(crate) fn root() -> &'static Path {
    let xtask = Path::new(env!("CARGO_MANIFEST_DIR"));
    xtask.parent().unwrap_or(xtask)
}

/// The target directory of cargo.
pub(crate) fn target_directory() -> PathBuf {
    env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), |path| root().join(path))
}

/// Whether the effective capabilities, in hexadecimal digits, are enough for privileged tests:
/// `CAP_NET_ADMIN`, `CAP_NET_RAW` and `CAP_SYS_ADMIN`.
fn has_capabilities(effective: &str) -> bool {
    const NEEDED: u64 = (1 << 12) | (1 << 13) | (1 << 21);
    u64::from_str_radix(effective.trim(), 16).is_ok_and(|effective| effective & NEEDED == NEEDED)
}

/// A line of `/proc/self/status`, without its heading.
fn status_field(heading: &str) -> Option<String> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    status.lines().find_map(|line| line.strip_prefix(heading)).map(str::to_owned)
}
