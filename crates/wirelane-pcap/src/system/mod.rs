//! Differences between systems. Capture files are read and written on every system. Pipes that are
//! silent, access rights and the identity of files are supported only on Unix.

#[cfg(not(unix))]
mod other;
#[cfg(unix)]
mod unix;

#[cfg(not(unix))]
pub(crate) use other::*;
#[cfg(unix)]
pub(crate) use unix::*;
