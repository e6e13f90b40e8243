//! Any system with files, without pipes and access rights. Two paths may name the same file
//! unnoticed.

use std::fs::{File, FileType, Metadata, OpenOptions};
use std::io;
use std::path::Path;
use std::time::Duration;

/// Any file or directory.
pub trait AsFd {}

impl<F> AsFd for F {}

pub(crate) fn standard_input() -> io::Result<File> {
    Err(io::ErrorKind::Unsupported.into())
}

pub(crate) fn standard_output() -> io::Result<File> {
    Err(io::ErrorKind::Unsupported.into())
}

pub(crate) fn is_fifo(_kind: FileType) -> bool {
    false
}

pub(crate) fn is_read(_kind: FileType) -> bool {
    false
}

pub(crate) fn identity(_metadata: &Metadata) -> Option<(u64, u64)> {
    None
}

pub(crate) fn set_mode(_options: &mut OpenOptions, _mode: u32) {}

pub(crate) fn set_nonblocking(_options: &mut OpenOptions) {}

pub(crate) fn has_no_reader(_error: &io::Error) -> bool {
    false
}

pub(crate) fn set_access(_file: impl AsFd, _group: Option<u32>, _mode: u32) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Renames a file unless the name is taken. A file created under that name during the call is lost.
pub(crate) fn rename_new(from: &Path, to: &Path) -> io::Result<()> {
    if to.try_exists()? {
        Err(io::ErrorKind::AlreadyExists.into())
    } else {
        std::fs::rename(from, to)
    }
}

pub(crate) fn wait_to_read(_file: &File, _longest: Duration) -> Option<bool> {
    Some(true)
}

pub(crate) fn wait_to_write(_file: &File, _longest: Duration) -> Option<bool> {
    Some(true)
}

pub(crate) fn empty_pipe(_file: &File) -> Option<usize> {
    None
}

pub(crate) fn symbol(_number: i32) -> Option<&'static str> {
    None
}
