//! The program `wirelane-query`, which holds what would make this command large.

use std::env;
use std::path::PathBuf;

use wirelane::{Error, Result};

/// Its name.
pub(crate) const NAME: &str = "wirelane-query";

/// The program: beside this command, or on the `PATH`.
///
/// # Errors
/// There is none: how to get it.
pub(crate) fn find() -> Result<PathBuf> {
    let beside = env::current_exe().ok().and_then(|it| Some(it.parent()?.join(NAME)));
    let path = env::var_os("PATH").unwrap_or_default();
    let on_path = env::split_paths(&path).map(|directory| directory.join(NAME));
    beside.into_iter().chain(on_path).find(|it| it.is_file()).ok_or_else(|| {
        Error::failed(format!("program {NAME}"), "it is not beside wirelane, and not on the PATH")
            .help("install it: cargo install --path crates/wirelane-query")
    })
}
