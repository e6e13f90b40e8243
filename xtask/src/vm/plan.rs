//! The programs of the guest.

/// A program that the guest runs.
#[derive(Clone, Default)]
pub(crate) struct Program {
    pub(crate) name: String,
    /// The most seconds that it may take. Usually it takes a small part of them, even on a busy
    /// machine.
    pub(crate) limit: u32,
    /// Whether it also runs without a named kernel, as in CI.
    pub(crate) always: bool,
    /// Whether it runs on the files of this machine, as if it ran here, instead of the guest's file
    /// system.
    pub(crate) at_home: bool,
    pub(crate) environment: Vec<(&'static str, String)>,
    /// A test target or one of the workspace's programs, and its arguments.
    pub(crate) command: Vec<String>,
    /// A second command that runs until the first ends.
    pub(crate) beside: Option<Vec<String>>,
    /// The interface to which the second command sends. The first command starts when this
    /// interface has received a packet.
    pub(crate) after: Option<String>,
    pub(crate) expected: Expected,
    /// Tests of it that are left out, with the reason.
    pub(crate) left_out: Vec<(&'static str, &'static str)>,
}

/// CPUs of the guest.
pub(crate) const CPUS: u16 = 2;

/// The condition for a program to pass, in addition to its exit status.
#[derive(Clone, Copy, Default)]
pub(crate) enum Expected {
    /// Test results if it is a test target.
    #[default]
    Nothing,
    /// At least this number of rates. Each must be above zero and in this mode.
    Rates(usize, &'static str),
    /// It must fail with this message.
    Refusal(&'static str),
}

/// The test target with the port contract on existing interfaces.
pub(crate) const CONTRACT: &str = "contract-wire";
/// The suites that make their own interfaces: the port contract, capture, forward.
pub(crate) const SUITES: [&str; 3] = ["contract", "command", "forward"];

/// The best mode of AF_XDP on the guest's interfaces.
#[derive(Clone, Copy)]
pub(crate) struct Modes {
    pub(crate) igb: &'static str,
    pub(crate) virtio: &'static str,
    /// Queues of the virtio_net interfaces.
    pub(crate) virtio_queues: u16,
    /// Whether a packet may use several frames: XDP_USE_SG, since 6.6.
    pub(crate) sg: bool,
    /// The message with which the kernel's engine is refused on igb.
    pub(crate) engine_refusal: Option<&'static str>,
    /// Whether the kernel can send by itself: BPF_F_TEST_XDP_LIVE_FRAMES, since 5.18.
    pub(crate) sends: bool,
}

impl Modes {
    /// The modes of a kernel, whose version `is_at_least` compares. They are constants, so that
    /// tests notice when a newer kernel or a change of Wirelane falls back to a lesser mode.
    pub(crate) fn of(is_at_least: impl Fn(u32, u32) -> bool) -> Self {
        Self {
            // igb_xsk.c exists since 6.14, XDP programs in the driver since 5.10.
            igb: if is_at_least(6, 14) { "zerocopy" } else { "native" },
            // Since 6.13, virtio_net sends without copying (virtnet_xsk_xmit). Before 5.13,
            // attaching a program disabled the remaining queue pairs (virtnet_xdp_set), and packets
            // that the device spread over these belonged to no port.
            virtio: match () {
                () if is_at_least(6, 13) => "zerocopy",
                () if is_at_least(5, 13) => "native",
                () => "generic",
            },
            // Before 6.12, attaching a program turned RSS off (virtnet_xdp_set); before 5.18 there
            // was no RSS. Without RSS, the device chooses the queue of a flow, and may change it.
            virtio_queues: if is_at_least(6, 12) { 4 } else { 1 },
            sg: is_at_least(6, 6),
            // Since 6.3, the kernel reports whether a driver transmits frames of XDP programs
            // (NETDEV_CMD_DEV_GET). igb of 6.12 transmits them only while it has a program; igb of
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

/// All programs, in order.
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

/// Sends by `interface` with the kernel's engine.
fn send(interface: &str) -> String {
    format!("wirelane send {interface} --engine kernel --packet ipv4 --count 1")
}

/// The path of the program `name` in the guest.
pub(crate) fn path(name: &str) -> String {
    format!("/bin/{name}")
}

/// The path of this machine's files in the guest.
pub(crate) const HOME: &str = "/host";

impl Program {
    fn new(name: impl Into<String>, limit: u32, command: &str) -> Self {
        Self { name: name.into(), limit, command: words(command), ..Self::default() }
    }

    /// Its line in the plan; `guest-init` describes the format. `located` returns the path of a
    /// program on this machine.
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

    /// The program with the failed tests only, if these are known.
    pub(crate) fn again(&self, tests: &[String]) -> Self {
        let mut program = self.clone();
        if !tests.is_empty() {
            program.command.push("--exact".to_owned());
            program.command.extend_from_slice(tests);
        }
        program
    }
}

/// The search path of Debian.
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

/// A program that requires something which the kernel or a driver lacks. It must be refused with
/// these words.
fn refused(what: &str, command: &str, words: &'static str) -> Program {
    let expected = Expected::Refusal(words);
    Program { expected, ..Program::new(format!("refused-{what}"), 60, command) }
}

/// rxdrop, txpush and l2fwd on `queues` queues of one interface. The other interface sends to it.
///
/// Each sample opens the port again, and igb loses its link for a second or two (igb_xdp_setup). So
/// samples are long.
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
                // Without an XDP program, a sender has the mode `copy`.
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

/// The other suites of `wirelane bench` on one interface. The other interface sends to it, as if
/// from outside. Their rates have no meaning: they must measure something, in the mode of the
/// driver, with this number of engines.
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
        // The paper's last three conditions, with one thread and with one per queue; without copies
        // if the driver has that mode.
        program("capture", &format!("capture {xdp} --disk /tmp --quick"), outside, 6, mode),
        program("capture-packet", &format!("capture {packet} --quick"), outside, 4, packet_mode),
        program("scaling", &format!("scaling {packet} --quick"), outside, 1, packet_mode),
        program("record", &format!("record {xdp} --quick"), outside, 1, mode),
        // Without --quick, whose time limit of six seconds for a program to get ready is too short
        // here.
        program("flows", &format!("flows {xdp}"), outside, 2, mode),
        // Through the kernel's discipline and around it.
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

/// The search for the highest rate without loss. The kernel sends through the other interface, if
/// it can.
fn noloss(driver: &str, mode: &'static str, sends: bool) -> Program {
    let far = format!("{driver}1");
    let arguments =
        format!("noloss --port xdp:{driver}0?mode={mode} --all --load {far} --size 64 --quick");
    // A driver transmits the kernel's frames only while it has a program (igb_xdp_xmit).
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
