//! A session whose queries run on a cluster.

use std::io::{self, Read as _, Write as _};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::time::Duration;

use ballista_core::extension::SessionStateExt as _;
use datafusion::prelude::SessionContext;
use wirelane::{Error, Result};

use super::address::Address;

/// How long a scheduler may take to say that it is there.
const LIMIT: Duration = Duration::from_secs(5);

/// The same tables and settings, with queries run by the cluster of this scheduler.
///
/// # Errors
/// There is no scheduler, or it has no executors.
pub(crate) fn over(context: &SessionContext, scheduler: &Address) -> Result<SessionContext> {
    if !has_executors(scheduler)? {
        return Err(failed(scheduler, "it has no executors".to_owned())
            .help(format!("start some: wirelane-query executor --scheduler {scheduler}")));
    }
    let url = format!("http://{}:{}", scheduler.host, scheduler.port);
    let before = context.state();
    let functions = before.scalar_functions().clone();
    let state = before
        .upgrade_for_ballista(url)
        .map_err(|error| failed(scheduler, error.to_string()))?;
    let context = SessionContext::new_with_state(state);
    // The upgrade leaves those of DataFusion alone.
    let known = context.state().scalar_functions().clone();
    for (name, function) in functions {
        if !known.contains_key(&name) {
            context.register_udf(function.as_ref().clone());
        }
    }
    Ok(context)
}

/// Whether a scheduler answers there at all.
pub(crate) fn is_there(scheduler: &Address) -> Result<()> {
    has_executors(scheduler).map(|_| ())
}

/// What Ballista's scheduler answers to `GET /readyz`: 200 if there are executors, 503 if not.
fn has_executors(scheduler: &Address) -> Result<bool> {
    let answer = ask(scheduler).map_err(|error| {
        failed(scheduler, format!("nobody answers there ({error})"))
            .help("start one: wirelane-query scheduler --listen ADDRESS:PORT")
    })?;
    match answer.split(' ').nth(1) {
        Some("200") => Ok(true),
        Some("503") => Ok(false),
        _ => Err(failed(scheduler, "what answers there is no scheduler".to_owned())),
    }
}

fn ask(scheduler: &Address) -> io::Result<String> {
    let Address { host, port } = scheduler;
    let name = host.trim_start_matches('[').trim_end_matches(']');
    let mut failure = io::Error::from(io::ErrorKind::NotFound);
    for address in (name, *port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, LIMIT) {
            Ok(mut connection) => {
                connection.set_read_timeout(Some(LIMIT))?;
                connection.set_write_timeout(Some(LIMIT))?;
                let request =
                    format!("GET /readyz HTTP/1.1\r\nhost: {host}:{port}\r\nconnection: close\r\n\r\n");
                connection.write_all(request.as_bytes())?;
                let mut answer = Vec::new();
                // The first line is enough; who sends no end of it is cut.
                connection.take(1 << 12).read_to_end(&mut answer)?;
                return Ok(String::from_utf8_lossy(&answer).into_owned());
            }
            Err(error) => failure = error,
        }
    }
    Err(failure)
}

fn failed(scheduler: &Address, cause: String) -> Error {
    Error::failed(format!("scheduler {scheduler}"), cause)
}
