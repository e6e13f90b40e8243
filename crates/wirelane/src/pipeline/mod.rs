//! Receiving, with one thread or many.
//!
//! * [`run`] receives from several ends on the calling thread and sleeps while there are no
//!   packets.
//! * [`spawn`] starts a thread for every queue of a port, each with a separate [`Consumer`].
//!   [`Threads`] does so for several ports, pinned to CPUs, and ends with a
//!   [`Halt`](crate::halt::Halt). [`Threads::forward`] sends the packets to another port.
//! * [`wait_any`] is for programs with an event loop.

mod consumer;
mod forwarder;
mod handle;
mod progress;
mod quota;
mod run;
pub(crate) mod running;
mod wait;
pub(crate) mod work;

pub use self::consumer::Consumer;
pub use self::forwarder::Forwarder;
pub use self::handle::Handle;
pub use self::run::{run, run_with};
pub(crate) use self::running::{Job, Spread, by_thread, thread_name};
pub use self::running::{Outcome, Running, Threads, spawn};
pub use self::wait::{Wake, wait_any};
pub(crate) use self::work::Work;
