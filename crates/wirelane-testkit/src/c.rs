//! Compiles C programs for tests.

use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;

use crate::process;

/// Warnings are errors.
const FLAGS: [&str; 8] =
    ["-std=c11", "-D_GNU_SOURCE", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-pthread"];

/// Compiles and links a program with `compiler` (`gcc`, `clang`) and writes it to `program`. `args`
/// are the sources, libraries (`-lpcap`) and further flags.
///
/// Call [`tools::require`](crate::tools::require) for the compiler first.
///
/// # Panics
/// When the compiler reports an error or a warning.
#[track_caller]
pub fn compile<A: AsRef<OsStr>>(compiler: &str, program: &Path, args: impl IntoIterator<Item = A>) {
    // The linker needs the libraries after the objects that use them.
    process::run(Command::new(compiler).args(FLAGS).arg("-o").arg(program).args(args));
}
