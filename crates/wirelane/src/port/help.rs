//! The syntax of a [`Spec`](super::Spec) as data, parsed from the option tables of the backends.
//!
//! `wirelane ports` prints the same tables.

use super::spec::Backend;

/// A kind of port, for listings.
#[derive(Clone, Debug)]
pub struct BackendHelp {
    /// The form of a spec, with the name as a placeholder in capitals.
    pub form: &'static str,
    /// A one-line description.
    pub about: &'static str,
    /// The capabilities needed to open it; `None` if none.
    pub needs: Option<&'static str>,
    /// Backend options, without the options that every port has.
    pub options: Vec<SpecOption>,
}

/// One option of a spec: a row of an option table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpecOption {
    /// The key, such as `ring`.
    pub key: String,
    /// Its values: words, or `A to B`.
    pub values: String,
    /// The default value.
    pub default: String,
    /// The effect.
    pub meaning: String,
}

impl Backend {
    /// Description and options of this backend.
    #[doc(hidden)]
    pub fn help(self) -> BackendHelp {
        let (form, about, needs, options) = match self {
            Self::Sim => (
                "sim:N",
                "a simulated interface with N queues, RSS and a predictable source",
                None,
                include_str!("sim/options.md"),
            ),
            Self::File => (
                "file:PATH",
                "a capture file: pcap or pcapng, plain, gzip, lz4 or zstd; - is standard input or \
                 output",
                None,
                include_str!("file/options.md"),
            ),
            Self::Packet => (
                "packet:IF",
                "AF_PACKET: copies of packets; a ring per queue, selected in the kernel",
                Some("CAP_NET_RAW"),
                include_str!("packet/options.md"),
            ),
            Self::Xdp => (
                "xdp:IF",
                "AF_XDP: takes the packets themselves; a socket per queue, in zero-copy, native or \
                 generic mode",
                Some("CAP_NET_RAW, CAP_NET_ADMIN, CAP_BPF"),
                include_str!("xdp/options.md"),
            ),
            Self::Tap => (
                "tap:IF",
                "a multi-queue TAP device with the kernel's network stack at its other end",
                Some("CAP_NET_ADMIN"),
                include_str!("tap/options.md"),
            ),
            Self::Custom => ("", "sources of packets in the program", None, ""),
        };
        BackendHelp { form, about, needs, options: rows(options) }
    }
}

impl SpecOption {
    /// The options that every port has.
    pub fn common() -> Vec<Self> {
        rows(include_str!("options.md"))
    }
}

/// The rows of a Markdown table, without its header.
fn rows(table: &str) -> Vec<SpecOption> {
    let row = |line: &str| {
        let line = line.replace('`', "");
        let line = line.strip_prefix("| ")?.strip_suffix(" |")?;
        let mut cells = line.split(" | ").map(str::to_owned);
        let (key, values) = (cells.next()?, cells.next()?);
        Some(SpecOption { key, values, default: cells.next()?, meaning: cells.next()? })
    };
    table.lines().skip(2).filter_map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::port;
    use crate::port::options::OpenOptions;
    use crate::port::spec::Spec;

    /// The error of opening a port of the backend. Options are parsed first, and the last one here
    /// does not exist: nothing is opened.
    fn refused(backend: Backend, option: &str) -> String {
        let separator = if option.is_empty() { "" } else { "&" };
        let spec = format!("{}:1?{option}{separator}nosuch=1", backend.as_str());
        let parsed = spec.parse::<Spec>();
        let opened = parsed.and_then(|spec| port::open(&spec, &OpenOptions::default()));
        opened.err().unwrap_or_else(|| panic!("{spec} was opened")).to_string()
    }

    /// Values of an option that must be taken: the words, and the ends of ranges.
    fn examples(option: &SpecOption) -> Vec<String> {
        let of = |values: &str| match values.split_once(" to ") {
            Some((least, most)) => vec![least.to_owned(), most.to_owned()],
            None if values.contains(' ') => vec!["7".to_owned()],
            None if values == "K" => vec!["3".to_owned()],
            None => vec![values.to_owned()],
        };
        option.values.split(", ").flat_map(of).collect()
    }

    #[test]
    fn every_option_is_told_of() {
        for backend in Backend::ALL {
            let message = refused(backend, "");
            let (_, known) = message.split_once("; known: ").unwrap();
            let mut known: Vec<_> = known.split(", ").collect();
            let options = backend.help().options;
            let mut told: Vec<_> = options.iter().map(|option| option.key.as_str()).collect();
            known.sort_unstable();
            told.sort_unstable();
            assert_eq!(told, known, "{backend:?}");
        }
        let common = SpecOption::common();
        let told: Vec<_> = common.iter().map(|option| option.key.as_str()).collect();
        assert_eq!(told, port::offload::switches::OffloadOptions::KEYS);
    }

    #[test]
    fn every_value_that_is_told_of_is_taken() {
        for backend in Backend::ALL {
            for option in &backend.help().options {
                for value in examples(option) {
                    let pair = format!("{}={value}", option.key);
                    let message = refused(backend, &pair);
                    assert!(message.contains("'nosuch' is not an option"), "{pair}: {message}");
                }
            }
        }
        for option in SpecOption::common() {
            for value in examples(&option) {
                let spec = format!("sim:1?{}={value}", option.key);
                assert!(spec.parse::<Spec>().is_ok(), "{spec}");
            }
        }
    }
}
