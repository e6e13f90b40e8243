//! Flows of ports: a receiving thread per queue, each with a table of its own, and a thread that
//! gives flows away.

mod collector;
mod config;
mod in_order;
mod metering;
mod report;
mod worker;

pub use self::collector::{Collector, FlowCounts};
pub use self::config::{FlowConfig, FlowOutcome};
pub use self::metering::Metering;
