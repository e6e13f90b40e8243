//! The two libpcaps that a test compares: the libpcap of the system and Wirelane's drop-in library.
//!
//! ```no_run
//! # use std::process::Command;
//! # use wirelane_testkit::libpcap::Library;
//! # use wirelane_testkit::netns::Namespace;
//! # use wirelane_testkit::process::run;
//! let ns = Namespace::new();
//! for library in Library::BOTH {
//!     run(library.of(&mut ns.command("tcpdump")).args(["-c", "1", "-i", "lo"]));
//! }
//! ```
//!
//! The drop-in is the shared library of `wirelane-libpcap`. Cargo builds it with the tests of that
//! package, and with the tests of every package that lists it in its `dev-dependencies`.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The libpcap that a program uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Library {
    /// The libpcap that the system installs.
    Stock,
    /// Wirelane's drop-in library.
    Ours,
}

impl Library {
    /// Both, with the reference first.
    pub const BOTH: [Self; 2] = [Self::Stock, Self::Ours];

    /// Makes `command`, and the programs that it executes, use this library, with default options.
    ///
    /// # Panics
    /// When the drop-in has not been built.
    #[track_caller]
    pub fn of(self, command: &mut Command) -> &mut Command {
        // Cargo sets library paths for the test itself; other programs must not inherit them.
        command.env_remove("LD_LIBRARY_PATH").env_remove("LD_PRELOAD");
        command.env_remove("WIRELANE_PCAP").env_remove("WIRELANE_LIBPCAP_REAL");
        match self {
            Self::Stock => command,
            Self::Ours => command.env("LD_PRELOAD", ours()),
        }
    }

    /// The file of this library.
    ///
    /// # Panics
    /// When there is none.
    #[track_caller]
    pub fn file(self) -> PathBuf {
        match self {
            Self::Stock => stock(),
            Self::Ours => ours(),
        }
    }
}

/// The file of the drop-in that was built with this test.
///
/// # Panics
/// When there is none.
#[track_caller]
pub fn ours() -> PathBuf {
    const NAME: &str = "libwirelane_libpcap.so";
    // Test programs and their dependencies are in `target/debug/deps` or a similar directory.
    let test = env::current_exe().unwrap_or_default();
    let directories = test.ancestors().skip(1).take(2);
    let candidates = directories.flat_map(|it| [it.join(NAME), it.join("deps").join(NAME)]);
    candidates.into_iter().find(|it| it.is_file()).unwrap_or_else(|| {
        panic!("no {NAME} beside {}: cargo build -p wirelane-libpcap", test.display())
    })
}

/// The file of the system's libpcap, with all links followed.
///
/// # Panics
/// When there is none.
#[track_caller]
pub fn stock() -> PathBuf {
    let names = ["libpcap.so.0.8", "libpcap.so.1"];
    let directories = library_directories();
    let candidates = directories.iter().flat_map(|it| names.map(|name| it.join(name)));
    candidates
        .filter_map(|it| fs::canonicalize(it).ok())
        .next()
        .expect("no libpcap.so.0.8 or libpcap.so.1: on Debian or Ubuntu, install libpcap0.8")
}

fn library_directories() -> Vec<PathBuf> {
    let multiarch = format!("{}-linux-gnu", env::consts::ARCH);
    let bases = ["/lib", "/usr/lib", "/usr/local/lib"].map(Path::new);
    let deep = bases.map(|base| base.join(&multiarch));
    let wide = ["/lib64", "/usr/lib64"].map(PathBuf::from);
    deep.into_iter().chain(wide).chain(bases.map(Path::to_path_buf)).collect()
}
