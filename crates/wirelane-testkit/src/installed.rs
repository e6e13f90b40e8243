//! Finds programs: installed ones, and those in packages that the setup of the tests unpacked.
//!
//! The setup does not install packages with services, because that would start the services. It
//! unpacks programs of a newer Debian together with all of their libraries, including the C library
//! and its loader.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::libpcap::Library;
use crate::netns::Namespace;
use crate::tools;

/// A program that can be started.
pub struct Program {
    path: PathBuf,
    /// The directory where the setup unpacked its package.
    root: Option<PathBuf>,
}

impl Program {
    /// Whether all of these programs are found. If one is missing, the test is reported as skipped
    /// and should return.
    ///
    /// # Panics
    /// When one is missing and `WIRELANE_REQUIRE_TOOLS=1`.
    #[track_caller]
    pub fn require(names: &[&str]) -> bool {
        names.iter().all(|name| Self::find(name).is_some() || tools::require(name))
    }

    /// Finds the program of this name.
    pub fn find(name: &str) -> Option<Self> {
        let installed = || Some(Self { path: tools::find(name)?, root: None });
        installed().or_else(|| trees().find_map(|root| Self::find_in(root, name)))
    }

    /// A command that runs the program with `library`, inside `namespace` if there is one.
    pub fn command(&self, library: Library, namespace: Option<&Namespace>) -> Command {
        let loader = self.root.as_ref().map(|root| root.join(LOADER)).filter(|it| it.is_file());
        let first = loader.as_ref().unwrap_or(&self.path);
        let mut command = match namespace {
            Some(namespace) => namespace.command(first),
            None => Command::new(first),
        };
        library.of(&mut command).env("LC_ALL", "C.UTF-8").env("TZ", "UTC");
        let Some(root) = &self.root else { return command };
        let libraries = LIBRARIES.map(|path| root.join(path).display().to_string()).join(":");
        if loader.is_some() {
            command.args(["--library-path", &libraries]).arg(&self.path);
            command.env("WIRELANE_LIBPCAP_REAL", root.join(LIBRARIES[0]).join("libpcap.so.0.8"));
        } else {
            command.env("LD_LIBRARY_PATH", libraries);
        }
        command
    }

    /// The path of the program.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A file of the tree of this program: of the unpacked packages, or of the system.
    pub fn file(&self, path: &str) -> PathBuf {
        self.root.as_deref().unwrap_or(Path::new("/")).join(path)
    }

    fn find_in(root: PathBuf, name: &str) -> Option<Self> {
        let candidates = ["usr/bin", "usr/sbin"].map(|it| root.join(it).join(name));
        let path = candidates.into_iter().find(|it| it.is_file())?;
        Some(Self { path, root: Some(root) })
    }
}

const LIBRARIES: [&str; 2] = ["usr/lib/x86_64-linux-gnu", "lib/x86_64-linux-gnu"];
const LOADER: &str = "usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2";

/// The directories where `cargo xtask test setup` unpacks packages. They are in the target
/// directory; test programs are in `target/debug/deps` or a similar directory.
fn trees() -> impl Iterator<Item = PathBuf> {
    let test = env::current_exe().unwrap_or_default();
    let above: Vec<PathBuf> = test.ancestors().skip(1).map(Path::to_path_buf).collect();
    above.into_iter().flat_map(|it| ["debian", "trixie"].map(|name| it.join("unpacked").join(name)))
}
