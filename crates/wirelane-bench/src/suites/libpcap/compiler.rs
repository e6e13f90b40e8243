//! Compiles C programs for a measurement.

use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::process::Command;

use wirelane::error::{Error, Result};

use crate::peers;

/// Compiles `source`, stored next to `program`, to `program`. `flags` are the last arguments.
/// `case` is the object of errors.
///
/// # Errors
/// The C compiler is missing, or a header or library of the program.
pub(super) fn compile(
    case: &'static str,
    source: &str,
    program: &Path,
    flags: &[&OsStr],
) -> Result<()> {
    let text = program.with_extension("c");
    fs::write(&text, source)
        .map_err(|error| Error::io(text.display().to_string(), "write", error))?;
    let missing = || Error::failed(case, "there is no C compiler (Debian package gcc)");
    let mut command = Command::new(peers::find("cc").ok_or_else(missing)?);
    command.args(["-O2", "-pthread", "-o"]).arg(program).arg(text).args(flags);
    let output = command.output().map_err(|error| Error::io("cc", "start", error))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let first = said.lines().find(|line| line.contains("error")).unwrap_or("it fails");
    Err(Error::failed(case, format!("cannot compile: {first}")))
}
