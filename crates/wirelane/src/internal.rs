//! Items for Wirelane's own programs and bindings: the command, the benchmarks, and the interfaces
//! for C, Python and libpcap. They are not part of the library's public API, and may change in any
//! release. `xtask/tests/` checks that no example uses them.

pub use crate::remedy::Remedy;

/// Filters: all engines side by side.
#[cfg(not(loom))]
pub mod filter {
    pub use crate::filter::compare::Comparison;
}

/// The receive loop: the work of threads.
#[cfg(not(loom))]
pub mod pipeline {
    pub use crate::pipeline::running::by_queue;
    pub use crate::pipeline::work::Work;
}

/// Queueing disciplines: one TX queue and its producers.
pub mod qdisc {
    #[cfg(not(loom))]
    pub use crate::qdisc::egress::{Egress, EgressHandle};
    pub use crate::qdisc::stats::{BandStats, Sent};
}

/// Segmentation and its inverse.
pub mod segment {
    pub use crate::segment::coalesce::{Alone, Coalescer, Flush, Limits, MAX_DATAGRAMS};
    pub use crate::segment::cursor::slices::Taken;
    pub use crate::segment::cursor::{Cursor, Segment, Stop};
    pub use crate::segment::parameters::MAX_HEADER;
    pub use crate::segment::segmenter::{Segmenter, Verdict};
    pub use crate::segment::stats::{Bypass, Refusal, SegmentClass, SegmentCounters};
}

/// Sessions: views behind a merge, the interfaces of files, the switches of a forwarder.
#[cfg(not(loom))]
pub mod session {
    pub use crate::session::capture::limit::needs_merge;
    pub use crate::session::capture::view::View;
    pub use crate::session::comment::Comment;
    pub use crate::session::count::decode::Reason;
    pub use crate::session::forward::switches::PortSwitches;
    pub use crate::session::interfaces::{Interface, Placing, counters, interfaces, statistics};
    pub use crate::session::receiving::Receiving;
}

/// Ports: options and details that the public API hides.
#[cfg(not(loom))]
pub mod port {
    pub use crate::port::accounting::Accounting;
    pub use crate::port::control::Passed;
    pub use crate::port::help::{BackendHelp, SpecOption};
    pub use crate::port::info::tell_apart;
    pub use crate::port::number::parse_number;
    pub use crate::port::offload::gso;
    pub use crate::port::offload::switches::{OffloadOptions, Switches};
    pub use crate::port::open::shared_memory;
    pub use crate::port::program_options::{Forwarding, ProgramOptions};
    pub use crate::port::steering::xps::{XpsBindings, tx_queue_notes};
    pub use crate::port::steering::xps_binding::XpsBinding;
    pub use crate::port::steering::xps_watch::XpsWatch;
    pub use crate::port::tx::Transmit;
}

/// `file:` ports.
#[cfg(not(loom))]
pub mod file {
    pub use crate::port::file::open::open;
}

/// `packet:` ports.
#[cfg(not(loom))]
pub mod packet {
    pub use crate::port::packet::open::PacketPort;
}

/// `sim:` ports: their configuration, and a model of the packets that they create.
#[cfg(not(loom))]
pub mod sim {
    pub use crate::port::sim::assembly::open;
    pub use crate::port::sim::cable::cable;
    pub use crate::port::sim::config::DEFAULT_SEED;
    pub use crate::port::sim::stream::Stream;
}

/// `xdp:` ports.
#[cfg(not(loom))]
pub mod xdp {
    pub use crate::port::xdp::management::keeps_tcp;
    pub use crate::port::xdp::open::XdpPort;
}

/// Internet checksums by vector instructions.
pub mod checksum {
    pub use crate::checksum::{Vectors, copy, sum};
}

/// Clocks.
pub use wirelane_os::clock;

/// Frames: the memory layout of a batch, and the long frames that a sink accepts.
pub mod frame {
    pub use crate::frame::protocols::Protocols;
    pub use crate::frame::record::RecordLayout;
    pub use crate::frame::sink::{Sink, SinkGso};
}

/// Queues of an interface: details, and how frames reach their TX queue.
#[cfg(not(loom))]
pub mod inspect {
    pub use crate::inspect::interface::ByteLimit;
    pub use crate::inspect::sending::sending;
}

/// Memory of writers.
pub mod memory {
    pub use crate::memory::for_writers;
}

/// Properties of this process.
pub mod process {
    pub use crate::process::{is_hangup_ignored, is_in_foreground, survive_file_limits};
}

/// The ring for any number of producers and consumers.
pub mod ring {
    pub use crate::ring::bounded::{Dequeuer, Enqueuer, Ring};
    pub use crate::ring::side::{Multi, Side, Single};
}

/// Counters of the ends of a port.
pub mod stats {
    pub use crate::stats::{RxCounters, TxCounters};
}

/// Threads that start together.
#[cfg(not(loom))]
pub mod threads {
    pub use crate::threads::{Crew, spawn};
}
