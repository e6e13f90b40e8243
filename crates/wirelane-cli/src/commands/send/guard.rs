//! Sending floods the way by which the user may have come: that has to be meant.

use wirelane::port::{Backend, Spec};
use wirelane::{Error, Result};

use crate::ssh;

/// Refuses an interface by which the user's own SSH connection comes, unless that is `meant`.
///
/// # Errors
/// It does, and nobody has said that it may.
pub(super) fn check(spec: &Spec, meant: bool) -> Result<()> {
    let is_interface = matches!(spec.backend, None | Some(Backend::Packet | Backend::Xdp));
    if meant || !is_interface {
        return Ok(());
    }
    let name = spec.name_text();
    let own = ssh::connections().into_iter().find(|connection| connection.may_arrive_at(name));
    own.map_or(Ok(()), |connection| {
        let cause = format!("your own SSH connection, {connection}, may come through it");
        Err(Error::usage(format!("interface {name}"), cause)
            .help("packets that you send may end it; add --yes to send nevertheless"))
    })
}
