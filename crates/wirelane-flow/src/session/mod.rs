//! Meters the flows of ports: one receiving thread with a separate table per queue, and one thread
//! that passes flows to the sinks.

mod collector;
mod config;
mod in_order;
mod metering;
mod report;
mod worker;

pub use self::collector::{Collector, FlowCounts};
pub use self::config::{FlowConfig, FlowOutcome};
pub use self::metering::Metering;
