//! Finds the cgroup of this process.

use std::path::{Path, PathBuf};

use crate::file;

/// The version of the cgroup interface; see cgroups(7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// A hierarchy for each controller, or for some of them.
    One,
    /// One hierarchy for all controllers.
    Two,
}

/// The process IDs of this process and its ancestors, as far as /proc shows them.
pub fn ancestry() -> impl Iterator<Item = u32> {
    std::iter::successors(Some(std::process::id()), |pid| {
        let status = file::small(format!("/proc/{pid}/status")).ok()?;
        let parent = status.lines().find_map(|line| line.strip_prefix("PPid:"))?;
        parent.trim().parse().ok().filter(|parent| *parent != 0)
    })
}

/// The directory of the cgroup of this process in the hierarchy with `controller`; `None` if this
/// process cannot see one.
pub fn own(controller: &str) -> Option<(PathBuf, Version)> {
    let read = |file: String| file::small(file).ok();
    let own = read("/proc/self/cgroup".to_owned())?;
    // `ip netns exec` mounts another /sys over the old one, without cgroups: its parent process
    // still sees them.
    ancestry().enumerate().find_map(|(position, pid)| {
        let mounts = read(format!("/proc/{pid}/mountinfo"))?;
        let (directory, version) = locate(&mounts, &own, controller)?;
        let root = if position == 0 { "/".into() } else { format!("/proc/{pid}/root") };
        let seen = Path::new(&root).join(directory.strip_prefix("/").ok()?);
        seen.is_dir().then_some((seen, version))
    })
}

/// As [`own`], from `mountinfo` and `cgroup` of `/proc/self`. Version 1 first: if it has the
/// controller, version 2 lacks it.
fn locate(mounts: &str, own: &str, controller: &str) -> Option<(PathBuf, Version)> {
    let own_path = |is_wanted: &dyn Fn(&str) -> bool| {
        own.lines().find_map(|line| {
            let (_, rest) = line.split_once(':')?;
            let (controllers, path) = rest.split_once(':')?;
            is_wanted(controllers).then_some(path)
        })
    };
    let has_controller = |list: &str| list.split(',').any(|name| name == controller);
    let find = |kind: &str, is_wanted: &dyn Fn(&str) -> bool, path: &str| {
        mounts.lines().find_map(|line| {
            let (place, filesystem) = line.split_once(" - ")?;
            let mut filesystem = filesystem.split(' ');
            let (type_, options) = (filesystem.next()?, filesystem.nth(1)?);
            let mut place = place.split(' ').skip(3);
            let (root, point) = (place.next()?, place.next()?);
            if type_ != kind || !is_wanted(options) {
                return None;
            }
            let below = Path::new(path).strip_prefix(root).ok()?;
            Some(Path::new(point).join(below))
        })
    };
    let first = own_path(&has_controller).and_then(|path| find("cgroup", &has_controller, path));
    if let Some(directory) = first {
        return Some((directory, Version::One));
    }
    let path = own_path(&str::is_empty)?;
    find("cgroup2", &|_| true, path).map(|directory| (directory, Version::Two))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_cgroup_is_found_in_both_versions() {
        let mixed = "30 25 0:26 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu\n\
                     31 25 0:27 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n\
                     39 25 0:35 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
        let own = "3:cpuset:/\n1:cpu,cpuacct:/a/b\n0::/user\n";
        let found = locate(mixed, own, "cpu").unwrap();
        assert_eq!(found, ("/sys/fs/cgroup/cpu/a/b".into(), Version::One));
        let unified =
            "26 24 0:24 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";
        let found = locate(unified, "0::/user.slice/x.scope\n", "cpu").unwrap();
        assert_eq!(found, ("/sys/fs/cgroup/user.slice/x.scope".into(), Version::Two));
        // A part of the hierarchy, as in a container.
        let part = "26 24 0:24 /box /sys/fs/cgroup rw - cgroup2 cgroup rw\n";
        assert_eq!(locate(part, "0::/box/in\n", "cpu").unwrap().0, Path::new("/sys/fs/cgroup/in"));
        assert_eq!(locate(part, "0::/elsewhere\n", "cpu"), None);
        assert_eq!(locate("", "0::/\n", "cpu"), None);
        assert_eq!(locate("x - cgroup2", "::", "cpu"), None);
    }
}
