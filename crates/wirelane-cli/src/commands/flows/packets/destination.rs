//! The output of packet rows: one place, in one format.

use std::ffi::OsString;
use std::path::Path;

use wirelane::pcap::Access;
use wirelane::{Error, Result};

use crate::access::create;
use crate::commands::flows::arguments::{FlowFormat, FlowsArgs};
use crate::commands::flows::program::{self, ProgramTarget};
use crate::companion::QUERY;

/// The output that the arguments name.
pub(super) struct PacketDestination<'a> {
    args: &'a FlowsArgs,
    to: DestinationKind<'a>,
}

enum DestinationKind<'a> {
    /// Files of Parquet.
    Files(&'a Path),
    /// A file of rows.
    File(&'a Path, FlowFormat),
    Output(FlowFormat),
}

impl<'a> PacketDestination<'a> {
    /// Chooses the output. Opens nothing.
    ///
    /// # Errors
    /// The arguments contradict each other, or the program is not installed.
    pub(super) fn of(args: &'a FlowsArgs) -> Result<Self> {
        let to = match args.write.as_deref() {
            None => DestinationKind::Output(args.format.unwrap_or(FlowFormat::Json)),
            Some(path) if path.as_os_str() == "-" => {
                DestinationKind::Output(args.format.unwrap_or(FlowFormat::Arrow))
            }
            Some(path) if program::takes(path) => DestinationKind::Files(path),
            Some(path) => DestinationKind::File(path, format_of(path)?),
        };
        match to {
            DestinationKind::Output(format) => {
                if args.session.json {
                    let cause = "standard output already takes the packets";
                    let error = Error::usage("--json", cause);
                    return Err(error.help("write the packets to a directory or a file with -w"));
                }
                FlowsArgs::check_terminal(format)?;
            }
            DestinationKind::Files(_) | DestinationKind::File(..) if args.format.is_some() => {
                let error = Error::usage("--format", "packets go to one place, which -w names");
                return Err(error.help("leave --format or -w out"));
            }
            _ => {}
        }
        if !matches!(to, DestinationKind::Files(_)) {
            args.files.check_none()?;
        }
        QUERY.find()?;
        Ok(Self { args, to })
    }

    /// Opens the output for the program.
    ///
    /// # Errors
    /// A file cannot be created.
    pub(super) fn open(&self, access: Access) -> Result<ProgramTarget<'a>> {
        Ok(match self.to {
            DestinationKind::Files(path) => ProgramTarget::Files(path, &self.args.files, access),
            DestinationKind::Output(format) => ProgramTarget::Stream(format, None),
            DestinationKind::File(path, format) => {
                ProgramTarget::Stream(format, Some(create(path, access)?))
            }
        })
    }

    /// The options with which the program makes rows of packets.
    pub(super) fn options(&self) -> Vec<OsString> {
        let data = self.args.data.then_some("--data");
        ["--packets"].into_iter().chain(data).map(OsString::from).collect()
    }

    /// The name in messages.
    pub(super) fn name(&self) -> String {
        match self.to {
            DestinationKind::Files(path) | DestinationKind::File(path, _) => {
                path.display().to_string()
            }
            DestinationKind::Output(_) => "standard output".to_owned(),
        }
    }

    /// Whether rows go to standard output.
    pub(super) fn is_output(&self) -> bool {
        matches!(self.to, DestinationKind::Output(_))
    }
}

/// The format that a suffix names.
fn format_of(path: &Path) -> Result<FlowFormat> {
    match path.extension().and_then(|suffix| suffix.to_str()) {
        Some("json" | "jsonl" | "ndjson") => Ok(FlowFormat::Json),
        Some("csv") => Ok(FlowFormat::Csv),
        Some("arrows") => Ok(FlowFormat::Arrow),
        _ => {
            let cause = "the suffix names no format of packets";
            Err(Error::usage(path.display().to_string(), cause).help(
                "end the name with .json, .csv or .arrows, or with / for a directory of Parquet",
            ))
        }
    }
}
