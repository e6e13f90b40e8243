//! Flow files in the [Open Traffic Generator] model, in YAML or JSON. The supported part of the
//! model describes packets.
//!
//! Each item of a file is either applied or refused with an error that names its path, such as
//! `flows[3].packet[1].ipv4.options`. A field with the default value of the model has the same
//! effect as an absent field. `docs/send.md` lists the supported items.
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
mod fields;
mod flow;
mod headers;
mod options;
mod pattern;
mod payload;
mod place;
mod size;
mod yaml;

pub use config::{OtgConfig, OtgFlow, OtgPort, parse};
pub use flow::Metrics;
