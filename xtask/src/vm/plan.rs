//! What the guest runs.

/// A program that the guest runs.
#[derive(Default)]
pub(crate) struct Program {
    pub(crate) name: String,
    /// The most seconds that it may take. It takes a small part of this, also where many want the processors.
    pub(crate) limit: u32,
    pub(crate) environment: Vec<(&'static str, String)>,
    /// A test target or one of the workspace's programs, and its arguments.
    pub(crate) command: Vec<String>,
    /// Another one that runs as long as the first.
    pub(crate) beside: Option<Vec<String>>,
    /// How many rates it must report, of each of which something must have moved in zero copy.
    pub(crate) rates: usize,
}

/// The test target with the port contract on interfaces that exist.
pub(crate) const CONTRACT: &str = "contract-wire";

/// All of them, in this order.
pub(crate) fn all() -> Vec<Program> {
    let mut programs = vec![Program::new("queues", 120, "wirelane queues")];
    let pairs = ["igb", "virtio"];
    for (driver, other) in [(pairs[0], pairs[1]), (pairs[1], pairs[0])] {
        programs.push(contract(driver, other, "zerocopy"));
        programs.extend(sockets(driver));
    }
    programs
}

/// Where the guest has the program `name`.
pub(crate) fn path(name: &str) -> String {
    format!("/bin/{name}")
}

impl Program {
    fn new(name: impl Into<String>, limit: u32, command: &str) -> Self {
        Self { name: name.into(), limit, command: words(command), ..Self::default() }
    }

    /// Its line in the plan, which `guest-init` describes.
    pub(crate) fn line(&self) -> String {
        let mut fields = vec![self.name.clone(), self.limit.to_string(), "PATH=/bin".to_owned()];
        fields.extend(self.environment.iter().map(|(name, value)| format!("{name}={value}")));
        let mut add = |separator: &str, command: &[String]| {
            if let [name, arguments @ ..] = command {
                fields.extend([separator.to_owned(), path(name)]);
                fields.extend_from_slice(arguments);
            }
        };
        add("--", &self.command);
        if let Some(beside) = &self.beside {
            add("--beside", beside);
        }
        fields.join("\t") + "\n"
    }
}

/// The port contract on the interfaces of a driver.
fn contract(driver: &str, other: &str, mode: &str) -> Program {
    let pair = |driver| format!("{driver}0,{driver}1");
    let environment = vec![
        ("WIRELANE_CONTRACT_PAIR", pair(driver)),
        ("WIRELANE_CONTRACT_TWIN", pair(other)),
        ("WIRELANE_CONTRACT_MODE", mode.to_owned()),
        ("WIRELANE_REQUIRE_PRIVILEGED", "1".to_owned()),
    ];
    let command = format!("{CONTRACT} --test-threads=1 --nocapture");
    let program = Program::new(format!("contract-{driver}-{mode}"), 900, &command);
    Program { environment, ..program }
}

/// rxdrop, txpush and l2fwd on each queue of one interface, the other interface sending to it.
///
/// Each sample opens the port anew, upon which igb loses its link for a second or two
/// (igb_xdp_setup): hence the length of a sample.
fn sockets(driver: &str) -> [Program; 3] {
    ["rxdrop", "txpush", "l2fwd"].map(|case| {
        let bench = "wirelane bench sockets --all --samples 1 --size 64";
        let ports = [0, 1].map(|queue| format!("--port xdp:{driver}0@{queue}?mode=zerocopy"));
        let subject = format!("{bench} --json --seconds 5s --case {case} {}", ports.join(" "));
        let load =
            format!("{bench} --seconds 600s --case txpush --port xdp:{driver}1?mode=zerocopy");
        Program {
            beside: (case != "txpush").then(|| words(&load)),
            rates: ports.len(),
            ..Program::new(format!("{case}-{driver}"), 180, &subject)
        }
    })
}

fn words(command: &str) -> Vec<String> {
    command.split(' ').map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_holds_what_the_guest_needs() {
        let program = Program {
            environment: vec![("A", "b c".to_owned())],
            beside: Some(words("other -x")),
            ..Program::new("name", 9, "one two")
        };
        assert_eq!(
            program.line(),
            "name\t9\tPATH=/bin\tA=b c\t--\t/bin/one\ttwo\t--beside\t/bin/other\t-x\n"
        );
    }

    #[test]
    fn names_are_unique() {
        let mut names: Vec<_> = all().into_iter().map(|program| program.name).collect();
        let count = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}
