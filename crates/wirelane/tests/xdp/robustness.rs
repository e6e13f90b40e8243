//! External events at an open port, and the errors of a port that cannot be opened. No test may
//! hang: every wait has a limit.

use std::env;
use std::process::Command;
use std::thread;

use rustix::process::{Resource, Rlimit, Signal, getrlimit, setrlimit};
use wirelane_os::bpf::{
    Attached, Insn, Link, Load, Program, ProgramType, Reg, XdpAction, XdpMode, attached,
};
use wirelane_os::iface;
use wirelane_os::privilege::{self, Capability, Set};
use wirelane_send::kernel::{LivePace, LiveSender, RunningSender};
use wirelane_testkit::privileged;
use wirelane_testkit::process::{ChildGuard, output};

use super::*;

/// Sends numbered frames from the near end, with a sender in the kernel.
fn load(bench: &Bench, count: Option<u64>, rate: u64) -> RunningSender {
    let frames: Vec<_> = (0..64).map(|n| packets::udp4(n).build()).collect();
    let pace = LivePace { count, rate: Some(rate), cpu: None };
    let interface = &bench.pair.a.interface;
    bench.near.inside(|| LiveSender::new(interface, &frames).unwrap().start(pace).unwrap())
}

fn program_at_far(bench: &Bench) -> Option<Attached> {
    bench.far.inside(|| attached(iface::index(&bench.pair.b.interface).unwrap()).unwrap())
}

/// Receives from all ends until `enough` packets have arrived since the call. Returns false if they
/// do not arrive in time.
fn receive(ends: &mut [Rx], enough: usize) -> bool {
    let (mut got, mut sum) = (Vec::new(), 0);
    eventually(|| {
        for rx in &mut *ends {
            sum += take(rx, &mut got);
            got.clear();
            rx.readiness().unwrap();
        }
        sum >= enough
    })
}

/// Enables NAPI at the far end, which a sender in the kernel needs, also in generic mode.
fn ready_for_load(queues: u32) -> Bench {
    let bench = Bench::new(queues, 1500);
    bench.pair.b.ethtool(&["-K", &bench.pair.b.interface, "gro", "on"]);
    bench
}

/// The process that [`privileged_a_killed_process_leaves_nothing`] kills.
#[test]
#[ignore = "is started by another test"]
fn hold_a_port() {
    let Ok(spec) = env::var("WIRELANE_TEST_SPEC") else { return };
    let mut port = XdpPort::open(&spec.parse().unwrap(), &both()).unwrap();
    let (mut ends, mut senders) = (port.rx().unwrap(), port.tx().unwrap());
    port.start().unwrap();
    let until = Instant::now() + 10 * PATIENCE;
    let mut batch = Batch::new(64);
    while Instant::now() < until {
        for (rx, tx) in ends.iter_mut().zip(&mut senders) {
            rx.receive(&mut batch);
            tx.transmit(&mut batch);
            tx.flush().unwrap();
        }
    }
}

#[test]
fn privileged_a_killed_process_leaves_nothing() {
    if !privileged::require() {
        return;
    }
    for mode in MODES {
        let bench = ready_for_load(2);
        let spec = format!("xdp:{}?mode={mode}", bench.pair.b.interface);
        let load = load(&bench, None, 50_000);
        let mut command = bench.far.command(env::current_exe().unwrap());
        command.args(["--ignored", "--exact", "robustness::hold_a_port"]);
        let child = ChildGuard::spawn(command.env("WIRELANE_TEST_SPEC", &spec));
        assert!(eventually(|| program_at_far(&bench).is_some()), "{}", child.stderr());
        let back = bench.pair.a.statistic("rx_packets");
        assert!(
            eventually(|| bench.pair.a.statistic("rx_packets") > back + 1000),
            "{mode}: nothing is forwarded: {}",
            child.stderr()
        );

        child.signal(Signal::KILL);
        assert!(eventually(|| program_at_far(&bench).is_none()), "{mode}");
        let mut port = open(&bench.far, &spec, &receiving()).unwrap();
        let mut ends = port.rx().unwrap();
        port.start().unwrap();
        assert!(receive(&mut ends, 1000), "{mode}: nothing comes after the new bind");
        load.stop().unwrap();
        finish(&*port.control(), &mut ends);
        assert_conserved(&port);
    }
}

