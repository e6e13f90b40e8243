//! One interface opened through one backend.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use wirelane_os::clock;

use super::accounting::{Accounting, FrameCounts};
use super::control::{Control, Driver};
use super::info::PortInfo;
use super::rx::Rx;
use super::tx::Tx;
use crate::error::{Error, Result};
use crate::frame::Sink;
use crate::inspect::Steering;
use crate::pcap::FileId;
use crate::port::metadata::file::FileMetadata;
use crate::port::offload::gso;
use crate::port::offload::switches::Switches;
use crate::segment::Segmenter;

/// One interface opened through one backend.
///
/// Dropping a port stops it: its receiving ends deliver what is in the rings, then
/// [`Readiness::End`](super::Readiness::End) follows. Frames in use stay valid, also those that its
/// transmitting ends have taken. Whether these ends can still send depends on the interface.
pub struct Port {
    pub(super) info: PortInfo,
    pub(super) rx: Vec<Rx>,
    pub(super) tx: Vec<Tx>,
    pub(super) driver: Arc<dyn Driver>,
    pub(super) accounting: Accounting,
    pub(super) sink: Sink,
    pub(super) is_endless: bool,
    pub(super) leaves_cutting: bool,
    pub(super) inputs: Vec<FileId>,
    pub(super) file_metadata: Option<Arc<FileMetadata>>,
    pub(super) switches: Arc<Switches>,
    /// Reads again how its TX queues are reached, where that may change.
    pub(super) steering: Option<Arc<Steering>>,
    has_started: Arc<AtomicBool>,
    handed_out: HandedOut,
}

/// Which ends were handed out.
#[derive(Default)]
struct HandedOut {
    rx: bool,
    tx: bool,
}

impl Port {
    /// A port without ends; the backend adds the rest.
    pub(super) fn new(info: PortInfo, driver: Arc<dyn Driver>, accounting: Accounting) -> Self {
        Self {
            info,
            rx: Vec::new(),
            tx: Vec::new(),
            driver,
            accounting,
            sink: Sink::unlimited(),
            is_endless: true,
            leaves_cutting: false,
            inputs: Vec::new(),
            file_metadata: None,
            switches: Arc::default(),
            steering: None,
            has_started: Arc::default(),
            handed_out: HandedOut::default(),
        }
    }

    /// What it turned out to be.
    pub fn info(&self) -> &PortInfo {
        &self.info
    }

    /// Hands out the receiving ends: one per queue and class. A port that only sends has none.
    ///
    /// # Errors
    /// They were handed out before.
    pub fn rx(&mut self) -> Result<Vec<Rx>> {
        if std::mem::replace(&mut self.handed_out.rx, true) {
            return Err(self.misused("its receiving ends were handed out before"));
        }
        let ends = std::mem::take(&mut self.rx).into_iter();
        let (spec, flag) = (Arc::<str>::from(self.info.spec.as_str()), &self.has_started);
        Ok(ends.map(|rx| rx.of_port(&spec, flag)).collect())
    }

    /// Hands out the transmitting ends, one per TX queue.
    ///
    /// # Errors
    /// They were handed out before, or the port has none: see [`Port::transmits`].
    pub fn tx(&mut self) -> Result<Vec<Tx>> {
        if std::mem::replace(&mut self.handed_out.tx, true) {
            return Err(self.misused("its transmitting ends were handed out before"));
        }
        if self.tx.is_empty() {
            let misused = self.misused("it was opened without transmitting ends");
            return Err(misused.help("open it with OpenOptions::transmit(true)"));
        }
        Ok(std::mem::take(&mut self.tx))
    }

    /// As [`Port::tx`], or [`Port::tx_cutting`] if it `cuts`, but empty if it has none to hand out.
    ///
    /// # Errors
    /// As [`Port::tx_cutting`].
    pub fn tx_if_any(&mut self, cuts: bool) -> Result<Vec<Tx>> {
        match (self.transmits(), cuts) {
            (false, _) => Ok(Vec::new()),
            (true, true) => self.tx_cutting(),
            (true, false) => self.tx(),
        }
    }

    /// Whether it has transmitting ends that were not handed out. It has some if it was opened with
    /// [`OpenOptions::transmit`](super::OpenOptions::transmit).
    pub fn transmits(&self) -> bool {
        !self.tx.is_empty()
    }

