//! Errors of a store become errors of a session.

use std::borrow::Cow;

use wirelane::Error;
use wirelane_os::OsError;

use crate::ErrorParts;

/// The same, as an error of the library of ports.
#[must_use]
pub fn failure(error: crate::Error) -> Error {
    let ErrorParts { object, cause, help, errno } = error.into_parts();
    let new = Error::failed(object, cause);
    let new = help.into_iter().fold(new, |new, help: Cow<'static, str>| new.help(help));
    match errno {
        Some(errno) => new.caused_by(OsError::from_errno("store", "", errno)),
        None => new,
    }
}
