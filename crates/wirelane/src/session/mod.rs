//! Sessions: one running job, from open ports to the final counts, and the kinds of jobs.

pub mod capture;
pub mod comment;
pub mod count;
pub mod forward;
pub mod interfaces;
pub mod monitor;
pub mod receiving;
#[allow(clippy::module_inception, reason = "its main type")]
mod session;
mod viewed;

pub use self::session::{Session, Worker};