    fn misused(&self, cause: &'static str) -> Error {
        Error::usage(format!("port '{}'", self.info.spec), cause)
    }

    /// Hands out the transmitting ends, each behind a segmenter. It cuts frames that are marked for
    /// it ([`Frame::offload`](crate::Frame::offload)), and frames too long for the port of a
    /// protocol in [`Port::switches`]. [`Tx::segments`] counts what it cut.
    ///
    /// # Errors
    /// As [`Port::tx`].
    pub fn tx_cutting(&mut self) -> Result<Vec<Tx>> {
        let (sink, switches) = (self.sink, Arc::clone(&self.switches));
        let cut = |tx: Tx| {
            // Nobody outside can guess the time to the nanosecond.
            let secret = clock::realtime_ns() ^ u64::from(std::process::id()) << 32;
            let segmenter = Segmenter::new(sink).with_fragment_secret(secret);
            gso::tx(tx, segmenter, Arc::clone(&switches))
        };
        Ok(self.tx()?.into_iter().map(cut).collect())
    }

    /// What is cut and merged at this port, at first as its spec says. [`Port::tx_cutting`] follows
    /// changes while it runs.
    pub fn switches(&self) -> &Arc<Switches> {
        &self.switches
    }

    /// Replaces the switches, before [`Port::tx_cutting`].
    pub fn set_switches(&mut self, switches: Arc<Switches>) {
        self.switches = switches;
    }

    /// Wraps each receiving end that was not handed out, as [`Rx::wrap`] does.
    pub fn map_rx(&mut self, wrap: impl FnMut(Rx) -> Rx) {
        self.rx = std::mem::take(&mut self.rx).into_iter().map(wrap).collect();
    }

    /// Wraps each transmitting end that was not handed out, as [`Tx::wrap`] does.
    pub fn map_tx(&mut self, wrap: impl FnMut(Tx) -> Tx) {
        self.tx = std::mem::take(&mut self.tx).into_iter().map(wrap).collect();
    }

    /// Lets packets in: the start barrier. Call it when every thread is ready. Until then, nothing
    /// is received, and after ten seconds [`Rx::readiness`] says so.
    ///
    /// # Errors
    /// The interface went away or refuses.
    pub fn start(&mut self) -> Result<()> {
        self.has_started.store(true, Ordering::Release);
        self.driver.start()
    }

    /// Masks and stop, for any thread.
    pub fn control(&self) -> Arc<dyn Control> {
        Arc::clone(&self.driver) as Arc<dyn Control>
    }

    /// Counts its frames, from any thread.
    pub fn accounting(&self) -> Accounting {
        self.accounting.clone()
    }

    /// Where the frames are now.
    pub fn frames(&self) -> FrameCounts {
        self.accounting.frames()
    }

    /// Whether packets may come until it is stopped. A source with a fixed number of packets ends
    /// by itself.
    pub fn is_endless(&self) -> bool {
        self.is_endless
    }

    /// What its transmitting ends can take.
    pub fn sink(&self) -> Sink {
        self.sink
    }

    /// Whether received frames may have to be cut ([`Frame::offload`](crate::Frame::offload)) even
    /// without [`Forwarding::offload`](super::Forwarding::offload).
    pub fn leaves_cutting(&self) -> bool {
        self.leaves_cutting
    }

    /// Diagnostics since opening; complete once every receiving end has ended.
    pub fn diagnostics(&self) -> Vec<String> {
        self.driver.diagnostics()
    }

    /// Metadata of the capture file that it reads, for
    /// [`OpenOptions::file_metadata`](super::OpenOptions::file_metadata) of a port that writes the
    /// packets; `None` if it is no file.
    pub fn file_metadata(&self) -> Option<&Arc<FileMetadata>> {
        self.file_metadata.as_ref()
    }

    /// The files that it reads. They must not be written meanwhile.
    pub fn inputs(&self) -> Vec<FileId> {
        self.inputs.clone()
    }
}

impl Drop for Port {
    fn drop(&mut self) {
        // Ends that are still out keep their sockets; nothing more comes in through them.
        self.driver.release();
    }
}
