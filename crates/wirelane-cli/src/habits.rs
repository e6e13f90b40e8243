//! Options of tcpdump and dumpcap, and the places of the port and the filter in their command
//! lines.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use clap::Args;
use wirelane::port::{Port, Spec};
use wirelane::{Error, Result};
use wirelane_os::iface;

use crate::netns::NetnsArgs;
use crate::output;
use crate::sources::{self, CommandInputs, InputWord, KnownNames};
use crate::text_file;

/// As tcpdump writes them.
#[derive(Args, Clone, Debug)]
pub(crate) struct HabitArgs {
    /// Capture from PORT, which may also stand in front of the filter without -i; may be repeated.
    /// PORT may be a number from -D
    #[arg(short = 'i', long = "interface", value_name = "PORT", conflicts_with = "read")]
    interfaces: Vec<OsString>,
    /// List the interfaces, and end
    #[arg(short = 'D', long, exclusive = true)]
    pub(crate) list_interfaces: bool,
    /// Read the filter from FILE; `-` is standard input
    #[arg(short = 'F', long, value_name = "FILE", conflicts_with = "filter")]
    filter_file: Option<PathBuf>,
    /// Refuse ports whose link type is another one, such as EN10MB
    #[arg(short = 'y', long, value_name = "NAME", value_parser = link_type, help_heading = "Machine")]
    linktype: Option<LinkType>,
    /// No effect: checksums are never verified, and filters always optimised
    #[arg(short = 'K', long = "dont-verify-checksums", hide = true)]
    no_checksums: bool,
    #[arg(short = 'O', long = "no-optimize", hide = true)]
    no_optimizer: bool,
}

impl HabitArgs {
    /// The ports that -i and the words name, in this order, and the filter of the words or of -F.
    /// If a file is `read`, it is the port, and all words are a filter. Interfaces are looked up in
    /// `netns`; `is_file` says which words may name files, too.
    ///
    /// # Errors
    /// There is no port, or a word is none; the file of the filter cannot be read, or there are two
    /// filters.
    pub(crate) fn split(
        &self,
        words: &[OsString],
        read: Option<&Path>,
        netns: &NetnsArgs,
        is_file: &(dyn Fn(&OsStr) -> bool + Sync),
    ) -> Result<(Vec<Spec>, Option<String>)> {
        netns.inside(|| self.split_here(words, read, is_file))
    }

    fn split_here(
        &self,
        words: &[OsString],
        read: Option<&Path>,
        is_file: &dyn Fn(&OsStr) -> bool,
    ) -> Result<(Vec<Spec>, Option<String>)> {
        let known = KnownNames {
            exists: &|name| iface::exists(name).unwrap_or(false),
            interfaces: &|| names().into_iter().map(|(_, name)| name).collect(),
            is_file,
        };
        let CommandInputs { sources, filter } = match read {
            Some(_) => CommandInputs { sources: Vec::new(), filter: sources::join(words)? },
            None => CommandInputs::split(words, self.interfaces.is_empty(), &known)?,
        };
        let filter = match (&self.filter_file, filter) {
            (None, filter) => filter,
            (Some(path), None) => Some(contents(path)?),
            (Some(path), Some(words)) => {
                let cause = format!("there are two, -F {} and '{words}'", path.display());
                return Err(Error::usage("filter", cause).help("give one of them"));
            }
        };
        let named = self.interfaces.iter().map(|text| InputWord::Port(numbered(text)));
        let named = named.chain(sources).map(|source| source.spec());
        let read = read.map(sources::file).map(Ok);
        let specs = read.into_iter().chain(named).collect::<Result<_>>()?;
        Ok((specs, filter))
    }

    /// Whether only some link types are allowed.
    pub(crate) fn is_choosy(&self) -> bool {
        self.linktype.is_some()
    }

    /// Checks the link types of the ports against -y.
    ///
    /// # Errors
    /// A port has another link type.
    pub(crate) fn check(&self, ports: &[Port]) -> Result<()> {
        let Some(asked) = self.linktype else { return Ok(()) };
        let mut ports = ports.iter().map(Port::info);
        let Some(port) = ports.find(|port| port.link_type != asked.0) else { return Ok(()) };
        let cause =
            format!("its packets are {}, not {}", name_of(port.link_type), name_of(asked.0));
        Err(Error::usage(format!("port '{}'", port.spec), cause)
            .help("leave -y out: link headers are captured as they are"))
    }
}

/// The port as tcpdump takes it, for commands whose first word is a port.
#[derive(Args, Clone, Debug)]
pub(crate) struct InterfaceArgs {
    /// The port, which may also stand first without -i; a command of two ports takes -i twice. PORT
    /// may be a number from `wirelane capture -D`
    #[arg(short = 'i', long = "interface", value_name = "PORT")]
    interfaces: Vec<OsString>,
}

