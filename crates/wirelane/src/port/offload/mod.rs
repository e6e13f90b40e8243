//! Segmentation and merging at the ends of a port: long frames are segmented in front of a
//! transmitting end, and packets of a flow are merged behind a receiving end.

pub(crate) mod gro;
pub mod gso;
mod jumbo;
pub(crate) mod limits;
pub(crate) mod switches;