#[test]
fn privileged_a_link_that_goes_down_and_up_again() {
    if !privileged::require() {
        return;
    }
    for mode in MODES {
        let bench = ready_for_load(1);
        let set = |end: &wirelane_testkit::veth::End, state| {
            Command::new("ip")
                .args(["-n", &end.namespace, "link", "set", &end.interface, state])
                .status()
                .unwrap();
        };
        let mut port = bench.far(&format!("?mode={mode}"), &both());
        let (mut ends, mut senders) = (port.rx().unwrap(), port.tx().unwrap());
        port.start().unwrap();
        for end in [&bench.pair.b, &bench.pair.a] {
            let sending = load(&bench, None, 20_000);
            assert!(receive(&mut ends, 500), "{mode}: nothing comes");
            set(end, "down");
            // Frames sent during this time wait, and sending does not block.
            let mut batch = Batch::new(8);
            senders[0].allocate(&mut batch, 8);
            batch.iter_mut().for_each(|frame| assert!(frame.fill(&packets::raw(1))));
            senders[0].transmit(&mut batch);
            let before = Instant::now();
            for _ in 0..3 {
                senders[0].flush().unwrap();
                senders[0].wait(Duration::from_millis(10)).unwrap();
            }
            assert!(before.elapsed() < PATIENCE, "{:?}", before.elapsed());
            thread::sleep(Duration::from_millis(50));
            set(end, "up");
            assert!(receive(&mut ends, 500), "{mode}: nothing comes after the link is up again");
            sending.stop().unwrap();
            assert!(
                eventually(|| {
                    senders[0].flush().unwrap();
                    senders[0].pending() == 0
                }),
                "{mode}: {} frames are never sent",
                senders[0].pending()
            );
        }
        finish(&*port.control(), &mut ends);
        assert_conserved(&port);
    }
}

#[test]
fn privileged_the_number_of_queues_changes() {
    if !privileged::require() {
        return;
    }
    for mode in MODES {
        let bench = ready_for_load(4);
        let channels = |end: &wirelane_testkit::veth::End, rx: u32, tx: u32| {
            let (rx, tx) = (rx.to_string(), tx.to_string());
            let mut command = Command::new("ip");
            command.args(["netns", "exec", &end.namespace, "ethtool", "-L", &end.interface]);
            output(command.args(["rx", &rx, "tx", &tx])).status.success()
        };
        let near = &bench.pair.a;
        let far = &bench.pair.b;
        let mut port =
            open(&bench.far, &format!("xdp:{}@0,1?mode={mode}", far.interface), &receiving())
                .unwrap();
        let mut ends = port.rx().unwrap();
        port.start().unwrap();
        // Packets then arrive on queue 0 or 1, on whichever CPU the sender runs.
        assert!(channels(near, 4, 2));
        // The kernel does not remove queues with a socket (ethtool_check_max_channel).
        assert!(!channels(far, 1, 4), "{mode}");
        for queues in [2, 4, 2] {
            assert!(channels(far, queues, 4), "{mode}, {queues} queues");
            let sending = load(&bench, None, 20_000);
            assert!(receive(&mut ends, 500), "{mode}: nothing comes with {queues} queues");
            sending.stop().unwrap();
        }
        finish(&*port.control(), &mut ends);
        assert_conserved(&port);
    }
}

