//! What systems do differently. Files of capture are read and written on every one; pipes that are
//! silent, access rights and the identity of files are known on Unix only.

#[cfg(not(unix))]
mod other;
#[cfg(unix)]
mod unix;

#[cfg(not(unix))]
pub(crate) use other::*;
#[cfg(unix)]
pub(crate) use unix::*;
