//! `wirelane query`: becomes the program that answers SQL.

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use clap::Args;
use wirelane::{Error, Result};

use crate::companion;

/// Ask flows and packets by SQL.
///
/// Table `flows` has the rows of Parquet files that `wirelane flows -w DIR/` wrote; table `packets`
/// has those of capture files, of directories that `wirelane record` wrote, and of Parquet files of
/// `wirelane flows --packets -w DIR/`. The program wirelane-query answers; it lies beside this
/// command or on the PATH, and has options of its own: `wirelane query --help`.
#[derive(Args, Clone, Debug)]
#[command(disable_help_flag = true)]
pub(crate) struct QueryArgs {
    /// SQL or the name of a ready query, directories, files and URLs, and options of the program
    #[arg(value_name = "SQL|NAME|SOURCE", trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<OsString>,
}

/// Becomes the program; returns only if that fails.
pub(crate) fn run(args: &QueryArgs) -> Result<()> {
    let failure = Command::new(companion::find()?).arg("query").args(&args.words).exec();
    Err(Error::io(format!("program {}", companion::NAME), "execve", failure))
}
