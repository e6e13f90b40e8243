//! The mounts that a process sees.
#![allow(unsafe_code)]

use std::fs;
use std::os::fd::OwnedFd;

use rustix::fs::CWD;
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MountPropagationFlags, MoveMountFlags,
    OpenTreeFlags, fsconfig_create, fsmount, fsopen, mount_change, move_mount, open_tree,
};
use rustix::thread::UnshareFlags;
use wirelane_os::{OsError, Result};

/// Gives the calling thread, its descendants, and programs that it executes a `/sys` that shows the
/// interfaces of its network namespace. Other processes see no change. Mounts below `/sys`
/// (cgroups, `bpf`, `debug`) stay.
///
/// # Errors
/// `EPERM` without CAP_SYS_ADMIN, `ENOSYS` before Linux 5.2. The thread may then have a separate
/// mount namespace with unchanged mounts.
pub fn show_own_interfaces_in_sys() -> Result<()> {
    // SAFETY: this unshares the view of file systems, the current directory and the umask, and
    // neither descriptors nor memory, which is what can be unsound.
    unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNS) }
        .map_err(|errno| OsError::new("unshare", "CLONE_NEWNS", errno))?;
    // Mount events of the parent namespace propagate to this one; mounts made here stay private.
    let flags = MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC;
    mount_change("/", flags).map_err(|errno| OsError::new("mount MS_SLAVE", "/", errno))?;
    let failed = |call| move |errno: Errno| OsError::new(call, "/sys", errno);
    let below = below_sys()?;
    let sysfs = sysfs().map_err(failed("fsmount sysfs"))?;
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
    move_mount(&sysfs, "", CWD, "/sys", flags).map_err(failed("move_mount"))?;
    for (point, tree) in below {
        // A kernel's sysfs has the same directories in every namespace. Mounts on other directories
        // have no place any more.
        match move_mount(&tree, "", CWD, &*point, flags) {
            Err(Errno::NOENT) | Ok(()) => {}
            Err(errno) => return Err(OsError::new("move_mount", point, errno)),
        }
    }
    Ok(())
}

/// The mounts below `/sys`: the path, and a recursive copy of each.
fn below_sys() -> Result<Vec<(String, OwnedFd)>> {
    const FILE: &str = "/proc/thread-self/mountinfo";
    let table = fs::read_to_string(FILE).map_err(|error| OsError::new("read", FILE, error))?;
    let mut found: Vec<(String, OwnedFd)> = Vec::new();
    for point in points_below_sys(&table) {
        let flags = OpenTreeFlags::OPEN_TREE_CLONE
            | OpenTreeFlags::OPEN_TREE_CLOEXEC
            | OpenTreeFlags::AT_RECURSIVE;
        let tree = open_tree(CWD, &*point, flags)
            .map_err(|errno| OsError::new("open_tree", point.as_str(), errno))?;
        found.push((point, tree));
    }
    Ok(found)
}

/// The mount points below `/sys` that are not below another one of them.
fn points_below_sys(table: &str) -> Vec<String> {
    // proc_pid_mountinfo(5): the fifth field is the mount point, with odd characters in octal. /sys
    // itself has none.
    let mut points: Vec<_> = table
        .lines()
        .filter_map(|line| line.split(' ').nth(4))
        .filter(|point| point.starts_with("/sys/") && !point.contains('\\'))
        .map(str::to_owned)
        .collect();
    points.sort();
    let mut outermost: Vec<String> = Vec::new();
    for point in points {
        let within = |outer: &String| {
            point
                .strip_prefix(outer.as_str())
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        if !outermost.iter().any(within) {
            outermost.push(point);
        }
    }
    outermost
}

/// A sysfs of the calling thread's network namespace, with the properties that `/sys` has.
fn sysfs() -> rustix::io::Result<OwnedFd> {
    let mut attributes = MountAttrFlags::MOUNT_ATTR_NOSUID
        | MountAttrFlags::MOUNT_ATTR_NODEV
        | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    let read_only = rustix::fs::statvfs("/sys")?.f_flag;
    if read_only.contains(rustix::fs::StatVfsMountFlags::RDONLY) {
        attributes |= MountAttrFlags::MOUNT_ATTR_RDONLY;
    }
    let context = fsopen("sysfs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_create(&context)?;
    fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, attributes)
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use wirelane_os::{link, netns};
    use wirelane_testkit::netns::in_new_namespace;

    use super::*;

    #[test]
    fn only_the_outermost_points_count() {
        let table = "\
20 1 0:18 / /sys rw - sysfs sysfs rw
21 20 0:19 / /sys/fs/cgroup rw - tmpfs tmpfs rw
22 21 0:20 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw
23 20 0:21 / /sys/fs/bpf rw - bpf bpf rw
24 20 0:21 / /sys/fs/bpf rw - bpf bpf rw
25 20 0:22 / /sys/fs/cgroup2 rw - cgroup2 none rw
26 1 0:23 / /system rw - tmpfs none rw
";
        assert_eq!(points_below_sys(table), ["/sys/fs/bpf", "/sys/fs/cgroup", "/sys/fs/cgroup2"]);
    }

    #[test]
    fn privileged_sys_shows_the_interfaces_of_this_thread() {
        let table = || fs::read_to_string("/proc/thread-self/mountinfo").unwrap();
        let outside = table();
        in_new_namespace(|| {
            let here = netns::current().unwrap();
            let end = |name, mac| link::VethEnd { name, namespace: here.as_fd(), mac };
            let ends = [end("wl-sys", [2, 0, 0, 0, 0, 1]), end("wl-sys2", [2, 0, 0, 0, 0, 2])];
            link::create_veth(ends, 1, 1500).unwrap();
            let before = points_below_sys(&table());
            show_own_interfaces_in_sys().unwrap();
            let names = fs::read_dir("/sys/class/net").unwrap();
            let mut names: Vec<_> = names.map(|entry| entry.unwrap().file_name()).collect();
            names.sort();
            assert_eq!(names, ["lo", "wl-sys", "wl-sys2"]);
            assert_eq!(points_below_sys(&table()), before);
        });
        assert_eq!(table(), outside, "nobody else sees a change");
    }
}
