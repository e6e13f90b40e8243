//! Separate programs of the command, which would make it large.

use std::convert::Infallible;
use std::env;
use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Command;

use wirelane::{Error, Result};

/// A program and its crate.
#[derive(Clone, Copy, Debug)]
pub struct Companion {
    /// The name of its file.
    pub name: &'static str,
    /// The folder of its crate, in the source.
    pub source: &'static str,
}

/// The benchmarks.
pub const BENCH: Companion = Companion { name: "wirelane-bench", source: "crates/wirelane-bench" };
/// Answers SQL, and makes files of flows and packets for other engines.
pub const QUERY: Companion = Companion { name: "wirelane-query", source: "crates/wirelane-query" };
/// The command itself, which its companions run.
pub const COMMAND: Companion = Companion { name: "wirelane", source: "crates/wirelane-cli" };

impl Companion {
    /// The program: beside this one, or on the `PATH`.
    ///
    /// # Errors
    /// The program does not exist. The error says how to build it.
    pub fn find(self) -> Result<PathBuf> {
        let beside = env::current_exe().ok().and_then(|it| Some(it.parent()?.join(self.name)));
        let path = env::var_os("PATH").unwrap_or_default();
        let on_path = env::split_paths(&path).map(|directory| directory.join(self.name));
        beside.into_iter().chain(on_path).find(|it| it.is_file()).ok_or_else(|| {
            let own = env::current_exe().unwrap_or_default();
            let own = own.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let cause = format!("it is not beside {own}, and not on the PATH");
            Error::failed(format!("program {}", self.name), cause)
                .help(format!("install it: cargo install --path {}", self.source))
        })
    }

    /// Becomes the program.
    ///
    /// # Errors
    /// The program does not exist, or it cannot be started.
    pub(crate) fn become_it(self, words: &[OsString]) -> Result<Infallible> {
        let failure = Command::new(self.find()?).args(words).exec();
        Err(Error::io(format!("program {}", self.name), "execve", failure))
    }
}
