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
/// Dropping a port stops it: its receiving ends deliver the packets in the rings, then
/// [`Readiness::End`](super::Readiness::End) follows. Frames in use stay valid, as do frames that
/// its transmitting ends have taken. Whether these ends can still send depends on the interface.
pub struct Port {
    pub(super) info: PortInfo,
    pub(super) rx: Vec<Rx>,
    pub(super) tx: Vec<Tx>,
    pub(super) driver: Arc<dyn Driver>,
    pub(super) accounting: Accounting,
    pub(super) sink: Sink,
    pub(super) is_endless: bool,
    pub(super) leaves_segmentation: bool,
    pub(super) inputs: Vec<FileId>,
    pub(super) file_metadata: Option<Arc<FileMetadata>>,
    pub(super) switches: Arc<Switches>,
    /// Reads the steering of the TX queues again, if it may change.
    pub(super) steering: Option<Arc<Steering>>,
    has_started: Arc<AtomicBool>,
    handed_out: HandedOut,
}

/// Which ends have been handed out.
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
            leaves_segmentation: false,
            inputs: Vec::new(),
            file_metadata: None,
            switches: Arc::default(),
            steering: None,
            has_started: Arc::default(),
            handed_out: HandedOut::default(),
        }
    }

    /// Negotiated mode, queues and notes.
    pub fn info(&self) -> &PortInfo {
        &self.info
    }

    /// Hands out the receiving ends: one per queue and class. A port that only sends has none.
    ///
    /// # Errors
    /// They were already handed out.
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
    /// They were already handed out, or the port has none: see [`Port::transmits`].
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

    /// As [`Port::tx`], or [`Port::tx_segmenting`] if `segments`, but empty if the port has none to
    /// hand out.
    ///
    /// # Errors
    /// As [`Port::tx_segmenting`].
    #[doc(hidden)]
    pub fn tx_if_any(&mut self, segments: bool) -> Result<Vec<Tx>> {
        match (self.transmits(), segments) {
            (false, _) => Ok(Vec::new()),
            (true, true) => self.tx_segmenting(),
            (true, false) => self.tx(),
        }
    }

    /// Whether the port has transmitting ends that have not been handed out. It has some if it was
    /// opened with [`OpenOptions::transmit`](super::OpenOptions::transmit).
    pub fn transmits(&self) -> bool {
        !self.tx.is_empty()
    }

    fn misused(&self, cause: &'static str) -> Error {
        Error::usage(format!("port '{}'", self.info.spec), cause)
    }

    /// Hands out the transmitting ends, each behind a segmenter. It segments frames that are marked
    /// for it ([`Frame::offload`](crate::Frame::offload)), and frames that are too long for the
    /// port and of a protocol in [`Port::switches`]. [`Tx::segments`] counts its work.
    ///
    /// # Errors
    /// As [`Port::tx`].
    pub fn tx_segmenting(&mut self) -> Result<Vec<Tx>> {
        let (sink, switches) = (self.sink, Arc::clone(&self.switches));
        let cut = |tx: Tx| {
            // Outsiders cannot guess the time to the nanosecond.
            let secret = clock::realtime_ns() ^ u64::from(std::process::id()) << 32;
            let segmenter = Segmenter::new(sink).with_fragment_secret(secret);
            gso::tx(tx, segmenter, Arc::clone(&switches))
        };
        Ok(self.tx()?.into_iter().map(cut).collect())
    }

    /// Which protocols this port segments and merges; initially as in its spec.
    /// [`Port::tx_segmenting`] follows changes while it runs.
    #[doc(hidden)]
    pub fn switches(&self) -> &Arc<Switches> {
        &self.switches
    }

    /// Replaces the switches. Call it before [`Port::tx_segmenting`].
    #[doc(hidden)]
    pub fn set_switches(&mut self, switches: Arc<Switches>) {
        self.switches = switches;
    }

    /// Wraps each receiving end that has not been handed out, as [`Rx::wrap`] does.
    #[doc(hidden)]
    pub fn map_rx(&mut self, wrap: impl FnMut(Rx) -> Rx) {
        self.rx = std::mem::take(&mut self.rx).into_iter().map(wrap).collect();
    }

    /// Wraps each transmitting end that has not been handed out, as [`Tx::wrap`] does.
    #[cfg(test)]
    pub(crate) fn map_tx(&mut self, wrap: impl FnMut(Tx) -> Tx) {
        self.tx = std::mem::take(&mut self.tx).into_iter().map(wrap).collect();
    }

    /// Starts accepting packets: the start barrier. Call it when every thread is ready. Before
    /// that, nothing is received, and after ten seconds [`Rx::readiness`] returns an error.
    ///
    /// # Errors
    /// The interface was removed or refuses.
    pub fn start(&mut self) -> Result<()> {
        self.has_started.store(true, Ordering::Release);
        self.driver.start()
    }

    /// Changes masks and filter and stops the port, from any thread.
    pub fn control(&self) -> Arc<dyn Control> {
        Arc::clone(&self.driver) as Arc<dyn Control>
    }

    /// Counts the port's frames, from any thread.
    #[doc(hidden)]
    pub fn accounting(&self) -> Accounting {
        self.accounting.clone()
    }

    /// The frames by place, now.
    pub fn frames(&self) -> FrameCounts {
        self.accounting.frames()
    }

    /// Whether packets may arrive until the port is stopped. A source with a fixed number of
    /// packets ends by itself.
    pub fn is_endless(&self) -> bool {
        self.is_endless
    }

    /// The frames that the transmitting ends accept.
    #[doc(hidden)]
    pub fn sink(&self) -> Sink {
        self.sink
    }

    /// Whether received frames may need segmentation ([`Frame::offload`](crate::Frame::offload))
    /// even if the program accepts no long frames.
    pub(crate) fn leaves_segmentation(&self) -> bool {
        self.leaves_segmentation
    }

    /// Diagnostics since opening; complete after every receiving end has ended.
    pub fn diagnostics(&self) -> Vec<String> {
        self.driver.diagnostics()
    }

    /// Metadata of the capture file that it reads, for `ProgramOptions::file_metadata` of the port
    /// that writes the packets. `None` if it does not read a file.
    #[doc(hidden)]
    pub fn file_metadata(&self) -> Option<&Arc<FileMetadata>> {
        self.file_metadata.as_ref()
    }

    /// The files that the port reads. They must not be written while it is open.
    #[doc(hidden)]
    pub fn inputs(&self) -> Vec<FileId> {
        self.inputs.clone()
    }
}

impl Drop for Port {
    fn drop(&mut self) {
        // Ends that are still in use keep their sockets but receive no new packets.
        self.driver.release();
    }
}
