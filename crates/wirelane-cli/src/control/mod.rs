//! Talking to a running command over a local socket.
//!
//! ```text
//!   wirelane mask | stats ─▶ client ─ one line: a request ─▶ server ─▶ subject: ports, counters
//!                                   ◀─ one line: a reply ──
//! ```
//!
//! Programs that capture by Wirelane's libpcap do not listen. What they count is found without them
//! ([`programs`]).
//!
//! Every `wirelane capture` and `wirelane forward` listens on a socket that only its user, and
//! root, can connect to, and that is found by its process id ([`place`]). A conversation is one
//! line of JSON each way ([`request`]), of bounded length and time ([`line`]); each has a thread of
//! its own, so that nobody waits for somebody who dawdles, and the threads of the queues notice
//! none of it.

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

pub(crate) use self::client::{Session, Sessions, ask, listens, sessions};
pub(crate) use self::server::ControlServer;
pub(crate) use self::subject::{Served, Subject};
