//! The lines on a terminal while a session runs.

use std::path::Path;

use wirelane::session::monitor::Reading;

use super::worker::LiveWorker;
use crate::output::progress::ReceiveProgress;
use crate::output::store::StoreView;

/// The writer of the terminal's last lines.
#[derive(Clone, Copy)]
pub(crate) enum LiveScreen<'a> {
    /// Live figures, with how large this file grows.
    Figures(Option<&'a Path>),
    /// The command itself.
    Own,
    /// Nothing: packets are printed there.
    Packets,
}

/// Lines of one command, in addition to the lines of all live commands.
pub(crate) trait LiveLines<W: LiveWorker> {
    /// The writer of the terminal's last lines.
    fn screen(&self) -> LiveScreen<'_>;

    /// Called periodically. `progress` is for live figures; `None` without a terminal.
    fn update(
        &mut self,
        _worker: &W,
        now: &dyn Fn() -> Reading,
        progress: Option<&mut ReceiveProgress>,
    ) {
        if let Some(progress) = progress {
            progress.update(now(), []);
        }
    }

    /// SIGUSR1 has asked for a report, and the counters have been printed.
    fn report(&mut self, _worker: &W) {}

    /// The store that is written.
    fn store(&self) -> Option<StoreView> {
        None
    }
}

/// For a command that adds nothing: only live figures, if they may be on the screen.
impl<W: LiveWorker> LiveLines<W> for LiveScreen<'_> {
    fn screen(&self) -> LiveScreen<'_> {
        *self
    }
}
