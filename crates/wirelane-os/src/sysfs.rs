//! `/sys/class/net` of the right network namespace.
//!
//! `/sys/class/net` shows the network namespace of the process that mounted it, whatever the
//! reader's namespace: after `setns` it still lists the other namespace. So a fresh sysfs is
//! mounted, detached and visible only through a descriptor. Without the privilege for that, `/sys`
//! is used if it lists exactly the interfaces of this namespace.

use std::collections::BTreeSet;
use std::os::fd::OwnedFd;

use rustix::fs::{CWD, Dir, Mode, OFlags, openat};
use rustix::io::{Errno, read};
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};

use crate::netdev::{self, Link};

/// A sysfs that shows the network interfaces of one namespace.
#[derive(Debug)]
pub struct Sysfs {
    root: OwnedFd,
}

impl Sysfs {
    /// The sysfs of the calling thread's network namespace; `None` if it is not accessible.
    pub fn of_this_namespace() -> Option<Sysfs> {
        Sysfs::mount().ok().or_else(|| Sysfs::checked(&netdev::links().ok()?))
    }

    /// The contents of a small file, trimmed, e.g. `class/net/eth0/mtu`; `None` if it cannot be
    /// read.
    pub fn read(&self, path: &str) -> Option<String> {
        let file =
            openat(&self.root, path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()?;
        let mut contents = Vec::new();
        let mut buffer = [0_u8; 4096];
        loop {
            match read(&file, &mut buffer) {
                Err(Errno::INTR) => {}
                Err(_) => return None,
                Ok(0) => return Some(String::from_utf8_lossy(&contents).trim().to_owned()),
                Ok(length) => contents.extend_from_slice(buffer.get(..length)?),
            }
        }
    }

    /// The names in a directory, sorted; `None` if it cannot be read.
    pub fn list(&self, path: &str) -> Option<BTreeSet<String>> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = openat(&self.root, path, flags, Mode::empty()).ok()?;
        let mut names = BTreeSet::new();
        for entry in Dir::new(directory).ok()? {
            let name = entry.ok()?.file_name().to_string_lossy().into_owned();
            if name != "." && name != ".." {
                names.insert(name);
            }
        }
        Some(names)
    }

    /// A new instance, which shows the namespace of the calling thread (sysfs_init_fs_context).
    /// Needs Linux 5.2 and CAP_SYS_ADMIN.
    fn mount() -> rustix::io::Result<Sysfs> {
        let context = fsopen("sysfs", FsOpenFlags::FSOPEN_CLOEXEC)?;
        fsconfig_create(&context)?;
        let attributes = MountAttrFlags::MOUNT_ATTR_RDONLY
            | MountAttrFlags::MOUNT_ATTR_NOSUID
            | MountAttrFlags::MOUNT_ATTR_NODEV
            | MountAttrFlags::MOUNT_ATTR_NOEXEC;
        let root = fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, attributes)?;
        Ok(Sysfs { root })
    }

    /// `/sys`, if it lists the same names, indices and addresses. Two namespaces with equal lists
    /// are not distinguishable by them.
    fn checked(links: &[Link]) -> Option<Sysfs> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let sysfs = Sysfs { root: openat(CWD, "/sys", flags, Mode::empty()).ok()? };
        // `bonding_masters` is a file in the directory of interfaces.
        let mut shown = sysfs.list("class/net")?;
        shown.remove("bonding_masters");
        let expected: BTreeSet<_> = links.iter().map(|link| link.name.clone()).collect();
        let same = shown == expected
            && links.iter().all(|link| {
                let file = |name| sysfs.read(&format!("class/net/{}/{name}", link.name));
                file("ifindex") == Some(link.index.to_string())
                    && file("address") == Some(address(&link.address))
            });
        same.then_some(sysfs)
    }
}

/// A link-layer address in the format of sysfs.
fn address(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(":")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netdev::links;

    #[test]
    fn lists_the_interfaces_of_this_namespace() {
        let links = links().unwrap();
        let Some(sysfs) = Sysfs::of_this_namespace() else {
            eprintln!("SKIPPED: no sysfs of this namespace can be seen");
            return;
        };
        let shown = sysfs.list("class/net").unwrap();
        for link in links {
            assert!(shown.contains(&link.name), "{} not in {shown:?}", link.name);
        }
        assert_eq!(sysfs.read("class/net/lo/ifindex").as_deref(), Some("1"));
        assert_eq!(sysfs.read("class/net/no-such-interface/mtu"), None);
    }

    #[test]
    fn another_list_of_interfaces_is_refused() {
        let Ok(mut links) = links() else { return };
        links.push(Link { index: 4242, name: "elsewhere".into(), ..Link::default() });
        assert!(Sysfs::checked(&links).is_none());
    }
}
