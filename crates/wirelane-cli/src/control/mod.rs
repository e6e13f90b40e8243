//! Talking to a running command over a local socket.
//!
//! ```text
//!   wirelane mask | stats ─▶ client ─ one line: a request ─▶ server ─▶ subject: ports, counters
//!                                   ◀─ one line: a reply ──
//! ```
//!
//! Programs that capture with Wirelane's libpcap do not listen. [`programs`] reads their counters
//! without their help.
//!
//! Every live command, such as `wirelane capture`, `record` or `forward`, listens on a socket. Only
//! its user and root can connect to it, and clients find it by the process id ([`place`]). A
//! conversation is one line of JSON each way ([`request`]), of bounded length and time ([`line`]).
//! Each conversation has its own thread, so a slow client delays no other client and none of the
//! queues' threads.

mod answer;
mod client;
mod line;
mod place;
mod programs;
pub(crate) mod request;
mod server;
pub(crate) mod settings;
mod statistics;
mod subject;

pub(crate) use self::client::{CommandConnection, Sessions, ask, listens, sessions};
pub(crate) use self::server::ControlServer;
pub(crate) use self::subject::{ControlledCommand, Served};
