//! What a terminal shows while a session runs.

use std::path::Path;

use wirelane::session::monitor::Reading;

use super::worker::LiveWorker;
use crate::output::progress::Progress;
use crate::output::store::StoreView;

/// Who writes on the terminal.
pub(crate) enum Screen<'a> {
    /// Live figures, with how large this file grows.
    Figures(Option<&'a Path>),
    /// The command, with lines of its own.
    Own,
    /// Packets are there.
    Packets,
}

/// What a command adds to what all live commands show.
pub(crate) trait Show<W: LiveWorker> {
    /// Who writes on the terminal.
    fn screen(&self) -> Screen<'_>;

    /// Some time has passed. `progress` is for live figures; there is none where nobody looks.
    fn update(&mut self, _worker: &W, now: &dyn Fn() -> Reading, progress: Option<&mut Progress>) {
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
impl<W: LiveWorker> Show<W> for Screen<'_> {
    fn screen(&self) -> Screen<'_> {
        match self {
            Self::Figures(path) => Screen::Figures(*path),
            Self::Own => Screen::Own,
            Self::Packets => Screen::Packets,
        }
    }
}
