//! Frame memory of several ports.

use crate::pool::Region;

/// A port's part of a region; see [`shared_memory`](super::shared_memory).
#[derive(Clone, Debug)]
pub struct Share {
    pub(super) region: Region,
    pub(super) bytes: usize,
}
