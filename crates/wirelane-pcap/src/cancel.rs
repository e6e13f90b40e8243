//! Cancels waiting for a silent pipe or a stalled reader.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

/// Decides when to stop, for example a session that a signal ends.
pub trait CancelSource: Debug + Send + Sync {
    /// Whether the caller requested the end: reading stops.
    fn is_asked(&self) -> bool;

    /// Whether to stop waiting for a pipe without a writer or without a reader.
    fn ends_waiting(&self) -> bool;

    /// Whether a writer must give up because its reader has read nothing for this long.
    fn gives_up(&self, stalled: Duration) -> bool;
}

/// A [`CancelSource`], or none: then waiting is never cancelled. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Cancel(Option<Arc<dyn CancelSource>>);

impl Cancel {
    /// The longest sleep between two checks.
    pub const NAP: Duration = Duration::from_millis(20);

    /// Follows this source.
    pub fn new(source: impl CancelSource + 'static) -> Self {
        Self(Some(Arc::new(source)))
    }
}

impl CancelSource for Cancel {
    fn is_asked(&self) -> bool {
        self.0.as_ref().is_some_and(|source| source.is_asked())
    }

    fn ends_waiting(&self) -> bool {
        self.0.as_ref().is_some_and(|source| source.ends_waiting())
    }

    fn gives_up(&self, stalled: Duration) -> bool {
        self.0.as_ref().is_some_and(|source| source.gives_up(stalled))
    }
}
