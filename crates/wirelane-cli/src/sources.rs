//! The words of a command that looks at packets: ports or files, then a filter.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use wirelane::internal::port::OffloadOptions;
use wirelane::port::{Backend, Spec};
use wirelane::{Error, Result};

/// The sources and the filter that the words of a command line name.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct CommandInputs {
    /// The sources of packets, in this order.
    pub(crate) sources: Vec<InputWord>,
    /// The filter, if there is one.
    pub(crate) filter: Option<String>,
}

/// A word that names a source of packets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum InputWord {
    /// A port, unparsed.
    Port(OsString),
    /// A capture file; `-` is standard input.
    File(OsString),
}

impl InputWord {
    /// The port to open.
    ///
    /// # Errors
    /// It is malformed.
    pub(crate) fn spec(&self) -> Result<Spec> {
        match self {
            Self::Port(text) => Spec::try_from(text.as_os_str()),
            Self::File(path) => Ok(file(Path::new(path))),
        }
    }
}

/// The port of a file, whatever its name.
pub(crate) fn file(path: &Path) -> Spec {
    Spec {
        backend: Some(Backend::File),
        name: path.into(),
        queues: None,
        options: Vec::new(),
        offloads: OffloadOptions::default(),
    }
}

/// Names that words are compared with.
pub(crate) struct KnownNames<'a> {
    /// Whether there is an interface of this name.
    pub(crate) exists: &'a dyn Fn(&str) -> bool,
    /// All interfaces, for suggestions.
    pub(crate) interfaces: &'a dyn Fn() -> Vec<String>,
    /// Whether there is a file of this name, for a command that reads files named like ports.
    pub(crate) is_file: &'a dyn Fn(&OsStr) -> bool,
}

impl CommandInputs {
    /// Words that name a source are first, and the words after the last source are the filter. A
    /// port is a spec with a backend, `any`, or the name of an existing interface. A word of the
    /// filter language is never a source.
    ///
    /// `needs_port` is false where a port is named elsewhere: then all words may be a filter.
    ///
    /// # Errors
    /// No port is named; a word is neither a port nor the beginning of a filter; the filter is not
    /// UTF-8.
    pub(crate) fn split(
        words: &[OsString],
        needs_port: bool,
        known: &KnownNames<'_>,
    ) -> Result<Self> {
        if words.is_empty() && needs_port {
            return Err(Error::usage("port", "none is named").help(
                "name an interface, as in `eth0 tcp port 443`, or `any` for all; -D lists them, \
                 and -r FILE reads a file",
            ));
        }
        let mut sources = Vec::new();
        for word in words {
            let is_first = sources.is_empty() && needs_port;
            sources.push(match kind(word, known) {
                WordKind::Port => InputWord::Port(word.clone()),
                WordKind::File => InputWord::File(word.clone()),
                WordKind::Filter => break,
                // Opening the port will show whether it exists.
                WordKind::Name if is_first && similar(word, known).is_none() => {
                    InputWord::Port(word.clone())
                }
                WordKind::Name => return Err(unknown(word, is_first, known)),
            });
        }
        let filter = join(words.get(sources.len()..).unwrap_or_default())?;
        if let Some(filter) = &filter
            && sources.is_empty()
            && needs_port
        {
            let cause = format!("the words begin with a filter, '{filter}', and name no port");
            return Err(Error::usage("port", cause).help(
                "name it first, as in `eth0 tcp port 443`, or `any` for all interfaces; an \
                 interface whose name is a word of filters is packet:NAME",
            ));
        }
        Ok(Self { sources, filter })
    }
}

/// The filter that these words are, if there are any.
///
/// # Errors
/// It is not UTF-8.
pub(crate) fn join(words: &[OsString]) -> Result<Option<String>> {
    let texts: Option<Vec<_>> = words.iter().map(|word| word.to_str()).collect();
    let filter = texts.ok_or_else(|| Error::usage("filter", "it is not UTF-8"))?.join(" ");
    Ok((!filter.is_empty()).then_some(filter))
}

/// The kinds of words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WordKind {
    Port,
    File,
    Filter,
    /// An unknown name.
    Name,
}

fn kind(word: &OsStr, known: &KnownNames<'_>) -> WordKind {
    let is_file = (known.is_file)(word);
    let Some(text) = word.to_str() else {
        // Only paths of files may be other than UTF-8. Parsing the port reports other words.
        return if is_file { WordKind::File } else { WordKind::Port };
    };
    if let Some((backend, _)) = text.split_once(':')
        && Backend::ALL.iter().any(|known| known.as_str() == backend)
    {
        return WordKind::Port;
    }
    // Words of filters win over paths; `./tcp` is a file.
    if begins_filter(text) && !(is_file && text.contains(['/', '.'])) {
        return if is_file && text == "-" { WordKind::File } else { WordKind::Filter };
    }
    let name = text.split(['@', '?']).next().unwrap_or_default();
    match text == "any" || (known.exists)(name) {
        true => WordKind::Port,
        false if is_file => WordKind::File,
        false => WordKind::Name,
    }
}

