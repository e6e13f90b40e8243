//! Builds documentation as JSON, which takes less time than pages. `doc` checks its warnings, `api`
//! its items. A whole run builds it once, from the crates that `clippy` has checked.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use crate::cargo;
use crate::context::Context;

/// JSON is unstable, and its format depends on the toolchain, which the workspace pins. Only
/// rustdoc gets the variable: with cargo, build scripts that depend on it would run again.
const PROGRAM: &str = "#!/bin/sh\nRUSTC_BOOTSTRAP=1 exec rustdoc \"$@\"\n";

/// All crates except the largest program, whose pages have no readers: its dependencies would be
/// checked once more, without the features that tests add. Warnings are errors.
pub(crate) fn of_all(context: &Context) -> bool {
    let all = ["--workspace", "--exclude", "wirelane-query"];
    *context.documented.get_or_init(|| run(context, &all, "-D warnings"))
}

/// The documentation of these crates with all features; [`of_all`] may have made it. The programs
/// of the workspace enable these features, too.
pub(crate) fn of(context: &Context, crates: &[String]) -> bool {
    let packages = crates.iter().flat_map(|name| ["-p", name.as_str()]);
    let arguments: Vec<&str> = ["--all-features"].into_iter().chain(packages).collect();
    context.documented.get().is_some_and(|succeeded| *succeeded) || run(context, &arguments, "")
}

/// The file of a crate.
pub(crate) fn file(context: &Context, name: &str) -> PathBuf {
    context.target("doc").join(name.replace('-', "_")).with_extension("json")
}

fn run(context: &Context, crates: &[&str], flags: &str) -> bool {
    let program = context.target("rustdoc");
    if let Err(error) = write(&program) {
        println!("cannot write {}: {error}", program.display());
        return false;
    }
    let mut command = cargo::stable(&["doc", "--no-deps"]);
    command.args(crates).env("RUSTDOC", &program);
    let flags = format!("{flags} -Z unstable-options --output-format json");
    cargo::succeeds(command.env("RUSTDOCFLAGS", flags.trim()))
}

fn write(program: &Path) -> io::Result<()> {
    program.parent().map_or(Ok(()), fs::create_dir_all)?;
    fs::write(program, PROGRAM)?;
    fs::set_permissions(program, fs::Permissions::from_mode(0o755))
}
