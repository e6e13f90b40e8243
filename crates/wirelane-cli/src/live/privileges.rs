//! The time when a live command drops its privileges.

use wirelane::port::{Backend, Port};
use wirelane::{Error, Result};
use wirelane_os::privilege::Set;

use super::arguments::SessionArgs;
use crate::privilege::{self, User};

/// The privileges of the process until it drops them.
pub(crate) struct Privileges {
    user: Option<User>,
    /// The group whose members may read the output, too.
    group: Option<u32>,
    keep: bool,
    dropped: bool,
}

impl Privileges {
    /// As `args` request; changes nothing yet.
    ///
    /// # Errors
    /// There is no such user.
    pub(super) fn new(args: &SessionArgs) -> Result<Self> {
        let user = args.user.as_deref().map(privilege::find_user).transpose()?;
        Ok(Self { user, group: None, keep: args.keep_privileges, dropped: false })
    }

    /// Gives later files to this group.
    pub(crate) fn give_files_to(&mut self, group: Option<u32>) {
        self.group = group;
    }

    /// Drops privileges, if there are any, before the first packet is received or the first file is
    /// created. Keeps the privileges that `ports` need later.
    ///
    /// # Errors
    /// The system does not let the process become that user.
    pub(crate) fn give_away(&mut self, ports: &[Port]) -> Result<()> {
        if self.dropped {
            return Ok(());
        }
        if let Some(group) = self.group {
            privilege::join(group)?;
        }
        if self.keep || !(privilege::is_privileged() || self.user.is_some()) {
            return Ok(());
        }
        let has_maps = ports.iter().any(|port| port.info().backend == Backend::Xdp);
        let keep = if has_maps { privilege::for_maps() } else { Set::EMPTY };
        privilege::drop_all(self.user.take().or_else(privilege::sudo_user), self.group, keep)?;
        self.dropped = true;
        Ok(())
    }

    /// Whether privileges have been dropped.
    pub(crate) fn are_dropped(&self) -> bool {
        self.dropped
    }

    /// Names dropped privileges as a possible reason for a refusal.
    pub(crate) fn explain(&self, error: Error) -> Error {
        // EACCES (13) or EPERM (1): what the user can do as root, the process no longer can.
        if self.dropped && matches!(error.errno(), Some(1 | 13)) {
            return error.help(
                "the command had dropped its privileges by then; write where the user may, choose \
                 another with --user, or add --keep-privileges",
            );
        }
        error
    }
}
