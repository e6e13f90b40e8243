//! Sessions: one running job, from open ports to the final counts, and the kinds of jobs.

pub mod capture;
pub(crate) mod comment;
pub mod count;
pub mod forward;
pub(crate) mod interfaces;
pub mod monitor;
pub(crate) mod receiving;
#[allow(clippy::module_inception, reason = "its main type")]
mod session;
pub(crate) mod viewed;

pub use self::session::{Session, Worker};
