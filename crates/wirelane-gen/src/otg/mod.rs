//! Flow files in the [Open Traffic Generator] model, in YAML or JSON: the part of it that describes
//! packets, not sessions.
//!
//! Whatever a file says is either done or an error that names its place, such as
//! `flows[3].packet[1].ipv4.options`. A field with the value that the model gives it by default is
//! the same as one that is left out. `docs/send.md` lists what is supported.
//!
//! ```text
//!   text ─▶ yaml: nodes with line and column ─▶ place: fields by name, the rest refused
//!                                                │
//!           config: ports, flows ◀─ flow, size ◀─┤
//!                                ◀─ headers ◀────┴─ pattern, options
//! ```
//!
//! [Open Traffic Generator]: https://github.com/open-traffic-generator/models

mod config;
mod error;
mod fields;
mod flow;
mod headers;
mod options;
mod pattern;
mod payload;
mod place;
mod size;
mod yaml;

pub use config::{Config, Flow, Port, parse};
pub use error::Error;
pub use flow::Metrics;
