//! Parameters of segmentation.

/// The longest header block, in bytes.
pub const MAX_HEADER: usize = 512;

/// The segmenter's decision.
#[derive(Clone, Copy, Debug)]
pub(super) struct Parameters {
    /// Payload bytes per segment.
    pub(super) mss: usize,
    /// Payload bytes per output frame: a multiple of `mss`, or `mss`.
    pub(super) unit: usize,
    /// The sink completes checksums.
    pub(super) partial: bool,
    /// For IPv6 fragments.
    pub(super) fragment_id: u32,
}