#[test]
fn privileged_an_interface_that_is_removed() {
    if !privileged::require() {
        return;
    }
    for mode in MODES {
        let bench = ready_for_load(2);
        let mut port = bench.far(&format!("?mode={mode}"), &both());
        let (mut ends, mut senders) = (port.rx().unwrap(), port.tx().unwrap());
        port.start().unwrap();
        let sending = load(&bench, None, 20_000);
        assert!(receive(&mut ends, 500), "{mode}: nothing comes");
        let name = &bench.pair.b.interface;
        bench.far.run("ip", ["link", "del", name]);
        drop(sending); // may have failed: its interface was removed, too

        for rx in &mut ends {
            let (mut got, mut failure) = (Vec::new(), None);
            assert!(
                eventually(|| {
                    take(rx, &mut got);
                    failure = rx.readiness().err();
                    failure.is_some()
                }),
                "{mode}: no error"
            );
            let text = failure.unwrap().to_string();
            assert!(text.starts_with(&format!("{name}: the interface was removed")), "{text}");
            assert!(matches!(rx.readiness().unwrap(), Readiness::End));
        }
        for tx in &mut senders {
            let mut batch = Batch::new(4);
            tx.allocate(&mut batch, 4);
            batch.iter_mut().for_each(|frame| assert!(frame.fill(&packets::raw(1))));
            tx.transmit(&mut batch);
            let text = tx.flush().unwrap_err().to_string();
            assert!(text.starts_with(&format!("{name}: the interface was removed")), "{text}");
        }
        let before = Instant::now();
        port.control().stop();
        drop((ends, senders));
        let counts = port.frames();
        assert_eq!((counts.held(), counts.free), (0, counts.pool), "{counts:?}");
        drop(port);
        assert!(before.elapsed() < PATIENCE, "{:?}", before.elapsed());
        let error = open(&bench.far, &format!("xdp:{name}"), &receiving()).err().unwrap();
        assert!(error.to_string().contains("no such interface"), "{error}");
    }
}

#[test]
fn privileged_the_program_of_another_owner_stays() {
    if !privileged::require() {
        return;
    }
    let bench = Bench::new(1, 1500);
    let name = &bench.pair.b.interface;
    let insns = [Insn::mov(Reg::R0, XdpAction::Pass as i32), Insn::exit()];
    let firewall = Program::load(&Load::new(ProgramType::Xdp, "firewall", &insns)).unwrap();
    for theirs in [XdpMode::Native, XdpMode::Generic] {
        let _link = bench
            .far
            .inside(|| Link::attach(iface::index(name).unwrap(), &firewall, theirs).unwrap());
        let before = program_at_far(&bench);
        for query in ["", "?mode=native", "?mode=generic", "?mode=zerocopy"] {
            let error = open(&bench.far, &format!("xdp:{name}{query}"), &receiving()).err();
            let text = error.unwrap().to_string();
            let id = before.as_ref().unwrap().id;
            let named = text.contains(&format!("program 'firewall' (id {id})"));
            assert!(named && text.starts_with(name) && !text.contains('\n'), "{query}: {text}");
            assert_eq!(program_at_far(&bench), before, "{query}");
        }
        // A port that only sends attaches no program.
        drop(bench.far("?mode=native", &sending()));
        assert_eq!(program_at_far(&bench), before);
    }
}

#[test]
fn privileged_a_missing_capability_is_named() {
    if !privileged::require() {
        return;
    }
    let bench = Bench::new(1, 1500);
    let name = &bench.pair.b.interface;
    let all = [Capability::Bpf, Capability::NetAdmin, Capability::NetRaw];
    for missing in all {
        let kept: Set = all.into_iter().filter(|one| *one != missing).collect();
        for query in ["", "?mode=native", "?mode=generic"] {
            let spec: Spec = format!("xdp:{name}{query}").parse().unwrap();
            let error = bench.far.inside(|| {
                let attempt = || {
                    privilege::drop_all(kept).unwrap();
                    XdpPort::open(&spec, &receiving()).err()
                };
                thread::scope(|scope| scope.spawn(attempt).join().unwrap())
            });
            let text = error.unwrap().to_string();
            let (cause, fix) = text.split_once("; ").unwrap_or_default();
            assert!(cause.starts_with(name) && cause.contains(missing.name()), "{query}: {text}");
            assert!(fix.starts_with("run as root or `setcap "), "{query}: {text}");
            assert!(!text.contains('\n'));
            assert_eq!(program_at_far(&bench), None);
        }
    }
    // These three capabilities suffice.
    bench.far.inside(|| {
        let attempt = || {
            privilege::drop_all(all.into_iter().collect()).unwrap();
            XdpPort::open(&format!("xdp:{name}?frames=64&ring=64").parse().unwrap(), &both())
                .is_ok()
        };
        assert!(thread::scope(|scope| scope.spawn(attempt).join().unwrap()));
    });
}

