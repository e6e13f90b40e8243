//! What the guest runs.

/// A program that the guest runs.
#[derive(Clone, Default)]
pub(crate) struct Program {
    pub(crate) name: String,
    /// The most seconds that it may take. It takes a small part of this, also where many want the
    /// processors.
    pub(crate) limit: u32,
    /// Whether it also runs where no kernel was named, as in CI.
    pub(crate) always: bool,
    /// Whether it runs among the files of this machine, as if it ran there, and not in the guest's
    /// own file system.
    pub(crate) at_home: bool,
    pub(crate) environment: Vec<(&'static str, String)>,
    /// A test target or one of the workspace's programs, and its arguments.
    pub(crate) command: Vec<String>,
    /// Another one that runs as long as the first.
    pub(crate) beside: Option<Vec<String>>,
    /// The interface to which that one sends: the first begins when it has received something.
    pub(crate) after: Option<String>,
    pub(crate) expected: Expected,
    /// Tests in it that are left out, and why.
    pub(crate) left_out: Vec<(&'static str, &'static str)>,
}

/// How many the guest has.
pub(crate) const CPUS: u16 = 2;

/// What a program must say to have passed, apart from ending well.
#[derive(Clone, Copy, Default)]
pub(crate) enum Expected {
    /// Test results if it is a test target.
    #[default]
    Nothing,
    /// At least so many rates, in each of which something moved in this mode.
    Rates(usize, &'static str),
    /// It must not end well, and say this.
    Refusal(&'static str),
}

/// The test target with the port contract on interfaces that exist.
pub(crate) const CONTRACT: &str = "contract-wire";
/// Those of the suites that make their interfaces themselves: the port contract, capture, forward.
pub(crate) const SUITES: [&str; 3] = ["contract", "command", "forward"];

/// The best mode of AF_XDP on the guest's interfaces.
#[derive(Clone, Copy)]
pub(crate) struct Modes {
    pub(crate) igb: &'static str,
    pub(crate) virtio: &'static str,
    /// How many queues those have.
    pub(crate) virtio_queues: u16,
    /// Whether packets may take several frames: XDP_USE_SG, of 6.6.
    pub(crate) sg: bool,
    /// In which words the kernel's engine is refused on igb.
    pub(crate) engine_refusal: Option<&'static str>,
    /// Whether the kernel sends by itself: BPF_F_TEST_XDP_LIVE_FRAMES, of 5.18.
    pub(crate) sends: bool,
}

impl Modes {
    /// Those of a kernel, which `is_at_least` knows. They are fixed here so that it is noticed when
    /// a newer kernel or a change of ours falls back to a lesser one.
    pub(crate) fn of(is_at_least: impl Fn(u32, u32) -> bool) -> Self {
        Self {
            // igb_xsk.c is of 6.14, the program in the driver of 5.10.
            igb: if is_at_least(6, 14) { "zerocopy" } else { "native" },
            // 6.13 sends without copying (virtnet_xsk_xmit). Before 5.13 a program took queue pairs
            // away that were left over (virtnet_xdp_set), and what the device spread over those
            // belonged to no port.
            virtio: match () {
                () if is_at_least(6, 13) => "zerocopy",
                () if is_at_least(5, 13) => "native",
                () => "generic",
            },
            // Before that a program turned RSS off (virtnet_xdp_set), and before 5.18 there was
            // none: which queue the packets of a flow come by is then the device's choice, which it
            // changes.
            virtio_queues: if is_at_least(6, 12) { 4 } else { 1 },
            sg: is_at_least(6, 6),
            // What a driver does with frames of XDP programs is told since 6.3
            // (NETDEV_CMD_DEV_GET). igb of 6.12 sends them only while it has a program; that of
            // 7.3 always does.
            engine_refusal: match () {
                () if is_at_least(6, 13) => None,
                () if is_at_least(6, 3) => Some("igb0 does not transmit frames of programs now"),
                () => Some("before Linux 6.3 the kernel does not say"),
            },
            sends: is_at_least(5, 18),
        }
    }
}

/// All of them, in this order.
pub(crate) fn all(modes: Modes) -> Vec<Program> {
    let mut programs =
        vec![Program { always: true, ..Program::new("queues", 120, "wirelane queues") }];
    let pairs = [("igb", modes.igb, 2), ("virtio", modes.virtio, modes.virtio_queues.min(2))];
    for ((driver, mode, queues), (other, ..)) in [(pairs[0], pairs[1]), (pairs[1], pairs[0])] {
        programs.push(Program { always: true, ..contract(driver, other, mode) });
        programs.extend(
            sockets(driver, mode, queues).map(|program| Program { always: true, ..program }),
        );
        programs.push(contract(driver, other, "packet"));
        if mode != "zerocopy" {
            let capture = format!("wirelane capture xdp:{driver}0?mode=zerocopy --all --count 1");
            let words = "has no zero copy";
            programs.push(refused(&format!("zerocopy-{driver}"), &capture, words));
        }
        let crashes = driver == "virtio" && modes.virtio_queues > CPUS;
        if crashes {
            let words = "virtio_net would crash the kernel";
            programs.push(refused("crash", &send(&format!("{driver}0")), words));
        }
        let engines = if modes.engine_refusal.is_none() && !crashes { 3 } else { 2 };
        programs.extend(bench(driver, mode, engines));
        if !crashes {
            programs.push(noloss(driver, mode, modes.sends));
        }
    }
    if !modes.sg {
        let capture = "wirelane capture xdp:igb0?mode=native&sg=on --all --count 1";
        programs.push(refused("sg", capture, "sg=on"));
    }
    if let Some(words) = modes.engine_refusal {
        // 5.10 has no live frames either, but the interface is asked first.
        programs.push(refused("kernel-engine", &send("igb0"), words));
    }
    programs.extend(SUITES.map(|name| suite(name, modes)));
    programs
}

/// The kernel's engine sends by `interface`.
fn send(interface: &str) -> String {
    format!("wirelane send {interface} --engine kernel --packet ipv4 --count 1")
}

/// Where the guest has the program `name`.
pub(crate) fn path(name: &str) -> String {
    format!("/bin/{name}")
}

/// Where the guest has the files of this machine.
pub(crate) const HOME: &str = "/host";

impl Program {
    fn new(name: impl Into<String>, limit: u32, command: &str) -> Self {
        Self { name: name.into(), limit, command: words(command), ..Self::default() }
    }

    /// Its line in the plan, which `guest-init` describes. `located` says where on this machine a
    /// program is.
    pub(crate) fn line(&self, located: impl Fn(&str) -> Option<String>) -> String {
        let mut fields = vec![self.name.clone(), self.limit.to_string()];
        fields.extend(self.after.as_ref().map(|interface| format!("@after={interface}")));
        fields.push(format!("PATH={}", if self.at_home { SEARCHED } else { "/bin" }));
        fields.extend(self.environment.iter().map(|(name, value)| format!("{name}={value}")));
        let mut add = |separator: &str, command: &[String]| {
            let [name, arguments @ ..] = command else { return };
            fields.push(separator.to_owned());
            if let (true, Some(located)) = (self.at_home, located(name)) {
                fields.extend([path("chroot"), HOME.to_owned(), located]);
            } else {
                fields.push(path(name));
            }
            fields.extend_from_slice(arguments);
        };
        add("--", &self.command);
        if let Some(beside) = &self.beside {
            add("--beside", beside);
        }
        fields.join("\t") + "\n"
    }

    /// The same for those tests only that failed, if it says which.
    pub(crate) fn again(&self, tests: &[String]) -> Self {
        let mut program = self.clone();
        if !tests.is_empty() {
            program.command.push("--exact".to_owned());
            program.command.extend_from_slice(tests);
        }
        program
    }
}

/// Where programs are found on a Debian.
const SEARCHED: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

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

/// A suite that makes its own interfaces, of the kinds that the kernel has.
fn suite(name: &'static str, modes: Modes) -> Program {
    let environment = vec![
        ("WIRELANE_REQUIRE_PRIVILEGED", "1".to_owned()),
        ("HOME", "/root".to_owned()),
        ("LC_ALL", "C.UTF-8".to_owned()),
    ];
    let named = if name == "command" { "capture" } else { name };
    let mut command = format!("{name} --test-threads=1");
    let mut left_out = Vec::new();
    if name != "contract" {
        command += " privileged_";
        left_out.push(("tests without interfaces", "they use nothing that kernels differ in"));
    } else {
        // Each kind of interface once: 700 tests take an hour here.
        command += " _2:: --skip sim_";
        left_out.push(("beds of one and four queues", "they make the same calls as those of two"));
        left_out.push(("sim_cable", "it uses no kernel"));
        if !modes.sg {
            command += " --skip xdp_jumbo_";
            left_out.push(("xdp_jumbo_2", "packets of several frames are of Linux 6.6"));
        }
    }
    let program = Program::new(format!("suite-{named}"), 3600, &command);
    Program { at_home: true, environment, left_out, ..program }
}

/// What the kernel or a driver lacks, and somebody asks for by name: it is refused, in these words.
fn refused(what: &str, command: &str, words: &'static str) -> Program {
    let expected = Expected::Refusal(words);
    Program { expected, ..Program::new(format!("refused-{what}"), 60, command) }
}

/// rxdrop, txpush and l2fwd on so many queues of one interface, the other interface sending to it.
///
/// Each sample opens the port anew, upon which igb loses its link for a second or two
/// (igb_xdp_setup): hence the length of a sample.
fn sockets(driver: &str, mode: &'static str, queues: u16) -> [Program; 3] {
    ["rxdrop", "txpush", "l2fwd"].map(|case| {
        let bench = "wirelane bench sockets --all --samples 1 --size 64";
        let port = |queue| format!("--port xdp:{driver}0@{queue}?mode={mode}");
        let ports: Vec<_> = (0..queues).map(port).collect();
        let subject = format!("{bench} --json --seconds 5s --case {case} {}", ports.join(" "));
        Program {
            beside: (case != "txpush").then(|| words(&load(driver, mode))),
            expected: Expected::Rates(
                ports.len(),
                // What only sends has no program, and so no mode of it.
                if case == "txpush" && mode != "zerocopy" { "copy" } else { mode },
            ),
            ..Program::new(format!("{case}-{driver}"), 180, &subject)
        }
    })
}

/// The other interface sends as fast as it can.
fn load(driver: &str, mode: &str) -> String {
    format!(
        "wirelane bench sockets --all --samples 1 --size 64 --seconds 600s --case txpush \
         --port xdp:{driver}1?mode={mode}"
    )
}

/// The other suites of `wirelane bench` on one interface, the other one sending to it from outside.
/// Their rates mean nothing: they have to measure something, in the mode that the driver has, by so
/// many engines.
fn bench(driver: &str, mode: &'static str, engines: usize) -> [Program; 7] {
    let outside = load(driver, mode);
    let xdp = format!("--port xdp:{driver}0?mode={mode} --all");
    let packet = format!("--port packet:{driver}0");
    let program = |name: &str, arguments: &str, beside: Option<&str>, rates: usize, mode| Program {
        beside: beside.map(words),
        after: beside.map(|_| format!("{driver}0")),
        expected: Expected::Rates(rates, mode),
        ..measured(name, driver, arguments)
    };
    let outside = Some(outside.as_str());
    let packet_mode = "tpacket-v3";
    [
        // The paper's last three conditions, by one thread and by one per queue; without copies
        // where the driver has that.
        program("capture", &format!("capture {xdp} --disk /tmp --quick"), outside, 6, mode),
        program("capture-packet", &format!("capture {packet} --quick"), outside, 4, packet_mode),
        program("scaling", &format!("scaling {packet} --quick"), outside, 1, packet_mode),
        program("record", &format!("record {xdp} --quick"), outside, 1, mode),
        // Not with --quick, where a program must be ready after six seconds: too few here.
        program("flows", &format!("flows {xdp}"), outside, 2, mode),
        // The kernel's discipline, and around it.
        program("qdisc", &format!("qdisc {packet} --quick"), None, 2, ""),
        program(
            "send",
            &format!("send --port {driver}0 --count-at {driver}1 --size 64 --case engine --quick"),
            None,
            engines,
            "",
        ),
    ]
}

/// The search for the highest rate without loss; the kernel sends by the other interface, if it
/// does.
fn noloss(driver: &str, mode: &'static str, sends: bool) -> Program {
    let far = format!("{driver}1");
    let arguments =
        format!("noloss --port xdp:{driver}0?mode={mode} --all --load {far} --size 64 --quick");
    // What the kernel sends leaves by a driver only while that has a program (igb_xdp_xmit).
    let listener = format!("wirelane capture xdp:{far}?mode={mode} --all --other off");
    Program {
        beside: Some(words(&listener)),
        expected: match sends {
            true => Expected::Rates(1, mode),
            false => Expected::Refusal("it takes Linux 5.18"),
        },
        ..measured("noloss", driver, &arguments)
    }
}

/// A suite of `wirelane bench`, once.
fn measured(name: &str, driver: &str, arguments: &str) -> Program {
    let command = format!("wirelane bench {arguments} --samples 1 --json");
    Program::new(format!("bench-{name}-{driver}"), 600, &command)
}

fn words(command: &str) -> Vec<String> {
    command.split(' ').map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEW: fn(u32, u32) -> bool = |_, _| true;

    #[test]
    fn line_holds_what_the_guest_needs() {
        let program = Program {
            environment: vec![("A", "b c".to_owned())],
            beside: Some(words("other -x")),
            after: Some("igb0".to_owned()),
            ..Program::new("name", 9, "one two")
        };
        assert_eq!(
            program.line(|_| None),
            "name\t9\t@after=igb0\tPATH=/bin\tA=b c\t--\t/bin/one\ttwo\t--beside\t/bin/other\t-x\n"
        );
    }

    #[test]
    fn programs_at_home_are_where_this_machine_has_them() {
        let program = Program { at_home: true, ..Program::new("name", 9, "one two") };
        let line = program.line(|name| Some(format!("/target/{name}")));
        assert!(line.ends_with("\t--\t/bin/chroot\t/host\t/target/one\ttwo\n"), "{line}");
    }

    #[test]
    fn only_the_tests_that_failed_run_again() {
        let program = Program::new("name", 9, "one --x").again(&["a::b".to_owned()]);
        assert_eq!(program.command, ["one", "--x", "--exact", "a::b"]);
        assert_eq!(program.again(&[]).command, program.command);
    }

    #[test]
    fn modes_are_those_of_the_kernel() {
        let of = |version: (u32, u32)| {
            let modes = Modes::of(|major, minor| version >= (major, minor));
            (modes.igb, modes.virtio)
        };
        assert_eq!(of((5, 10)), ("native", "generic"));
        assert_eq!(of((6, 1)), ("native", "native"));
        assert_eq!(of((6, 12)), ("native", "native"));
        assert_eq!(of((7, 3)), ("zerocopy", "zerocopy"));
    }

    #[test]
    fn names_are_unique() {
        for modes in [Modes::of(NEW), Modes::of(|_, _| false)] {
            let mut names: Vec<_> = all(modes).into_iter().map(|program| program.name).collect();
            let count = names.len();
            names.sort();
            names.dedup();
            assert_eq!(names.len(), count);
        }
    }

    #[test]
    fn what_always_runs_is_short() {
        assert_eq!(all(Modes::of(NEW)).iter().filter(|program| program.always).count(), 9);
    }
}
