//! `wirelane exec`: becomes a program of libpcap that captures on all queues.

mod library;
mod program;

use std::env;
use std::ffi::{OsStr, OsString};
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use clap::Args;
use wirelane::{Error, Result};

use crate::netns::NetnsArgs;

/// Run a program of libpcap, such as tcpdump or Suricata, over Wirelane.
///
/// The program, and what it starts, use Wirelane's libpcap: an interface is captured on all queues,
/// in order of time, and wirelane:SPEC is a device, too. The program replaces this process: it
/// receives its signals, and its exit status is the program's. The status is 126 if the program
/// cannot be run like this, 127 if it does not exist, and 125 if there is no library.
#[derive(Args, Clone, Debug)]
pub(crate) struct ExecArgs {
    /// Options for each device: ring=SIZE, queues=LIST, share=queue|flow and others, separated by
    /// commas (the variable WIRELANE_PCAP)
    #[arg(short, long, value_name = "LIST")]
    options: Option<String>,
    /// The file of Wirelane's libpcap [default: beside this command, or in ../lib/wirelane]
    #[arg(long, value_name = "FILE")]
    library: Option<PathBuf>,
    #[command(flatten)]
    netns: NetnsArgs,
    /// The program and its arguments, after --
    #[arg(
        value_name = "PROGRAM",
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    command: Vec<OsString>,
}

/// Becomes the program. Returns only on failure: the error and the exit status.
pub(crate) fn run(args: &ExecArgs) -> (Error, u8) {
    let Some((name, arguments)) = args.command.split_first() else {
        // The parser demands one.
        let error = Error::usage("arguments", "there is no program");
        return (error.help("write one after --"), CANNOT_RUN);
    };
    let library = match library::find(args.library.as_deref()).and_then(loadable) {
        Ok(library) => library,
        Err(error) => return (error, NO_LIBRARY),
    };
    if let Some(path) = program::find(name)
        && let Err(error) = program::check(&path)
    {
        return (error, CANNOT_RUN);
    }
    let mut command = Command::new(name);
    command.args(arguments).env(PRELOAD, before(PRELOAD, library.as_os_str()));
    if let Some(directory) = library::names(&library) {
        command.env(SEARCH, before(SEARCH, directory.as_os_str()));
    }
    if let Some(options) = &args.options {
        command.env("WIRELANE_PCAP", options);
    }
    if let Err(error) = args.netns.enter() {
        return (error, CANNOT_RUN);
    }
    let failure = command.exec();
    let status = if failure.kind() == ErrorKind::NotFound { NOT_FOUND } else { CANNOT_RUN };
    let name = name.to_string_lossy();
    (Error::io(format!("program {name}"), "execve", failure), status)
}

/// Libraries that the dynamic linker loads before all others. This one has the name by which
/// programs ask for libpcap, at link time or with dlopen(3), as Python does.
const PRELOAD: &str = "LD_PRELOAD";
/// Where the dynamic linker looks first: for programs that ask by another of libpcap's names.
const SEARCH: &str = "LD_LIBRARY_PATH";

/// Exit statuses, as in env(1).
const NO_LIBRARY: u8 = 125;
const CANNOT_RUN: u8 = 126;
const NOT_FOUND: u8 = 127;

/// Checks that the dynamic linker accepts `path`.
fn loadable(path: PathBuf) -> Result<PathBuf> {
    let splits = |byte: &u8| matches!(byte, b':' | b' ' | b'\t' | b'\n');
    if path.as_os_str().as_bytes().iter().any(splits) {
        let object = format!("library {}", path.display());
        return Err(Error::usage(
            object,
            "the dynamic linker takes no path with a space or a colon",
        )
        .help("put it elsewhere"));
    }
    Ok(path)
}

/// A list for the dynamic linker: `first`, then the list in the environment variable.
fn before(variable: &str, first: &OsStr) -> OsString {
    let mut list = first.to_owned();
    if let Some(rest) = env::var_os(variable).filter(|rest| !rest.is_empty()) {
        list.push(":");
        list.push(rest);
    }
    list
}
