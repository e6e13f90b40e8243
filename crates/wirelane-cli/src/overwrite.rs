//! What a command reads, it never writes: opening an output for writing would destroy it. Every
//! command that has both asks here before it opens anything for writing.

use std::ffi::OsStr;
use std::path::Path;

use wirelane::Result;
use wirelane::pcap::FileId;
use wirelane::port::{Backend, Spec};

/// Refuses an output that is one of the files that are read, under whatever name; `-` is standard
/// input or output. Files that do not exist are none.
///
/// # Errors
/// It is one.
pub(crate) fn refuse<P: AsRef<OsStr>>(
    output: &Path,
    inputs: impl IntoIterator<Item = P>,
) -> Result<()> {
    let inputs = inputs.into_iter().filter_map(|path| FileId::of_input(Path::new(&path)));
    refuse_files(output, &inputs.collect::<Vec<_>>())
}

/// As [`refuse`], of ports that are read: those that are files.
///
/// # Errors
/// As there.
pub(crate) fn refuse_ports(output: &Path, ports: &[Spec]) -> Result<()> {
    let is_file = |spec: &&Spec| spec.backend == Some(Backend::File);
    refuse(output, ports.iter().filter(is_file).map(|spec| &spec.name))
}

/// As [`refuse`], of files that are known.
///
/// # Errors
/// As there.
pub(crate) fn refuse_files(output: &Path, inputs: &[FileId]) -> Result<()> {
    Ok(FileId::refuse(output, inputs)?)
}
