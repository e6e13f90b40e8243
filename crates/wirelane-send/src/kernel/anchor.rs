//! An attachment that makes runs of a program cheap.

use std::os::fd::{AsFd, OwnedFd};

use wirelane_os::bpf::{Link, Program, XdpMode};
use wirelane_os::link::{self, VethEnd};
use wirelane_os::{OsError, iface, netns};

/// Keeps a program attached, so that the kernel has a dispatcher slot for it.
///
/// A run of several frames adds its program to the XDP dispatcher, whose programs the kernel calls
/// directly, and removes it at the end (`bpf_prog_change_xdp` in `bpf_prog_test_run_xdp`). Both
/// steps wait for every CPU (`synchronize_rcu` in `bpf_dispatcher_change_prog`), unless the
/// dispatcher already has the program because it is attached to an interface. The anchor attaches
/// it to an otherwise unused veth in a separate network namespace.
#[derive(Debug)]
pub(super) struct Anchor {
    _link: Link,
    _namespace: OwnedFd,
}

impl Anchor {
    /// Creates the veth pair and attaches the program.
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
