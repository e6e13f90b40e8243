//! SQL on several machines: a scheduler and executors of Ballista, which read the same object
//! store. Without the feature `cluster`, the commands parse their arguments and fail.
//!
//! Plans go to the scheduler, and executors ask it for work, so only results need a connection to
//! an executor. Scheduler and executors open object stores with their own environment. The operator
//! of the table `packets` has its paths as an input, so that its partitions can be distributed.

#[cfg(any(test, not(feature = "cluster")))]
#[cfg_attr(feature = "cluster", allow(dead_code, reason = "only a test needs it"))]
mod absent;
mod address;
#[cfg_attr(not(feature = "cluster"), allow(dead_code, reason = "they are only parsed"))]
mod arguments;
#[cfg(feature = "cluster")]
mod client;
#[cfg(feature = "cluster")]
mod codec;
#[cfg(feature = "cluster")]
mod executor;
#[cfg(feature = "cluster")]
mod log;
#[cfg(feature = "cluster")]
mod losses;
#[cfg(feature = "cluster")]
mod scheduler;
#[cfg(feature = "cluster")]
mod session;
#[cfg(feature = "cluster")]
mod system;
#[cfg(feature = "cluster")]
mod work;

#[cfg(not(feature = "cluster"))]
pub(crate) use absent::{Cluster, local, run_executor, run_scheduler};
pub(crate) use address::SchedulerAddress;
pub(crate) use arguments::{ExecutorArgs, SchedulerArgs};
#[cfg(feature = "cluster")]
pub(crate) use client::{Cluster, local};
#[cfg(feature = "cluster")]
pub(crate) use executor::run as run_executor;
#[cfg(feature = "cluster")]
pub(crate) use scheduler::run as run_scheduler;
