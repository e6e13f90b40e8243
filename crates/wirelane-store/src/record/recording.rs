//! A running recording: a receiving thread per queue, each with a lane of the store.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use wirelane::internal::pipeline::{Work, by_queue};
use wirelane::internal::session::Receiving;
use wirelane::internal::session::needs_merge;
use wirelane::internal::session::{Interface, interfaces};
use wirelane::pcap::Written;
use wirelane::pipeline::Threads;
use wirelane::port::{Port, PortInfo, Rx};
use wirelane::session::Session;
use wirelane::session::monitor::Monitor;
use wirelane::{Error, Result};
use wirelane_os::memory::{self, Room};

use super::config::{RecordConfig, RecordOutcome};
use super::journal::Journal;
use super::order::OrderedRecording;
use super::trigger::{Lookout, Trigger};
use super::worker::{RecordWorker, RecordedRx};
use crate::{EXTENT_SIZE, MendReport, StoreOptions, StoreReport, StoreStatus, StoreWriter};

/// The threads of a recording, and the store that they write to.
pub struct Recording {
    /// Ends before the store.
    receiving: Receiving<RecordWorker>,
    store: StoreWriter,
    info: PortInfo,
    notes: Vec<String>,
    status: Arc<StoreStatus>,
    trigger: Option<Trigger>,
    directory: String,
}

impl Recording {
    /// Opens the store in `directory`, starts the threads, and lets packets in when all of them are
    /// ready.
    ///
    /// # Errors
    /// The store cannot be written, the trigger's filter does not compile for the port, a CPU
    /// cannot be used, or the port refuses to start.
    pub fn start(mut port: Port, directory: &Path, config: &RecordConfig) -> Result<Session<Self>> {
        let info = port.info().clone();
        let inputs = vec![port.rx()?];
        let trigger = config.trigger.as_ref().map(Trigger::new);
        let pre_trigger = trigger.as_ref().map(|trigger| Arc::clone(trigger.pre_trigger()));
        // A trigger examines packets in the order of receiving.
        let in_order = trigger.is_none() && needs_merge(config.packets, &inputs);
        let monitor = Monitor::of_receivers([(&port, inputs.iter().flatten())]);
        let inputs: Vec<Rx> = inputs.into_iter().flatten().collect();
        let groups = match (config.single || in_order) && !inputs.is_empty() {
            true => vec![inputs],
            false => by_queue(inputs, |rx| rx),
        };
        // A filter that does not compile is refused before anything is created.
        let ends = groups.iter().map(|group| ends(port.info(), group, config, trigger.as_ref()));
        let ends = ends.collect::<Result<Vec<_>>>()?;
        let mut options = StoreOptions { pre_trigger, ..config.store.clone() };
        let notes = fit(&mut options, groups.len(), &memory::room())?;
        if let Some(metadata) = port.file_metadata() {
            metadata.leave_out();
            // It was captured elsewhere, or at another time.
            options.section.hardware.clear();
            options.section.os.clear();
            options.section.inherit(&[metadata.section()]);
        }
        let mut store = StoreWriter::create(directory, options)?;
        let halt = config.halt.below();
        let mut journal =
            |interfaces| Journal::start(&mut store, interfaces, config.statistics_every, &halt);
        let receiving = if in_order {
            let view = Box::new(OrderedRecording::new(journal(Vec::new())?));
            let (packets, placement) = (config.packets, config.placement.clone());
            Receiving::start_in_order(vec![port], groups, packets, config.single, placement, view)?
        } else {
            let lossless = port.info().lossless;
            let mut work = Vec::new();
            for (rx, (ends, interfaces)) in groups.into_iter().zip(ends) {
                let consumer = RecordWorker { ends, journal: journal(interfaces)?, lossless };
                work.push(Work { port: 0, rx, consumer });
            }
            let threads =
                Threads::default().placed(config.placement.clone()).packets(config.packets);
            Receiving::Queues(threads.start(vec![port], work)?)
        };
        let status = store.status();
        let written = Arc::clone(&status);
        let monitor = monitor.writing(move || {
            let total = written.report().total();
            Written {
                files: total.segments.into(),
                packets: total.written.packets,
                bytes: total.disk_bytes,
            }
        });
        let directory = directory.display().to_string();
        let handle = receiving.handle().stopping(move || halt.ask());
        let recording = Self { receiving, store, info, notes, status, trigger, directory };
        Ok(Session::new(recording, monitor, handle))
    }

    /// Reads what the store does, from any thread.
    pub fn status(&self) -> Arc<StoreStatus> {
        Arc::clone(&self.status)
    }

    /// The unfinished files of an earlier recording that died, and how they were repaired.
    pub fn mended(&self) -> &MendReport {
        self.store.mended()
    }

    /// Fires, from any thread; `None` if everything is written.
    pub fn trigger(&self) -> Option<Trigger> {
        self.trigger.clone()
    }
}

impl wirelane::session::Worker for Recording {
    type Outcome = RecordOutcome;

    fn wait(&self, timeout: Duration) -> bool {
        self.receiving.wait(timeout)
    }

