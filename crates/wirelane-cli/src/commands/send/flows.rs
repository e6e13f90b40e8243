//! The flows of a file that one port sends.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::Path;

use wirelane::{Error, Result};
use wirelane_gen::otg::OtgConfig;
use wirelane_gen::{Rate, Stream};

use super::arguments::SendArgs;
use crate::text_file;

/// The flows of the file at `path` that the port of `args` sends, and notes for the user.
///
/// # Errors
/// The file cannot be read or describes no flows that can be sent, or it has flows of several ports
/// and none is chosen.
pub(super) fn read(path: &Path, args: &SendArgs) -> Result<(Vec<Stream>, Vec<String>)> {
    if args.pace.rate.is_some() {
        return Err(Error::usage("--flows", "flows have rates of their own")
            .help("change them in the file, or send everything with --top-speed"));
    }
    let name = path.display().to_string();
    let config = text_file::flows(path, 0)?;
    let port = chosen(&config, args, &name)?;
    let own = config.flows.into_iter().filter(|flow| port.is_none_or(|port| flow.tx == port));
    let own: Vec<_> = own.collect();
    let measured = own.iter().filter(|flow| flow.metrics.enable).count();
    let note =
        || format!("{measured} of {} flows are to be measured: wirelane ndr does", own.len());
    let notes = (measured > 0).then(note).into_iter().collect();
    let mut streams: Vec<_> = own.into_iter().map(|flow| flow.stream).collect();
    if args.pace.top_speed {
        streams.iter_mut().for_each(|stream| stream.rate = Rate::Max);
    }
    Ok((streams, notes))
}

/// The position of the port whose flows are sent; `None` for all.
fn chosen(config: &OtgConfig, args: &SendArgs, file: &str) -> Result<Option<usize>> {
    let names: Vec<_> = config.ports.iter().map(|port| port.name.as_str()).collect();
    if let Some(from) = &args.from {
        let found = names.iter().position(|name| name == from);
        let missing = || {
            Error::usage(format!("--from '{from}'"), format!("{file} has no such port"))
                .help(format!("it has {}", names.join(", ")))
        };
        return found.ok_or_else(missing).map(Some);
    }
    let senders: BTreeSet<usize> = config.flows.iter().map(|flow| flow.tx).collect();
    if senders.len() < 2 {
        return Ok(None);
    }
    let text = args.target.as_deref().and_then(OsStr::to_str).unwrap_or_default();
    let interface = text.split_once(':').map_or(text, |(_, rest)| rest);
    let interface = interface.split(['@', '?']).next().unwrap_or_default();
    let is_here = |port: &usize| {
        let location = config.ports.get(*port).and_then(|port| port.location.as_deref());
        location.is_some_and(|location| location == text || location == interface)
    };
    let here: Vec<usize> = senders.iter().copied().filter(is_here).collect();
    match here.as_slice() {
        [port] => Ok(Some(*port)),
        _ if args.target.is_none() => Ok(None),
        _ => Err(Error::usage(file, "it has flows of several ports")
            .help(format!("choose with --from: {}", names.join(", ")))),
    }
}
