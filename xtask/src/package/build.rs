//! The packages: their content, directories and version.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::cargo;
use crate::context::Context;
use crate::files::list;

/// The packages to build.
pub(super) struct Package {
    pub(super) context: Context,
    pub(super) except: Vec<String>,
    /// The directory of all files but programs. It is fixed, because the manifests name it.
    pub(super) stage: PathBuf,
    /// The result.
    pub(super) dist: PathBuf,
}

impl Package {
    /// Whether a crate is packaged.
    pub(super) fn has(&self, name: &str) -> bool {
        !self.except.iter().any(|left_out| left_out == name)
    }

    /// The crates to package.
    pub(super) fn crates(&self) -> impl Iterator<Item = &'static str> {
        CRATES.into_iter().filter(|name| self.has(name))
    }

    /// The files of the result whose names end like this.
    pub(super) fn results(&self, suffix: &str) -> Vec<PathBuf> {
        let mut files = list(&self.dist);
        files.retain(|path| path.to_string_lossy().ends_with(suffix));
        files
    }

    /// Packs a directory to the result, as `NAME.tar.zst`. The same input makes the same archive.
    pub(super) fn pack(&self, tree: &Path, compressor: &str) -> Result<PathBuf, String> {
        let name = tree.file_name().unwrap_or_default().to_string_lossy();
        let archive = self.dist.join(format!("{name}.tar.zst"));
        let mut tar = Command::new("tar");
        tar.args(["--sort=name", "--owner=0", "--group=0", "--numeric-owner", "--mtime=@0"])
            .args(["--use-compress-program", compressor, "-cf"])
            .arg(&archive)
            .arg("-C")
            .arg(tree.parent().unwrap_or(tree))
            .arg(&*name);
        cargo::run(&mut tar)?;
        Ok(archive)
    }
}

/// The crates that can be packaged.
pub(super) const CRATES: [&str; 5] =
    ["wirelane-cli", "wirelane-query", "wirelane-bench", "wirelane-libpcap", CAPI];

/// The C library: its name and its version need options of the linker.
pub(super) const CAPI: &str = "wirelane-capi";

/// The version of all packages: the workspace's.
pub(super) const VERSION: &str = env!("CARGO_PKG_VERSION");
