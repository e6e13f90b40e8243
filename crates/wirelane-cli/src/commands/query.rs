//! `wirelane query`: becomes the program that answers SQL.

use std::ffi::OsString;

use clap::Args;
use wirelane::Result;

use crate::companion::QUERY;

/// Ask flows and packets by SQL.
///
/// Table `flows` has the rows of Parquet files that `wirelane flows -w DIR/` wrote. Table `packets`
/// has the packets of capture files, of directories that `wirelane record` wrote, and of Parquet
/// files that `wirelane flows --packets -w DIR/` wrote. The program wirelane-query, beside this
/// command or on the PATH, answers. `wirelane query --help` lists its options.
#[derive(Args, Clone, Debug)]
#[command(disable_help_flag = true)]
pub(crate) struct QueryArgs {
    /// SQL or the name of a ready query, directories, files and URLs, and options of the program
    #[arg(value_name = "SQL|NAME|SOURCE", trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<OsString>,
}

/// Becomes the program; returns only if that fails.
pub(crate) fn run(args: &QueryArgs) -> Result<()> {
    let words = [&["query".into()], args.words.as_slice()].concat();
    QUERY.become_it(&words).map(|never| match never {})
}
