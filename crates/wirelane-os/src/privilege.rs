//! Capabilities: reads them, and drops them permanently.
//!
//! In Linux, user IDs and capabilities belong to each *thread*. The functions here change only the
//! calling thread, and threads that it starts later inherit the change. Call them after everything
//! is open and **before other threads start** (see [`threads`]).

use crate::error::{OsError, Result};
use crate::socket;
use rustix::process::{Gid, Uid};
use rustix::thread::{CapabilitySet, CapabilitySets};
use std::fmt;
use std::os::fd::BorrowedFd;

/// A capability that this project uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Capability {
    /// Raw sockets.
    NetRaw,
    /// Interfaces: promiscuous mode by flag, TAP devices, XDP.
    NetAdmin,
    /// eBPF programs and maps; Linux 5.8, [`Capability::SysAdmin`] before.
    Bpf,
    /// Locking memory beyond the limit.
    IpcLock,
    /// Network namespaces, and most other privileged operations.
    SysAdmin,
    /// Dropping capabilities from the bounding set.
    SetPcap,
    /// Changing the user.
    SetUid,
    /// Changing groups.
    SetGid,
}

impl Capability {
    /// Its usual name, e.g. `CAP_NET_RAW`.
    pub const fn name(self) -> &'static str {
        match self {
            Capability::NetRaw => "CAP_NET_RAW",
            Capability::NetAdmin => "CAP_NET_ADMIN",
            Capability::Bpf => "CAP_BPF",
            Capability::IpcLock => "CAP_IPC_LOCK",
            Capability::SysAdmin => "CAP_SYS_ADMIN",
            Capability::SetPcap => "CAP_SETPCAP",
            Capability::SetUid => "CAP_SETUID",
            Capability::SetGid => "CAP_SETGID",
        }
    }

    const fn bit(self) -> CapabilitySet {
        match self {
            Capability::NetRaw => CapabilitySet::NET_RAW,
            Capability::NetAdmin => CapabilitySet::NET_ADMIN,
            Capability::Bpf => CapabilitySet::BPF,
            Capability::IpcLock => CapabilitySet::IPC_LOCK,
            Capability::SysAdmin => CapabilitySet::SYS_ADMIN,
            Capability::SetPcap => CapabilitySet::SETPCAP,
            Capability::SetUid => CapabilitySet::SETUID,
            Capability::SetGid => CapabilitySet::SETGID,
        }
    }
}

impl fmt::Display for Capability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A set of capabilities.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Set(CapabilitySet);

impl Set {
    /// No capability.
    pub const EMPTY: Set = Set(CapabilitySet::empty());

    /// Whether the capability is in the set.
    pub fn contains(self, capability: Capability) -> bool {
        self.0.contains(capability.bit())
    }

    /// Whether the set is empty; this includes capabilities that are unknown here.
    pub fn is_empty(self) -> bool {
        self.0.is_empty()
    }
}

impl FromIterator<Capability> for Set {
    fn from_iter<I: IntoIterator<Item = Capability>>(capabilities: I) -> Set {
        Set(capabilities.into_iter().map(Capability::bit).collect())
    }
}

/// The calling thread's effective capabilities, which it can use now.
///
/// # Errors
/// The errors of capget(2).
pub fn effective() -> Result<Set> {
    Ok(Set(sets()?.effective))
}

/// The calling thread's permitted capabilities, which it can make effective.
///
/// # Errors
/// The errors of capget(2).
pub fn permitted() -> Result<Set> {
    Ok(Set(sets()?.permitted))
}

/// Whether this process is in the initial user namespace, in which alone some capabilities are
/// effective; `None` without `/proc`.
pub fn is_in_initial_user_namespace() -> Option<bool> {
    /// `PROC_USER_INIT_INO` of `include/linux/proc_ns.h`, and `USER_NS_INIT_INO` of its user-space
    /// ABI.
    const INITIAL: u64 = 0xeffffffd;
    let namespace = rustix::fs::stat("/proc/self/ns/user").ok()?;
    Some(namespace.st_ino == INITIAL)
}

/// The number of threads of this process.
///
/// # Errors
/// The errors of reading /proc/self/task.
pub fn threads() -> Result<usize> {
    std::fs::read_dir("/proc/self/task")
        .map(Iterator::count)
        .map_err(|error| OsError::new("readdir", "/proc/self/task", error))
}

/// The process ID and effective user ID of the peer of a local socket: of the process that
/// connected or began to listen, at that time. A process of another PID namespace has the ID 0.
///
/// # Errors
/// The errors of getsockopt(2).
pub fn peer(socket: BorrowedFd<'_>) -> Result<(u32, u32)> {
    let option = (libc::SOL_SOCKET, libc::SO_PEERCRED);
    let credentials: libc::ucred = socket::get(socket, option, "getsockopt SO_PEERCRED")?;
    Ok((credentials.pid.cast_unsigned(), credentials.uid))
}