impl InterfaceArgs {
    /// The ports of -i, then these words.
    pub(crate) fn before<'a>(
        &self,
        words: impl IntoIterator<Item = &'a OsString>,
    ) -> Vec<OsString> {
        self.interfaces.iter().map(numbered).chain(words.into_iter().cloned()).collect()
    }
}

/// Prints the list of -D: a line per interface, as in tcpdump.
///
/// # Errors
/// The system does not list them, or standard output takes nothing.
pub(crate) fn list() -> Result<()> {
    let mut text = String::new();
    let mut number = 0;
    for (_, name) in names() {
        // The interface may have been removed.
        let Ok(flags) = iface::flags(&name) else { continue };
        number += 1;
        let states = [
            (flags.is_up(), "Up"),
            (flags.is_running(), "Running"),
            (flags.is_loopback(), "Loopback"),
        ];
        let states: Vec<_> =
            states.into_iter().filter(|state| state.0).map(|state| state.1).collect();
        let states = if states.is_empty() { "none".to_owned() } else { states.join(", ") };
        text += &format!("{number}.{name} [{states}]\n");
    }
    text += &format!("{}.any (all interfaces that are up) [Up, Running]\n", number + 1);
    output::print(&text)
}

/// The interfaces in the order in which -D numbers them.
fn names() -> Vec<(u32, String)> {
    iface::list().unwrap_or_default()
}

/// The interface with this number, unless the number is an interface's name.
fn numbered(text: &OsString) -> OsString {
    let number = text.to_str().and_then(|text| text.parse::<usize>().ok());
    let Some(place) = number.and_then(|number| number.checked_sub(1)) else { return text.clone() };
    let names = names();
    if names.iter().any(|(_, name)| text == name.as_str()) {
        return text.clone();
    }
    match names.get(place) {
        Some((_, name)) => name.into(),
        None if place == names.len() => "any".into(),
        None => text.clone(),
    }
}

/// The filter in a file. As in tcpdump, a `#` begins a comment.
fn contents(path: &Path) -> Result<String> {
    let text = text_file::read(path, text_file::LONGEST_FILTER, "a filter")?;
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default().trim_end());
    Ok(lines.collect::<Vec<_>>().join("\n"))
}

/// A link type as capture files number it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct LinkType(u16);

/// The link types of ports, by their names in libpcap.
const LINK_TYPES: [(u16, &str); 7] = [
    (1, "EN10MB"),
    (0, "NULL"),
    (101, "RAW"),
    (105, "IEEE802_11"),
    (113, "LINUX_SLL"),
    (127, "IEEE802_11_RADIO"),
    (276, "LINUX_SLL2"),
];

fn link_type(text: &str) -> Result<LinkType, String> {
    let is_named = |(_, name): &&(u16, &str)| name.eq_ignore_ascii_case(text);
    let known = LINK_TYPES.iter().find(is_named).map(|(number, _)| *number);
    known.or_else(|| text.parse().ok()).map(LinkType).ok_or_else(|| {
        let names: Vec<_> = LINK_TYPES.iter().map(|(_, name)| *name).collect();
        format!("write {}, or a number", names.join(", "))
    })
}

fn name_of(link_type: u16) -> String {
    let known = LINK_TYPES.iter().find(|(number, _)| *number == link_type);
    known.map_or_else(|| format!("link type {link_type}"), |(_, name)| (*name).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_of_a_filter_file_are_left_out() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("filter");
        std::fs::write(&path, "# web\ntcp port 80 # or 443\nor udp\n").unwrap();
        assert_eq!(contents(&path).unwrap(), "\ntcp port 80\nor udp");
        assert!(contents(&directory.path().join("none")).is_err());
    }

    #[test]
    fn interfaces_have_numbers() {
        let names = names();
        let of = |text: &str| numbered(&text.into()).into_string().unwrap();
        assert_eq!(of("1"), names[0].1);
        assert_eq!(of(&format!("{}", names.len() + 1)), "any");
        assert_eq!(
            (of("0"), of("eth7"), of("999999")),
            ("0".into(), "eth7".into(), "999999".into())
        );
    }

    #[test]
    fn link_types_have_names_and_numbers() {
        assert_eq!(link_type("en10mb"), Ok(LinkType(1)));
        assert_eq!(link_type("101"), Ok(LinkType(101)));
        assert!(link_type("ETHERNET").unwrap_err().contains("EN10MB"));
        assert_eq!((name_of(1), name_of(12)), ("EN10MB".into(), "link type 12".into()));
    }
}
