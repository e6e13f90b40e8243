//! The configuration of a pool.

use crate::error::{Error, Result};

/// The configuration of a pool.
#[derive(Clone, Debug)]
pub struct PoolConfig {
    /// Number of chunks, one per frame; 1 to 2²⁴.
    pub chunks: u32,
    /// Bytes per chunk, including headroom: a power of two from 256 to 65536 or, in a region, any
    /// number from 2048 to 524288.
    pub chunk_size: u32,
    /// Bytes before a packet that are kept free for prepended headers; less than the chunk.
    pub headroom: u32,
    /// NUMA node of the memory; any with `None`. In a region, the region's node applies.
    pub numa_node: Option<u32>,
}

impl Default for PoolConfig {
    fn default() -> Self {
        Self { chunks: 4096, chunk_size: 2048, headroom: 128, numa_node: None }
    }
}

impl PoolConfig {
    pub(super) fn object(&self) -> String {
        format!("pool of {} frames of {} bytes", self.chunks, self.chunk_size)
    }

    pub(super) fn check(&self) -> Result<()> {
        if !(1..=1 << 24).contains(&self.chunks) {
            return Err(Error::usage(self.object(), "a pool holds 1 to 16777216 frames"));
        }
        if self.headroom >= self.chunk_size {
            let cause = format!("{} bytes of headroom fill it", self.headroom);
            return Err(Error::usage(self.object(), cause));
        }
        Ok(())
    }
}
