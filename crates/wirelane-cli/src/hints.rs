//! Translates the library's advice into options of this command.

/// Phrases of the library, and their translations.
const HINTS: [(&str, &str); 20] = [
    ("choose other CPUs", "name other CPUs with --cpus"),
    ("print or split, not both", "leave --print or --split out"),
    ("a split capture: standard output", "-w -: standard output"),
    ("a split capture", "`wirelane capture -r FILE --split -w NAME.pcapng`"),
    ("or do not split", "or leave --split out"),
    ("choose them by a mask", "use --rx-queues and --tx-queues"),
    ("give a filter, or take all packets", "add a filter (-f) or --all"),
    ("there is nothing to wait for", "leave --wait out"),
    ("open it to segment or to merge", "start it with --gso or --gro"),
    ("those of TCP and UDP can be cut", "--gso cuts those of TCP and UDP"),
    ("with zeros at the end, or as short as they are", "with --cut pad or --cut send"),
    ("sent with zeros at the end", "sent with zeros at the end (--cut pad)"),
    ("sent as short as in the file", "sent as short as in the file (--cut send)"),
    ("cut by a snap length: not sent", "cut by a snap length: not sent (--cut skip)"),
    ("rate: the link does not say", "--rate: the link does not say"),
    ("rate: is beyond 18 Tbit", "--rate: is beyond 18 Tbit"),
    ("give them one, with two addresses", "give them one with --ethernet DESTINATION,SOURCE"),
    ("send it once, or allow more memory", "leave out --loop, or allow more with --load"),
    ("choose another name for the lab", "choose another --name for the lab"),
    ("leave the addresses of IPv6 out", "turn IPv6 off: --ipv6 off"),
];

/// Translates a text of the library.
pub(crate) fn with_options(text: &str) -> String {
    let hint = |text: String, (library, command): &(&str, &str)| text.replace(library, command);
    HINTS.iter().fold(text.to_owned(), hint)
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
    fn the_library_knows_no_options_and_its_advice_is_known_here() {
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
        let all = lines.iter().map(|line| line.trim()).collect::<Vec<_>>().join(" ");
        let all = all.replace("\\ ", "");
        for (text, _) in HINTS {
            let parts: Vec<_> = text.split(": ").collect();
            assert!(parts.iter().all(|part| all.contains(part)), "{text}");
        }
    }

    #[test]
    fn advice_is_in_options() {
        let said =
            with_options("a split capture: standard output cannot be split; do, or do not split");
        assert_eq!(said, "-w -: standard output cannot be split; do, or leave --split out");
        let said = with_options("2 packets cut by a snap length: sent with zeros at the end");
        assert!(said.ends_with(": sent with zeros at the end (--cut pad)"), "{said}");
        let said = with_options(
            "x.pcap: all are cut; send them with zeros at the end, or as short as they are",
        );
        assert!(said.ends_with("; send them with --cut pad or --cut send"), "{said}");
    }
}