/// Whether a filter may begin like this: with a word of its language, a number, an address, or an
/// operator.
fn begins_filter(text: &str) -> bool {
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let first = text.trim_start().split(|c| !is_name(c)).next().unwrap_or_default();
    let is_address = text.contains(':')
        && text.chars().all(|c| c.is_ascii_hexdigit() || matches!(c, ':' | '.' | '/' | '%'));
    KEYWORDS.contains(&first)
        || first.is_empty() && !text.is_empty() && !text.starts_with([':', '@', '?', '/'])
        || is_number(first)
        || is_address
        // Quoted as a whole; no interface has a space in its name.
        || text.trim().contains(' ')
}

/// A number, or addresses and networks that begin with one.
fn is_number(word: &str) -> bool {
    let is_digit = |c: char| c.is_ascii_digit() || c == '.';
    let is_hex = |rest: &str| !rest.is_empty() && rest.chars().all(|c| c.is_ascii_hexdigit());
    !word.is_empty() && (word.chars().all(is_digit) || word.strip_prefix("0x").is_some_and(is_hex))
}

fn unknown(word: &OsStr, is_first: bool, known: &KnownNames<'_>) -> Error {
    let shown = word.to_string_lossy();
    let meant = similar(word, known).map(|name| format!("did you mean {name}?"));
    if is_first {
        return Error::failed(shown.into_owned(), "there is no such interface")
            .help(meant.unwrap_or_else(|| "`wirelane queues` lists the interfaces".to_owned()));
    }
    let cause = match Spec::try_from(word) {
        Err(error) => error.cause().to_owned(),
        Ok(_) => "neither an interface nor the beginning of a filter".to_owned(),
    };
    let help = meant.unwrap_or_else(|| "`wirelane queues` lists interfaces".to_owned());
    Error::usage(format!("'{shown}'"), cause).help(format!("{help}; or write `host {shown}`"))
}

/// The interface that was probably meant.
fn similar(word: &OsStr, known: &KnownNames<'_>) -> Option<String> {
    let name = word.to_str()?.split(['@', '?']).next()?;
    let distance = |other: &String| strsim::osa_distance(name, other);
    let nearest = (known.interfaces)().into_iter().min_by_key(distance)?;
    let most = if name.chars().count() < 4 { 1 } else { 2 };
    (distance(&nearest) <= most).then_some(nearest)
}

/// The words of pcap-filter(7), as libpcap's scanner knows them.
const KEYWORDS: [&str; 129] = [
    "aarp",
    "action",
    "addr1",
    "addr2",
    "addr3",
    "addr4",
    "address1",
    "address2",
    "address3",
    "address4",
    "ah",
    "and",
    "arp",
    "atalk",
    "bcc",
    "broadcast",
    "byte",
    "carp",
    "clnp",
    "connectmsg",
    "csnp",
    "decnet",
    "dir",
    "direction",
    "dpc",
    "dst",
    "es-is",
    "esis",
    "esp",
    "ether",
    "fddi",
    "fisu",
    "gateway",
    "geneve",
    "greater",
    "hdpc",
    "hfisu",
    "hlssu",
    "hmsu",
    "hopc",
    "host",
    "hsio",
    "hsls",
    "icmp",
    "icmp6",
    "ifindex",
    "ifname",
    "igmp",
    "igrp",
    "ilmic",
    "inbound",
    "ip",
    "ip6",
    "ipx",
    "is-is",
    "isis",
    "iso",
    "l1",
    "l2",
    "lane",
    "lat",
    "len",
    "less",
    "link",
    "llc",
    "lsp",
    "lssu",
    "lsu",
    "mask",
    "metac",
    "metaconnect",
    "mopdl",
    "moprc",
    "mpls",
    "msu",
    "multicast",
    "net",
    "netbeui",
    "not",
    "oam",
    "oamf4",
    "oamf4ec",
    "oamf4sc",
    "on",
    "opc",
    "or",
    "outbound",
    "pim",
    "port",
    "portrange",
    "ppp",
    "pppoed",
    "pppoes",
    "proto",
    "protochain",
    "psnp",
    "ra",
    "radio",
    "rarp",
    "reason",
    "rnr",
    "rset",
    "rulenum",
    "ruleset",
    "rulset",
    "sc",
    "sca",
    "sctp",
    "sio",
    "slip",
    "sls",
    "snp",
    "src",
    "srnr",
    "stp",
    "subrulenum",
    "subtype",
    "ta",
    "tcp",
    "tr",
    "type",
    "udp",
    "vci",
    "vlan",
    "vpi",
    "vrrp",
    "vxlan",
    "wlan",
    "iih",
];

#[cfg(test)]
mod tests {
    use super::*;