/// Drops every capability except `keep` from all sets, permanently: programs that are started later
/// cannot gain privileges either (`no_new_privs`).
///
/// Does not add capabilities of `keep` that the thread lacks. The bounding set is emptied if
/// CAP_SETPCAP permits it. A change of the user removes CAP_SETPCAP, so call [`drop_bounding`],
/// then [`switch_user`], then this. See the module for threads.
///
/// # Errors
/// The errors of prctl(2) and capset(2), and `EPERM` when the final check finds more than `keep`.
pub fn drop_all(keep: Set) -> Result<()> {
    rustix::thread::set_no_new_privs(true)
        .map_err(|errno| OsError::new("prctl PR_SET_NO_NEW_PRIVS", "this thread", errno))?;
    rustix::thread::clear_ambient_capability_set()
        .map_err(|errno| OsError::new("prctl PR_CAP_AMBIENT_CLEAR_ALL", "this thread", errno))?;
    let before = sets()?;
    drop_bounding(keep)?;
    let kept = before.permitted & keep.0;
    let target =
        CapabilitySets { effective: kept, permitted: kept, inheritable: CapabilitySet::empty() };
    rustix::thread::set_capabilities(None, target)
        .map_err(|errno| OsError::new("capset", "this thread", errno))?;
    verify_dropped(before, target)
}

/// Changes the user and group, with exactly these supplementary groups, and checks that the change
/// is irreversible.
///
/// A user other than root loses every capability (capabilities(7)), except that the
/// permitted set stays when `keep_permitted` is true: then [`drop_all`] must follow, which makes
/// the kept ones effective again. See the module for threads.
///
/// # Errors
/// `EPERM` without CAP_SETUID and CAP_SETGID, and when the final check could become root again.
pub fn switch_user(uid: u32, gid: u32, groups: &[u32], keep_permitted: bool) -> Result<()> {
    let object = || format!("uid {uid}, gid {gid}");
    let failed = |call| move |errno| OsError::new(call, format!("uid {uid}, gid {gid}"), errno);
    // The kernel takes this number as "unchanged".
    if [uid, gid].iter().chain(groups).any(|id| *id == u32::MAX) {
        return Err(OsError::from_errno("setresuid", object(), libc::EINVAL));
    }
    let (user, group) = (Uid::from_raw(uid), Gid::from_raw(gid));
    rustix::thread::set_keep_capabilities(keep_permitted)
        .map_err(failed("prctl PR_SET_KEEPCAPS"))?;
    let groups: Vec<_> = groups.iter().copied().map(Gid::from_raw).collect();
    rustix::thread::set_thread_groups(&groups).map_err(failed("setgroups"))?;
    rustix::thread::set_thread_res_gid(group, group, group).map_err(failed("setresgid"))?;
    rustix::thread::set_thread_res_uid(user, user, user).map_err(failed("setresuid"))?;
    rustix::thread::set_keep_capabilities(false).map_err(failed("prctl PR_SET_KEEPCAPS"))?;
    verify_user(uid, gid)
}

/// Adds the calling thread to `group`, so that it may assign its files to that group. See the
/// module for threads.
///
/// # Errors
/// `EPERM` without CAP_SETGID, unless it is a member already.
pub fn join_group(group: u32) -> Result<()> {
    let failed = |errno| OsError::new("setgroups", format!("gid {group}"), errno);
    let mut groups = rustix::process::getgroups().map_err(failed)?;
    let group = Gid::from_raw(group);
    if group == rustix::process::getegid() || groups.contains(&group) {
        return Ok(());
    }
    groups.push(group);
    rustix::thread::set_thread_groups(&groups).map_err(failed)
}

fn sets() -> Result<CapabilitySets> {
    rustix::thread::capabilities(None).map_err(|errno| OsError::new("capget", "this thread", errno))
}

/// Drops capabilities that are not in `keep` from the bounding set, if CAP_SETPCAP permits it;
/// otherwise does nothing.
///
/// # Errors
/// The errors of prctl(2) and capget(2).
pub fn drop_bounding(keep: Set) -> Result<()> {
    if !sets()?.effective.contains(CapabilitySet::SETPCAP) {
        return Ok(());
    }
    for number in 0..u64::BITS {
        let bit = CapabilitySet::from_bits_retain(1 << number);
        if keep.0.contains(bit) {
            continue;
        }
        match rustix::thread::capability_is_in_bounding_set(bit) {
            Ok(false) => {}
            Ok(true) => {
                rustix::thread::remove_capability_from_bounding_set(bit).map_err(|errno| {
                    let object = format!("capability {number}");
                    OsError::new("prctl PR_CAPBSET_DROP", object, errno)
                })?;
            }
            // This kernel has no further capabilities.
            Err(_) => break,
        }
    }
    Ok(())
}

