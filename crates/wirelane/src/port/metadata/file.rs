//! Metadata of a capture file, apart from its packets: names, secrets and other blocks. They are
//! passed to the writer of the file that receives the packets.
//!
//! ```text
//!   cursor of the file ─┬▶ frames ─▶ … ─▶ writer
//!                       └▶ blocks ──────▶ queue: the writer empties it before it writes packets
//! ```
//!
//! The reader queues a block before it delivers the packets that follow the block. So in the other
//! file, secrets never follow their packets, but may precede them by more than in this file.
//!
//! The reader blocks while the queue is full. The section header is available before the first
//! packet. Writers count the blocks that their format cannot hold.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use crate::pcap::pcapng::{MetadataBlock, MetadataKind};
use crate::pcap::{Losses, Section};
use crate::port::metadata::interfaces::InterfaceTable;
use crate::sync::lock;

/// The reader waits while a queue has more bytes than this.
const FULL: usize = 16 << 20;

/// Metadata of a capture file that is read as a port, for
/// `ProgramOptions::file_metadata` of the port that writes its packets.
#[derive(Debug)]
pub struct FileMetadata {
    /// The path of the file.
    name: String,
    /// The section header of the file.
    section: Section,
    table: Option<Arc<InterfaceTable>>,
    queues: Mutex<Vec<Arc<MetadataQueue>>>,
    /// A queue exists, or blocks are counted.
    is_wanted: AtomicBool,
    /// Blocks that no queue takes; `None` if they are not counted.
    left_out: Mutex<Option<Losses>>,
}

impl FileMetadata {
    pub(in crate::port) fn new(
        name: &str,
        section: Section,
        table: Option<Arc<InterfaceTable>>,
    ) -> Self {
        let name = name.to_owned();
        Self {
            name,
            section,
            table,
            queues: Mutex::default(),
            is_wanted: AtomicBool::new(false),
            left_out: Mutex::default(),
        }
    }

    /// The name of the file without its directory, and its section header.
    pub fn section(&self) -> (String, &Section) {
        let name = Path::new(&self.name).file_name().unwrap_or_default();
        (name.to_string_lossy().into_owned(), &self.section)
    }

    /// The interfaces of the file.
    pub(in crate::port) fn interface_table(&self) -> Option<&Arc<InterfaceTable>> {
        self.table.as_ref()
    }

    /// From now on, drops and counts names, secrets and other blocks.
    /// [`Port::diagnostics`](crate::port::Port::diagnostics) reports their number.
    pub fn leave_out(&self) {
        lock(&self.left_out).get_or_insert_default();
        self.is_wanted.store(true, Ordering::Release);
    }

    /// The blocks dropped so far.
    pub(in crate::port) fn left_out(&self) -> Losses {
        lock(&self.left_out).unwrap_or_default()
    }

    /// A queue of the blocks that are read after this call. If several files receive the packets,
    /// one takes `all` blocks, and the others only names and secrets.
    pub(crate) fn queue(&self, all: bool) -> Arc<MetadataQueue> {
        let queue =
            Arc::new(MetadataQueue { all, blocks: Mutex::default(), bytes: AtomicUsize::new(0) });
        lock(&self.queues).push(Arc::clone(&queue));
        self.is_wanted.store(true, Ordering::Release);
        queue
    }

    /// Whether blocks are queued or counted.
    #[inline]
    pub(in crate::port) fn is_wanted(&self) -> bool {
        self.is_wanted.load(Ordering::Acquire)
    }

    /// Whether all queues have room. Removes queues whose owner is gone.
    pub(in crate::port) fn has_room(&self) -> bool {
        let mut queues = lock(&self.queues);
        queues.retain(|queue| Arc::strong_count(queue) > 1);
        queues.iter().all(|queue| queue.bytes.load(Ordering::Acquire) <= FULL)
    }

    /// Adds a block to the queues.
    pub(in crate::port) fn put(&self, metadata: MetadataBlock<'_>) {
        if let Some(lost) = &mut *lock(&self.left_out) {
            lost.count(metadata.kind());
            return;
        }
        let is_for_all = metadata.kind() != MetadataKind::Other;
        let block: Arc<[u8]> = metadata.bytes().into();
        for queue in lock(&self.queues).iter().filter(|queue| queue.all || is_for_all) {
            lock(&queue.blocks).push_back(Arc::clone(&block));
            queue.bytes.fetch_add(block.len(), Ordering::Release);
        }
    }
}

/// Blocks that a writer has not taken yet.
#[derive(Debug)]
pub(crate) struct MetadataQueue {
    all: bool,
    blocks: Mutex<VecDeque<Arc<[u8]>>>,
    bytes: AtomicUsize,
}

impl MetadataQueue {
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
