//! Drops privileges once everything is open.
//!
//! A capture needs `CAP_NET_RAW` only to open its sockets: masks, statistics, rotation and the end
//! of promiscuous mode work without it. So the command drops all privileges before it takes the
//! first packet, and creates its files later. If a later file of a rotation could not be created,
//! the first one fails as well, and the user knows at once.
//!
//! One operation needs privileges later: a new filter on `xdp:` loads a program.

use std::env;
use std::fs;
use std::os::fd::AsFd;

use wirelane::{Error, Result};
use wirelane_os::machine;
use wirelane_os::privilege::{self, Capability, Set};

/// A user to become.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct User {
    /// User id.
    pub(crate) uid: u32,
    /// Group id.
    pub(crate) gid: u32,
}

/// The user that called sudo, if any.
pub(crate) fn sudo_user() -> Option<User> {
    let id = |key| env::var(key).ok()?.parse().ok();
    let user = User { uid: id("SUDO_UID")?, gid: id("SUDO_GID")? };
    (user.uid != 0).then_some(user)
}

/// The user that `text` names: `UID`, `UID:GID`, or a name of `/etc/passwd`.
///
/// # Errors
/// There is no such user.
pub(crate) fn find_user(text: &str) -> Result<User> {
    let (uid, gid) = text.split_once(':').unwrap_or((text, text));
    if let (Ok(uid), Ok(gid)) = (uid.parse(), gid.parse()) {
        return Ok(User { uid, gid });
    }
    let passwd = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let user = passwd.lines().find_map(|line| {
        let mut fields = line.split(':');
        let (name, _, uid, gid) = (fields.next()?, fields.next()?, fields.next()?, fields.next()?);
        (name == text).then(|| Some(User { uid: uid.parse().ok()?, gid: gid.parse().ok()? }))?
    });
    user.ok_or_else(|| {
        Error::usage(format!("user '{text}'"), "it is not in /etc/passwd")
            .help("use UID:GID for a user of another directory")
    })
}

/// The group that `text` names: its number, or a name of `/etc/group`.
///
/// # Errors
/// There is no such group.
pub(crate) fn find_group(text: &str) -> Result<u32> {
    if let Ok(number) = text.parse() {
        return Ok(number);
    }
    let groups = fs::read_to_string("/etc/group").unwrap_or_default();
    let group = groups.lines().find_map(|line| {
        let mut fields = line.split(':');
        let (name, _, number) = (fields.next()?, fields.next()?, fields.next()?);
        (name == text).then(|| number.parse().ok())?
    });
    group.ok_or_else(|| {
        Error::usage(format!("group '{text}'"), "it is not in /etc/group")
            .help("use the number for a group of another directory")
    })
}

/// Joins `group`, which will own the files.
///
/// # Errors
/// Only root may join a group.
pub(crate) fn join(group: u32) -> Result<()> {
    privilege::join_group(group).map_err(|error| {
        Error::os(format!("group {group}"), error)
            .help("only root, or a member of the group, can give it files")
    })
}

/// The capabilities that changing the maps of a loaded XDP program needs. Before "bpf: refine
/// kernel.unprivileged_bpf_disabled behaviour" (Linux 5.19), that sysctl, which Debian sets,
/// refuses every call of bpf(2), even with a descriptor.
pub(crate) fn for_maps() -> Set {
    let is_set = || {
        let text = fs::read_to_string("/proc/sys/kernel/unprivileged_bpf_disabled");
        text.is_ok_and(|text| text.trim() != "0")
    };
    match machine::kernel() < [5, 19] && is_set() {
        true => Set::from_iter([Capability::Bpf]),
        false => Set::EMPTY,
    }
}

/// Becomes `user`, if given, and then also a member of `group`. Drops every capability but `keep`,
/// for this thread and the threads that it starts later. This cannot be undone.
///
/// # Errors
/// The user cannot be changed, or the kernel refuses.
pub(crate) fn drop_all(user: Option<User>, group: Option<u32>, keep: Set) -> Result<()> {
    let refused = |error| Error::os("privileges", error).help("add --keep-privileges to keep them");
    // Another user may not drop the bounding set.
    privilege::drop_bounding(keep).map_err(refused)?;
    if let Some(User { uid, gid }) = user {
        let keeps = !keep.is_empty();
        privilege::switch_user(uid, gid, group.as_slice(), keeps).map_err(|error| {
            Error::os(format!("user {uid}:{gid}"), error)
                .help("only root can switch to another user")
        })?;
    }
    privilege::drop_all(keep).map_err(refused)
}

/// The process at the other end of a local socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SocketPeer {
    /// Process id; 0 if it has none in this PID namespace.
    pub(crate) pid: u32,
    /// Effective user id.
    pub(crate) uid: u32,
}

/// The credentials of the process that connected or listens at the other end of `socket`.
///
/// # Errors
/// It is no local socket.
pub(crate) fn peer(socket: impl AsFd) -> Result<SocketPeer> {
    let (pid, uid) =
        privilege::peer(socket.as_fd()).map_err(|error| Error::os("local socket", error))?;
    Ok(SocketPeer { pid, uid })
}

/// The effective user id.
pub(crate) fn uid() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Whether there are privileges to drop.
pub(crate) fn is_privileged() -> bool {
    privilege::permitted().is_ok_and(|set| !set.is_empty())
}
