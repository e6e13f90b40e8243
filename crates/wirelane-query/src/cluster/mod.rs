//! SQL on several machines: a scheduler and executors of Ballista, which read the same object
//! store.

mod address;
mod arguments;
mod client;
mod codec;
mod executor;
mod log;
mod losses;
mod scheduler;
mod session;
mod system;
mod work;

pub(crate) use address::Address;
pub(crate) use arguments::{ExecutorArgs, SchedulerArgs};
pub(crate) use client::{Cluster, local};
pub(crate) use executor::run as run_executor;
pub(crate) use scheduler::run as run_scheduler;