fn verify_dropped(before: CapabilitySets, target: CapabilitySets) -> Result<()> {
    let refuse = |what: &str| Err(OsError::from_errno("capget", what, libc::EPERM));
    if sets()? != target {
        return refuse("some capabilities could not be dropped");
    }
    let regained = rustix::thread::set_capabilities(None, before).is_ok();
    if regained && sets()? != target {
        return refuse("dropped capabilities could be regained");
    }
    Ok(())
}

fn verify_user(uid: u32, gid: u32) -> Result<()> {
    let root = Uid::ROOT;
    let is = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    let back = uid != 0 && rustix::thread::set_thread_res_uid(root, root, root).is_ok();
    if back || is != (uid, gid) {
        let object = format!("uid {uid}, gid {gid}: the change did not hold");
        return Err(OsError::from_errno("setresuid", object, libc::EPERM));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::PacketSocket;
    use crate::testing;
    use std::os::fd::AsFd;

    #[test]
    fn sets_of_capabilities() {
        let set: Set = [Capability::NetRaw, Capability::Bpf].into_iter().collect();
        assert!(set.contains(Capability::NetRaw) && set.contains(Capability::Bpf));
        assert!(!set.contains(Capability::NetAdmin) && !set.is_empty());
        assert!(Set::EMPTY.is_empty());
        assert_eq!(Capability::NetAdmin.to_string(), "CAP_NET_ADMIN");
    }

    #[test]
    fn the_other_end_of_a_socket_pair_is_this_process() {
        let (a, b) = std::os::unix::net::UnixStream::pair().unwrap();
        let this = (std::process::id(), rustix::process::geteuid().as_raw());
        assert_eq!(peer(a.as_fd()).unwrap(), this);
        assert_eq!(peer(b.as_fd()).unwrap(), this);
        assert!(peer(std::fs::File::open("/dev/null").unwrap().as_fd()).is_err());
    }

    #[test]
    fn effective_is_within_permitted() {
        assert!(permitted().unwrap().0.contains(effective().unwrap().0));
        assert!(threads().unwrap() >= 1);
    }

    /// Also without privileges: then there is nothing to drop, and the call must succeed.
    #[test]
    fn drop_all_leaves_nothing() {
        std::thread::spawn(|| {
            drop_all(Set::EMPTY).unwrap();
            assert!(effective().unwrap().is_empty() && permitted().unwrap().is_empty());
            assert!(rustix::thread::no_new_privs().unwrap());
            let error = PacketSocket::open().unwrap_err();
            assert_eq!(error.to_string(), "socket(AF_PACKET): Operation not permitted (EPERM)");
        })
        .join()
        .unwrap();
    }

    #[test]
    fn privileged_drop_all_keeps_what_is_asked_in_this_thread_only() {
        testing::in_new_namespace(|| {
            std::thread::spawn(|| {
                drop_all([Capability::NetRaw].into_iter().collect()).unwrap();
                assert!(PacketSocket::open().is_ok());
                assert_eq!(effective().unwrap().0, CapabilitySet::NET_RAW);
                assert!(crate::iface::down("lo").is_err());
                // Threads started later inherit.
                std::thread::spawn(|| assert_eq!(permitted().unwrap().0, CapabilitySet::NET_RAW))
                    .join()
                    .unwrap();
            })
            .join()
            .unwrap();
            assert!(
                effective().unwrap().contains(Capability::NetAdmin),
                "other threads keep theirs"
            );
        });
    }

    #[test]
    fn privileged_switch_user_has_no_way_back() {
        testing::in_new_namespace(|| {
            switch_user(65534, 65534, &[7], false).unwrap();
            assert!(permitted().unwrap().is_empty());
            assert!(join_group(7).is_ok() && join_group(65534).is_ok());
            assert_eq!(join_group(8).unwrap_err().source.raw_os_error(), Some(libc::EPERM));
            assert!(switch_user(0, 0, &[], false).is_err());
            assert!(PacketSocket::open().is_err());
        });
        testing::in_new_namespace(|| {
            switch_user(65534, 65534, &[], true).unwrap();
            assert!(effective().unwrap().is_empty());
            drop_all([Capability::NetRaw].into_iter().collect()).unwrap();
            assert_eq!(effective().unwrap().0, CapabilitySet::NET_RAW);
            assert!(PacketSocket::open().is_ok());
            assert!(switch_user(0, 0, &[], false).is_err());
        });
    }
}
