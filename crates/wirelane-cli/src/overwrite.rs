//! A command never writes a file that it reads: opening the output would destroy the input. Every
//! command with inputs and outputs checks them here before it opens anything for writing.
//!
//! Inputs and outputs are compared by device and inode, which covers standard input and links.

use std::ffi::OsStr;
use std::path::Path;

use wirelane::Result;
use wirelane::pcap::FileId;
use wirelane::port::{Backend, Spec};
use wirelane_store::Directory;

use crate::stores;

/// Refuses an output that is one of the inputs, also under another name; `-` is standard input or
/// output. Files that do not exist are ignored.
///
/// # Errors
/// The output is an input.
pub(crate) fn refuse<P: AsRef<OsStr>>(
    output: &Path,
    inputs: impl IntoIterator<Item = P>,
) -> Result<()> {
    let inputs = inputs.into_iter().filter_map(|path| FileId::of_input(Path::new(&path)));
    refuse_files(output, &inputs.collect::<Vec<_>>())
}

/// As [`refuse`], for input ports: checks the ports that are files.
///
/// # Errors
/// As there.
pub(crate) fn refuse_ports(output: &Path, ports: &[Spec]) -> Result<()> {
    let is_file = |spec: &&Spec| spec.backend == Some(Backend::File);
    refuse(output, ports.iter().filter(is_file).map(|spec| &spec.name))
}

/// As [`refuse`], for stores: checks their segments and indexes. Opens these files only if the
/// output is a file, too.
///
/// # Errors
/// As there, or a store cannot be read.
pub(crate) fn refuse_stores(output: &Path, stores: &[Directory]) -> Result<()> {
    match FileId::of_output(output) {
        Some(_) => refuse_files(output, &stores::files(stores)?),
        None => Ok(()),
    }
}

/// As [`refuse`], for inputs with known identities.
///
/// # Errors
/// As there.
pub(crate) fn refuse_files(output: &Path, inputs: &[FileId]) -> Result<()> {
    Ok(FileId::refuse(output, inputs)?)
}