    /// It does not wait for a stalled disk, but counts the packets that the disk did not take.
    fn join(self, monitor: &Monitor) -> RecordOutcome {
        let Self { receiving, store, info, notes, trigger, directory, .. } = self;
        let ended = receiving.join();
        let report = store.finish();
        let mut errors = ended.errors;
        errors.extend(failures(&report, directory));
        let mut port = ended.ports.into_iter().next().unwrap_or(info);
        port.notes.extend(notes);
        RecordOutcome {
            port,
            queues: monitor.queues(),
            frames: ended.frames.into_iter().next().unwrap_or_default(),
            store: report,
            triggers: trigger.map(|trigger| trigger.fired()),
            errors,
        }
    }
}

/// The trouble that still keeps packets from the disk at the end.
fn failures(report: &StoreReport, directory: String) -> Option<Error> {
    let trouble = report.trouble.clone()?;
    let help = "make room, or see to the disk; what was recorded before is there";
    Some(Error::failed(directory, trouble).help(help))
}

/// Bytes of buffers that a lane needs at least.
const FEW_BUFFERS: usize = 4 << 20;

/// Fits the compressing threads and buffers of `lanes` lanes into the memory. The notes list what
/// is smaller than requested. Half of the free memory is for other programs, as in a capture.
///
/// # Errors
/// There is no memory for a thread that compresses.
fn fit(options: &mut StoreOptions, lanes: usize, room: &Room) -> Result<Vec<String>> {
    let Room { bytes, limit } = room;
    let share = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX) / lanes.max(1);
    let mut each = share(bytes / 2);
    let mut notes = Vec::new();
    if let Some(wanted) = options.compression {
        let name = wanted.compression.name();
        let needed = wanted.bytes(EXTENT_SIZE);
        let most = share(bytes / 4 * 3);
        let one = || wanted.within(most.saturating_sub(FEW_BUFFERS).min(needed), EXTENT_SIZE);
        let Some(had) = wanted.within(each / 2, EXTENT_SIZE).or_else(one) else {
            let object = format!("{name} at level {}", wanted.level);
            let all = ((needed + FEW_BUFFERS) * lanes / 3 * 4) >> 20;
            let cause = format!("{all} MiB are needed, and {limit} leaves {} MiB", bytes >> 20);
            let help = "choose a lower level, or raise the limit";
            return Err(Error::failed(object, cause).help(help));
        };
        if had.threads < wanted.threads {
            let (had, wanted) = (had.threads, wanted.threads);
            notes.push(limit.note(format_args!("threads={had} for {name} and each queue"), wanted));
        }
        let taken = usize::from(had.threads) * needed;
        each = each.saturating_sub(taken).max((most - taken).min(FEW_BUFFERS));
        options.compression = Some(had);
    }
    if each < options.buffer {
        options.buffer = each;
        let note = format!("{each} bytes before the disk for each queue");
        notes.push(format!("{note}: {limit} allows no more"));
    }
    Ok(notes)
}

/// The receiving ends of one thread, and the interfaces of its lane.
fn ends(
    info: &PortInfo,
    group: &[Rx],
    config: &RecordConfig,
    trigger: Option<&Trigger>,
) -> Result<(Vec<RecordedRx>, Vec<Interface>)> {
    let filter = config.trigger.as_ref().and_then(|trigger| trigger.filter.as_ref());
    let (mut ends, mut all) = (Vec::new(), Vec::new());
    for rx in group {
        let own = interfaces(info, rx);
        let lookout = match (trigger, filter) {
            (Some(trigger), Some(filter)) => {
                Some(Lookout::new(trigger.pre_trigger(), filter, &own)?)
            }
            _ => None,
        };
        let first = u32::try_from(all.len()).unwrap_or(u32::MAX);
        ends.push(RecordedRx::new(rx, first, &own, lookout));
        all.extend(own);
    }
    Ok((ends, all))
}

#[cfg(test)]
mod tests {
    use wirelane::pcap::CompressionOptions;
    use wirelane_os::memory::Limit;

    use super::*;

    #[test]
    fn memory_is_left_to_others() {
        let fitted = |buffer, bytes: u64, lanes, how: &str| {
            let compression = CompressionOptions::parse(how).unwrap();
            let mut options = StoreOptions { buffer, compression, ..StoreOptions::default() };
            let room = Room { bytes: bytes << 20, limit: Limit::Machine };
            let notes = fit(&mut options, lanes, &room).map_err(|error| error.to_string())?;
            let threads = options.compression.map_or(0, |options| options.threads);
            Ok::<_, String>((options.buffer >> 20, threads, notes.join("\n")))
        };
        assert_eq!(fitted(1 << 20, 100, 1, "none"), Ok((1, 0, String::new())));
        let (each, _, note) = fitted(usize::MAX, 400, 4, "none").unwrap();
        assert!(each == 50 && note.starts_with("52428800 bytes before the disk"), "{note}");
        let (each, threads, notes) = fitted(32 << 20, 200, 1, "zstd:19,threads=4").unwrap();
        assert_eq!((each, threads), (32, 2));
        assert!(notes.starts_with("threads=2 for zstd and each queue instead of 4"), "{notes}");
        let (each, threads, _) = fitted(32 << 20, 60, 1, "zstd:19,threads=4").unwrap();
        assert_eq!((each, threads), (11, 1));
        assert_eq!(fitted(32 << 20, 64, 2, "zstd:19").map(|fit| (fit.0, fit.1)), Ok((4, 1)));
        let why = fitted(32 << 20, 30, 4, "zstd:19").unwrap_err();
        assert!(
            why.contains("122 MiB are needed, and the machine's memory leaves 30 MiB"),
            "{why}"
        );
    }
}
