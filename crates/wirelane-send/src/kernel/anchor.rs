//! A place that makes runs of a program cheap.

use std::os::fd::{AsFd, OwnedFd};

use wirelane_os::bpf::{Link, Program, XdpMode};
use wirelane_os::link::{self, VethEnd};
use wirelane_os::{OsError, iface, netns};

/// Keeps a program where the kernel has a fast way to it.
///
/// A run of several frames puts its program among those that the kernel calls directly, and takes
/// it out at the end (`bpf_prog_change_xdp` in `bpf_prog_test_run_xdp`). Each of the two waits for
/// every CPU (`synchronize_rcu` in `bpf_dispatcher_change_prog`), unless the program is there
/// already because it is on an interface: this one, which nobody uses, in a namespace of its own.
#[derive(Debug)]
pub(super) struct Anchor {
    _link: Link,
    _namespace: OwnedFd,
}

impl Anchor {
    /// Anchors a program.
    pub(super) fn of(program: &Program) -> Result<Self, OsError> {
        let namespace = netns::anonymous()?;
        let link = {
            let _inside = netns::enter(&namespace)?;
            let end = |name, last| VethEnd {
                name,
                namespace: namespace.as_fd(),
                mac: [0x02, 0x57, 0x4c, 0xff, 0xff, last],
            };
            link::create_veth([end("wl-anchor", 1), end("wl-idle", 2)], 1, 1500)?;
            Link::attach(iface::index("wl-anchor")?, program, XdpMode::Native)?
        };
        Ok(Self { _link: link, _namespace: namespace })
    }
}