    const INTERFACES: [&str; 5] = ["eth0", "eth1", "wl-b", "tcp", "6in4"];
    const FILES: [&str; 6] = ["-", "trace.pcap", "10.pcap", "./tcp", "udp", "eth1"];

    fn split(words: &[&str], needs_port: bool) -> Result<CommandInputs> {
        let words: Vec<_> = words.iter().map(OsString::from).collect();
        let known = KnownNames {
            exists: &|name| INTERFACES.contains(&name),
            interfaces: &|| INTERFACES.map(str::to_owned).to_vec(),
            is_file: &|word| FILES.iter().any(|file| word == *file),
        };
        CommandInputs::split(&words, needs_port, &known)
    }

    #[test]
    fn ports_come_first_and_the_rest_is_a_filter() {
        for (words, ports, filter) in [
            (&["eth0"][..], 1, None),
            (&["eth0", "eth1@0-3", "6in4", "packet:wl-b", "any"], 5, None),
            (&["eth0", "tcp", "port", "443"], 1, Some("tcp port 443")),
            (&["eth0", "tcp port 443"], 1, Some("tcp port 443")),
            (&["eth0", "eth1", "host", "eth1"], 2, Some("host eth1")),
            (&["eth0", "(tcp", "or", "udp)"], 1, Some("(tcp or udp)")),
            (&["eth0", "!tcp"], 1, Some("!tcp")),
            (&["eth0", "tcp[13]&2!=0"], 1, Some("tcp[13]&2!=0")),
            (&["eth0", "10.0.0.1"], 1, Some("10.0.0.1")),
            (&["eth0", "fe80::1"], 1, Some("fe80::1")),
            (&["eth0", "aa:bb:cc:dd:ee:ff"], 1, Some("aa:bb:cc:dd:ee:ff")),
            (&["eth0", "1,6 0 0 96"], 1, Some("1,6 0 0 96")),
            (&["eth0", "tcp"], 1, Some("tcp")),
            (&["packet:tcp", "tcp"], 1, Some("tcp")),
            (&["file:tcp", "sim:4?rate=1Mpps", "vlan"], 2, Some("vlan")),
            // Opening the port reports the error.
            (&["packet:eth0@x"], 1, None),
            (&["nosuch"], 1, None),
            (&["pakcet:eth0"], 1, None),
        ] {
            let found = split(words, true).unwrap();
            assert_eq!(
                (found.sources.len(), found.filter.as_deref()),
                (ports, filter),
                "{words:?}"
            );
        }
    }

    #[test]
    fn a_port_may_be_named_elsewhere() {
        for (words, ports, filter) in
            [(&[][..], 0, None), (&["tcp"], 0, Some("tcp")), (&["eth1", "udp"], 1, Some("udp"))]
        {
            let found = split(words, false).unwrap();
            assert_eq!(
                (found.sources.len(), found.filter.as_deref()),
                (ports, filter),
                "{words:?}"
            );
        }
        assert!(split(&["nosuch"], false).is_err());
    }

    #[test]
    fn files_are_named_like_ports() {
        let files = |words: &[&str]| {
            let found = split(words, true).unwrap();
            let is_file = |source: &InputWord| matches!(source, InputWord::File(_));
            (found.sources.iter().map(is_file).collect::<Vec<_>>(), found.filter)
        };
        for (words, expected, filter) in [
            (&["trace.pcap", "10.pcap", "./tcp"][..], &[true; 3][..], None),
            (&["-", "tcp"], &[true], Some("tcp")),
            // An interface, and a word of filters, are not files of their name.
            (&["eth1", "trace.pcap", "udp"], &[false, true], Some("udp")),
        ] {
            assert_eq!(files(words), (expected.to_vec(), filter.map(str::to_owned)), "{words:?}");
        }
    }

    #[test]
    fn what_is_neither_is_named() {
        for (words, needs_port, parts) in [
            (&["tcp", "port", "443"][..], true, &["'tcp port 443'", "no port", "any"][..]),
            (&["eht0"], true, &["eht0: ", "no such interface", "did you mean eth0?"]),
            (&["eth0", "eht1", "tcp"], true, &["'eht1'", "did you mean eth1?", "host eht1"]),
            (&["eth0", "example", "tcp"], true, &["'example'", "neither", "host example"]),
            (&["eth0", "pakcet:eth1"], true, &["no backend 'pakcet'"]),
            (&["eth9"], false, &["'eth9'", "neither"]),
        ] {
            let error = split(words, needs_port).unwrap_err().to_string();
            assert!(parts.iter().all(|part| error.contains(part)), "{error}");
        }
    }

    /// Every word here is one of the language: libpcap does not take it for the name of a host.
    #[test]
    fn words_of_the_language_are_no_hosts() {
        for word in KEYWORDS {
            let Err(error) = wirelane_filter::compile(word, 1, 96) else { continue };
            assert!(!error.cause().contains("unknown host"), "{word}: {error}");
        }
    }
}
