//! The library's remedies, in options of this command.

use wirelane::Error;
use wirelane::internal::Remedy;
use wirelane_wire::text::on_one_line;

/// The next step for the user, in options.
pub(crate) fn next_step(error: &Error) -> Option<String> {
    let remedy = error.offered_remedy().map(in_options);
    remedy.or_else(|| error.next_step().map(on_one_line))
}

/// The whole error on one line: `object: cause; next step`.
pub(crate) fn text(error: &Error) -> String {
    match next_step(error) {
        Some(step) => format!("{}; {step}", error.problem()),
        None => error.problem(),
    }
}

/// The options that a remedy needs.
fn in_options(remedy: &Remedy) -> String {
    let text = match remedy {
        Remedy::Cpus => "name other CPUs with --cpus",
        Remedy::PrintOrSplit => "leave --print or --split out",
        Remedy::SplitToFiles => "give a file name, or leave --split out",
        Remedy::SplitInterfaces => "name the interfaces, or leave --split out",
        Remedy::SplitLinkTypes => {
            "`wirelane capture -r FILE --split -w NAME.pcapng` makes a file of each interface"
        }
        Remedy::SplitFiltered(link_type) => {
            return format!("some packets have link type {link_type}: add --split -w NAME.pcapng");
        }
        Remedy::QueueMasks => "use --rx-queues and --tx-queues",
        Remedy::TakeOrCopy(interface) => {
            return format!("add a filter (-f) or --all, or copy packets: packet:{interface}");
        }
        Remedy::NoWait => "leave --wait out",
        Remedy::LongFrames => "start it with --gso or --gro",
        Remedy::CutPackets => "send them with --cut pad or --cut send",
        Remedy::EthernetHeader => "give them one with --ethernet DESTINATION,SOURCE",
        Remedy::LoadOrOnce => "name a file, leave out --loop, or allow more with --load",
        Remedy::LabName => "choose another --name for the lab",
        Remedy::NoIpv6 => "turn IPv6 off: --ipv6 off",
    };
    text.to_owned()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    /// The source lines in a directory and below it, without comments and tests.
    fn texts(directory: &Path, found: &mut Vec<String>) {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap();
            if path.is_dir() {
                texts(&path, found);
            } else if name.ends_with(".rs") && !name.contains("tests") {
                let text = fs::read_to_string(&path).unwrap();
                let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
                let lines = code.lines().filter(|line| !line.trim_start().starts_with("//"));
                found.extend(lines.map(str::to_owned));
            }
        }
    }

    #[test]
    fn the_library_knows_no_options() {
        let mut lines = Vec::new();
        for library in ["wirelane", "wirelane-send", "wirelane-lab"] {
            let place = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(library).join("src");
            let before = lines.len();
            texts(&place, &mut lines);
            assert!(lines.len() > before + 500, "{library}");
        }
        assert!(lines.len() > 10_000);
        // A whole command, which every user can enter, may have options.
        let outside = |line: &str| line.split('`').step_by(2).collect::<String>();
        let is_option = |word: &str| {
            let word = word.trim_start_matches(['"', '`', '(', '\'']);
            word.strip_prefix("--").is_some_and(|rest| rest.starts_with(char::is_alphabetic))
        };
        let with_one: Vec<_> =
            lines.iter().filter(|line| outside(line).split_whitespace().any(is_option)).collect();
        assert!(with_one.is_empty(), "{with_one:#?}");
    }

    #[test]
    fn remedies_are_in_options() {
        let error = Error::usage("standard output", "it cannot be split");
        let said = text(&error.remedy(Remedy::SplitToFiles));
        let expected =
            "standard output: it cannot be split; give a file name, or leave --split out";
        assert_eq!(said, expected);
        let error = Error::failed("x\n", "no").help("write\u{1b}[1m");
        assert_eq!(text(&error), "x\\n: no; write\\u{1b}[1m");
        assert_eq!(text(&Error::failed("x", "no")), "x: no");
    }
}
