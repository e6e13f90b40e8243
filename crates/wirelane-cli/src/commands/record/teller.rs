//! Progress and notes of a running recording.

use std::collections::BTreeSet;
use std::time::Instant;

use wirelane::halt::Halt;
use wirelane::session::monitor::Reading;
use wirelane_store::record::Recording;

use crate::background::has_come;
use crate::live::{LiveLines, LiveScreen};
use crate::output::headline;
use crate::output::progress::ReceiveProgress;
use crate::output::store::{StoreSummary, StoreView};
use crate::output::{self, printable};

/// The time over which the disk's speed is averaged, in seconds.
const MEMORY: f64 = 5.0;

/// Prints progress and notes unless `quiet`. SIGUSR2 fires the trigger.
pub(super) struct RecordPrinter {
    view: StoreView,
    quiet: bool,
    triggers: u32,
    /// The time of the last reading, and the store's bytes at that time.
    before: (Instant, u64),
    bytes_per_s: f64,
    trouble: Option<String>,
    told: BTreeSet<String>,
}

impl LiveLines<Recording> for RecordPrinter {
    fn screen(&self) -> LiveScreen<'_> {
        LiveScreen::Figures(None)
    }

    fn store(&self) -> Option<StoreView> {
        Some(self.view.clone())
    }

    fn update(
        &mut self,
        _: &Recording,
        now: &dyn Fn() -> Reading,
        progress: Option<&mut ReceiveProgress>,
    ) {
        self.trigger();
        if self.quiet {
            return;
        }
        let store = self.view.read();
        self.tell_troubles(&store);
        let Some(progress) = progress.filter(|progress| progress.is_due()) else { return };
        let (at, bytes) = std::mem::replace(&mut self.before, (Instant::now(), store.bytes));
        let seconds = at.elapsed().as_secs_f64().max(1e-3);
        let speed = store.bytes.saturating_sub(bytes) as f64 / seconds;
        let weight = if self.bytes_per_s == 0.0 { 1.0 } else { (seconds / MEMORY).min(1.0) };
        self.bytes_per_s += (speed - self.bytes_per_s) * weight;
        let now = now();
        let drops = headline::drops(&now.queues);
        progress.update(now, store.lines(self.bytes_per_s).into_iter().chain([drops]));
    }
}

impl RecordPrinter {
    pub(super) fn new(view: StoreView, quiet: bool) -> Self {
        Self {
            view,
            quiet,
            triggers: 0,
            before: (Instant::now(), 0),
            bytes_per_s: 0.0,
            trouble: None,
            told: BTreeSet::new(),
        }
    }

    fn trigger(&mut self) {
        if !has_come(&mut self.triggers, Halt::triggers()) {
            return;
        }
        let fired = self.view.trigger().map(wirelane_store::record::Trigger::fire);
        if fired.is_none() && !self.quiet {
            output::note("SIGUSR2: there is no trigger");
        }
    }

    /// Prints each detour once, and each change of the trouble that keeps packets from the disk.
    fn tell_troubles(&mut self, store: &StoreSummary) {
        for detour in store.detours() {
            if !self.told.contains(&detour) {
                output::note(&detour);
                self.told.insert(detour);
            }
        }
        if store.trouble() == self.trouble.as_deref() {
            return;
        }
        match store.trouble() {
            Some(trouble) => output::note(printable(trouble)),
            None => output::note("writing again"),
        }
        self.trouble = store.trouble().map(str::to_owned);
    }
}