#[test]
fn privileged_what_the_interface_does_not_have_is_said() {
    if !privileged::require() {
        return;
    }
    let bench = Bench::new(2, 9000);
    let name = &bench.pair.b.interface;
    for (spec, said) in [
        (format!("xdp:{name}@0-2"), vec!["2"]),
        (format!("xdp:{name}@7"), vec!["7"]),
        (format!("xdp:{name}?frame=2048&sg=off"), vec!["9000", "2048", "frame=4096"]),
        (format!("xdp:{name}?frame=4096&sg=off"), vec!["9000", "4096"]),
        (format!("xdp:{name}?mode=zerocopy"), vec!["zero copy"]),
        ("xdp:wl-none".to_owned(), vec!["wl-none"]),
    ] {
        let text = open(&bench.far, &spec, &receiving()).err().unwrap().to_string();
        assert!(said.iter().all(|word| text.contains(word)), "{spec}: {text}");
        assert!(!text.contains('\n'));
        assert_eq!(program_at_far(&bench), None, "{spec}");
    }
}

/// The soft limit is of the whole process; other tests have CAP_IPC_LOCK and are not affected.
#[test]
fn privileged_a_low_limit_of_locked_memory_is_named() {
    if !privileged::require() {
        return;
    }
    let bench = Bench::new(1, 1500);
    let name = &bench.pair.b.interface;
    let before = getrlimit(Resource::Memlock);
    let low = Rlimit { current: Some(512 << 10), maximum: before.maximum };
    setrlimit(Resource::Memlock, low).unwrap();
    let attempt = |query: &str| {
        let spec: Spec = format!("xdp:{name}{query}").parse().unwrap();
        let attempt = move || {
            let keep = [Capability::Bpf, Capability::NetAdmin, Capability::NetRaw];
            privilege::drop_all(keep.into_iter().collect()).unwrap();
            XdpPort::open(&spec, &receiving()).err()
        };
        bench.far.inside(|| thread::scope(|scope| scope.spawn(attempt).join().unwrap()))
    };
    let refused = ["", "?mode=generic"].map(attempt);
    let small = attempt("?mode=native&ring=64&frames=64");
    setrlimit(Resource::Memlock, before).unwrap();
    for error in refused {
        let text = error.unwrap().to_string();
        assert!(text.starts_with(name) && text.contains("locked memory"), "{text}");
        assert!(text.contains("ulimit -l"), "{text}");
        assert_eq!(program_at_far(&bench), None);
    }
    assert!(small.is_none(), "{small:?}");
}

/// A queue belongs to one socket. A second port gets an error, and the first loses nothing.
#[test]
fn privileged_a_queue_that_is_taken_is_named() {
    if !privileged::require() {
        return;
    }
    let bench = ready_for_load(2);
    let name = &bench.pair.b.interface;
    let mut port = bench.far("?mode=native", &receiving());
    let mut ends = port.rx().unwrap();
    port.start().unwrap();
    let error = open(&bench.far, &format!("xdp:{name}@1?mode=native"), &sending()).err().unwrap();
    let text = error.to_string();
    assert!(text.starts_with(name) && text.contains("queue 1"), "{text}");
    let sending = load(&bench, None, 20_000);
    assert!(receive(&mut ends, 900));
    sending.stop().unwrap();
    finish(&*port.control(), &mut ends);
}
