//! The arguments of `wirelane-query scheduler` and `wirelane-query executor`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::address::SchedulerAddress;

/// Plan queries of a cluster and share them out to executors.
///
/// There is no authentication: any client that reaches its port can run queries with the access
/// rights of the executors. By default it listens on this host alone. Ends on ^C.
#[derive(Args, Clone, Debug)]
pub(crate) struct SchedulerArgs {
    /// Where clients and executors connect; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:50050")]
    pub(crate) listen: SocketAddr,
    /// Take an executor for lost that was silent for TIME; queries that run then fail
    #[arg(long, value_name = "TIME", default_value = "20s", value_parser = silence)]
    pub(crate) executor_timeout: Duration,
    /// Say what it does
    #[arg(short, long)]
    pub(crate) verbose: bool,
}

/// Run parts of a cluster's queries.
///
/// It reads object stores with the keys in its environment. There is no authentication: any client
/// that reaches its port can read results. By default it listens on this host alone. Ends on ^C,
/// when its tasks are done.
#[derive(Args, Clone, Debug)]
pub(crate) struct ExecutorArgs {
    /// The scheduler
    #[arg(long, value_name = "df://HOST:PORT", default_value = "df://127.0.0.1:50050")]
    pub(crate) scheduler: SchedulerAddress,
    /// Where others fetch results; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:0")]
    pub(crate) listen: SocketAddr,
    /// By what name others reach it [default: the address it listens on, or the one that the
    /// scheduler sees]
    #[arg(long, value_name = "HOST")]
    pub(crate) advertise: Option<String>,
    /// Tasks at once [default: one per CPU]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) tasks: Option<u16>,
    /// Where intermediate results lie, removed at the end [default: a directory below that for
    /// temporary files]
    #[arg(long, value_name = "DIR")]
    pub(crate) work: Option<PathBuf>,
    /// Say what it does
    #[arg(short, long)]
    pub(crate) verbose: bool,
}

/// The timeout must exceed the five seconds between reports of busy executors.
fn silence(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text)
        .ok()
        .filter(|time| *time >= Duration::from_secs(6))
        .ok_or_else(|| "write a time of at least 6s".to_owned())
}
