//! What a capture file says beside its packets, on its way to who writes the packets of its port
//! into another file.
//!
//! ```text
//!   cursor of the file ─┬▶ frames ─▶ … ─▶ writer
//!                       └▶ blocks ──────▶ shelf, which the writer empties before it writes packets
//! ```
//!
//! A block is on the shelf before the frames of the packets behind it are handed on. So a file
//! never has the secrets of a packet behind it, but may have them earlier than they were.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use crate::pcap::pcapng::{Annex, AnnexKind};
use crate::pcap::{Losses, Section};
use crate::port::bundle::Bundle;
use crate::sync::lock;

/// The file is not read on while a shelf has more bytes.
const FULL: usize = 16 << 20;

/// What a file that is a port says beside its packets: for
/// [`OpenOptions::beside`](super::OpenOptions::beside) of the port that writes them.
#[derive(Debug)]
pub struct Beside {
    /// What the file is called.
    name: String,
    /// What it says of itself.
    section: Section,
    bundle: Option<Arc<Bundle>>,
    shelves: Mutex<Vec<Arc<Shelf>>>,
    /// There is a shelf, or blocks are counted.
    is_wanted: AtomicBool,
    /// Blocks that nobody takes; `None` if they are not counted.
    left_out: Mutex<Option<Losses>>,
}

impl Beside {
    pub(super) fn new(name: &str, section: Section, bundle: Option<Arc<Bundle>>) -> Self {
        let name = name.to_owned();
        Self {
            name,
            section,
            bundle,
            shelves: Mutex::default(),
            is_wanted: AtomicBool::new(false),
            left_out: Mutex::default(),
        }
    }

    /// What the file is called, without its place, and what it says of itself.
    pub fn section(&self) -> (String, &Section) {
        let name = Path::new(&self.name).file_name().unwrap_or_default();
        (name.to_string_lossy().into_owned(), &self.section)
    }

    /// The interfaces of the file.
    pub(super) fn bundle(&self) -> Option<&Arc<Bundle>> {
        self.bundle.as_ref()
    }

    /// Says that whoever writes the packets keeps no names, secrets and other blocks: those that
    /// are read from now on are counted, and [`Port::diagnostics`](super::Port::diagnostics) says
    /// how many there were.
    pub fn leave_out(&self) {
        lock(&self.left_out).get_or_insert_default();
        self.is_wanted.store(true, Ordering::Release);
    }

    /// What was left out so far.
    pub(super) fn left_out(&self) -> Losses {
        lock(&self.left_out).unwrap_or_default()
    }

    /// Blocks that are read from now on. Of several files that get the packets, one takes `all` of
    /// them, and the others names and secrets.
    pub(crate) fn shelf(&self, all: bool) -> Arc<Shelf> {
        let shelf = Arc::new(Shelf { all, blocks: Mutex::default(), bytes: AtomicUsize::new(0) });
        lock(&self.shelves).push(Arc::clone(&shelf));
        self.is_wanted.store(true, Ordering::Release);
        shelf
    }

    /// Whether somebody takes blocks.
    #[inline]
    pub(super) fn is_wanted(&self) -> bool {
        self.is_wanted.load(Ordering::Acquire)
    }

    /// Whether all shelves have room. One whose owner is gone always has.
    pub(super) fn has_room(&self) -> bool {
        let mut shelves = lock(&self.shelves);
        shelves.retain(|shelf| Arc::strong_count(shelf) > 1);
        shelves.iter().all(|shelf| shelf.bytes.load(Ordering::Acquire) <= FULL)
    }

    /// Puts a block on the shelves.
    pub(super) fn put(&self, annex: Annex<'_>) {
        if let Some(lost) = &mut *lock(&self.left_out) {
            lost.count(annex.kind());
            return;
        }
        let is_for_all = annex.kind() != AnnexKind::Other;
        let block: Arc<[u8]> = annex.bytes().into();
        for shelf in lock(&self.shelves).iter().filter(|shelf| shelf.all || is_for_all) {
            lock(&shelf.blocks).push_back(Arc::clone(&block));
            shelf.bytes.fetch_add(block.len(), Ordering::Release);
        }
    }
}

/// Blocks that a writer has not taken yet.
#[derive(Debug)]
pub(crate) struct Shelf {
    all: bool,
    blocks: Mutex<VecDeque<Arc<[u8]>>>,
    bytes: AtomicUsize,
}

impl Shelf {
    /// The next block.
    #[inline]
    pub(crate) fn take(&self) -> Option<Arc<[u8]>> {
        if self.bytes.load(Ordering::Acquire) == 0 {
            return None;
        }
        let block = lock(&self.blocks).pop_front()?;
        self.bytes.fetch_sub(block.len(), Ordering::Release);
        Some(block)
    }
}
