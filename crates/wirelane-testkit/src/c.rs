//! Programs in C, compiled by the test that runs them.

use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;

use crate::process;

/// Without a warning, or not at all.
const FLAGS: [&str; 8] =
    ["-std=c11", "-D_GNU_SOURCE", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-pthread"];

/// Compiles and links a program with `compiler` (`gcc`, `clang`), which writes it to `program`.
/// `args` are the sources, libraries (`-lpcap`) and further flags.
///
/// Ask [`tools::require`](crate::tools::require) for the compiler before.
///
/// # Panics
/// When it does not compile, or with a warning.
#[track_caller]
pub fn compile<A: AsRef<OsStr>>(compiler: &str, program: &Path, args: impl IntoIterator<Item = A>) {
    // The libraries come after what needs them.
    process::run(Command::new(compiler).args(FLAGS).arg("-o").arg(program).args(args));
}
