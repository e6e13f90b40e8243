//! Waits for the end of a recording, and says meanwhile what happens.

use std::collections::BTreeSet;
use std::time::Instant;

use wirelane::halt::Halt;
use wirelane::session::Session;
use wirelane_store::record::Recording;

use crate::output::headline;
use crate::output::progress::Progress;
use crate::output::store::{Store, StoreView};
use crate::output::{self, printable};
use crate::session::{self, SessionArgs};

/// For how long the speed of the disk is remembered, in seconds.
const MEMORY: f64 = 5.0;

/// Waits for the end: a signal, the time, or the recording itself. Tells how far it is whenever
/// SIGUSR1 asks; SIGUSR2 triggers.
pub(super) fn watch(
    recording: &Session<Recording>,
    view: &StoreView,
    args: &SessionArgs,
    halt: &Halt,
    started: Instant,
) {
    // It has begun: its own time counts.
    halt.limit(None);
    let monitor = recording.monitor();
    let mut teller = Teller::new(recording, view, args.quiet, started);
    let (mut reports, mut triggers) = (0, 0);
    while !halt.is_asked() {
        if changes(&mut reports, Halt::reports()) {
            headline::print_so_far(monitor.read(), started.elapsed().as_secs_f64());
        }
        if changes(&mut triggers, Halt::triggers()) {
            let fired = view.trigger().map(wirelane_store::record::Trigger::fire);
            if fired.is_none() && !args.quiet {
                output::line(format_args!("note: SIGUSR2: there is no trigger"));
            }
        }
        let mut pause = teller.progress.as_ref().map_or(session::PAUSE, |_| session::FRAME);
        if let Some(duration) = args.duration {
            let left = duration.saturating_sub(started.elapsed());
            if left.is_zero() {
                break;
            }
            pause = pause.min(left);
        }
        if recording.wait(pause) {
            break;
        }
        teller.update(recording);
    }
    teller.finish();
}

fn changes(before: &mut u32, now: u32) -> bool {
    std::mem::replace(before, now) != now
}

/// Says what happens, unless it is to be quiet.
struct Teller<'a> {
    view: &'a StoreView,
    quiet: bool,
    /// On a terminal.
    progress: Option<Progress>,
    /// When the store was looked at last, its bytes then, and the speed so far.
    before: (Instant, u64),
    bytes_per_s: f64,
    trouble: Option<String>,
    told: BTreeSet<String>,
}

impl<'a> Teller<'a> {
    fn new(
        recording: &Session<Recording>,
        view: &'a StoreView,
        quiet: bool,
        started: Instant,
    ) -> Self {
        let progress = if quiet { None } else { session::progress(&recording.monitor(), started) };
        Self {
            view,
            quiet,
            progress,
            before: (Instant::now(), 0),
            bytes_per_s: 0.0,
            trouble: None,
            told: BTreeSet::new(),
        }
    }

    fn update(&mut self, recording: &Session<Recording>) {
        if self.quiet {
            return;
        }
        let store = self.view.read();
        self.tell_troubles(&store);
        let Some(progress) = self.progress.as_mut().filter(|progress| progress.is_due()) else {
            return;
        };
        let (at, bytes) = std::mem::replace(&mut self.before, (Instant::now(), store.bytes));
        let seconds = at.elapsed().as_secs_f64().max(1e-3);
        let now = store.bytes.saturating_sub(bytes) as f64 / seconds;
        let weight = if self.bytes_per_s == 0.0 { 1.0 } else { (seconds / MEMORY).min(1.0) };
        self.bytes_per_s += (now - self.bytes_per_s) * weight;
        let now = recording.monitor().read();
        let drops = headline::drops(&now.queues);
        progress.update(now, store.lines(self.bytes_per_s).into_iter().chain([drops]));
    }

    /// Says what is done otherwise, once, and what keeps packets from the disk, whenever that
    /// changes.
    fn tell_troubles(&mut self, store: &Store) {
        for detour in store.detours() {
            if !self.told.contains(&detour) {
                output::line(format_args!("note: {detour}"));
                self.told.insert(detour);
            }
        }
        if store.trouble() == self.trouble.as_deref() {
            return;
        }
        match store.trouble() {
            Some(trouble) => output::line(format_args!("note: {}", printable(trouble))),
            None => output::line(format_args!("note: writing again")),
        }
        self.trouble = store.trouble().map(str::to_owned);
    }

    fn finish(self) {
        if let Some(progress) = self.progress {
            progress.finish();
        }
    }
}
