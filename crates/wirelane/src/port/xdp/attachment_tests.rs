//! The program of a port: its owner, its end, its replacement under traffic.

use std::env;
use std::num::NonZero;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use rustix::net::{
    AddressFamily, Protocol, RecvFlags, SocketFlags, SocketType, recv, socket_with, sockopt,
};
use rustix::process::Signal;
use wirelane_os::bpf::{
    Attached, Insn, Link, Load, Program, ProgramType, Reg, XdpAction, XdpMode, attached,
};
use wirelane_os::iface;
use wirelane_os::privilege::{self, Capability, Set};
use wirelane_send::kernel::{LivePace, LiveSender};
use wirelane_testkit::netns::Namespace;
use wirelane_testkit::process::ChildGuard;
use wirelane_testkit::veth::{End, VethPair};
use wirelane_testkit::wait::eventually;
use wirelane_testkit::{packets, privileged};

use super::{Attachment, Target, Verdicts};
use crate::error::Result;
use crate::filter;
use crate::port::xdp::hints::HintRequest;

/// Time after which something is stuck: on a busy machine a thread may wait for seconds.
const PATIENCE: Duration = Duration::from_secs(60);

const PLACES: [XdpMode; 2] = [XdpMode::Native, XdpMode::Generic];

fn attach(interface: &str, mode: XdpMode, plan: &Verdicts) -> Result<Attachment> {
    let ifindex = iface::index(interface).unwrap();
    let target = Target {
        interface,
        ifindex,
        queues: 2,
        mode,
        multi_buffer: false,
        tags: None,
        hints: HintRequest::default(),
    };
    Attachment::new(&target, plan)
}

fn there(interface: &str) -> Option<Attached> {
    attached(iface::index(interface).unwrap()).unwrap()
}

fn foreign() -> Program {
    let insns = [Insn::mov(Reg::R0, XdpAction::Pass as i32), Insn::exit()];
    Program::load(&Load::new(ProgramType::Xdp, "firewall", &insns)).unwrap()
}

/// Classic BPF that accepts every packet.
fn everything() -> Option<Arc<filter::Program>> {
    Some(Arc::new(filter::Program::parse(1, "1\n6 0 0 262144\n").unwrap()))
}

/// The full name of the next one.
const HOLD: &str = "port::xdp::program::attachment_tests::hold_a_program";

/// The process that is killed; see [`privileged_the_program_goes_with_its_process`].
#[test]
#[ignore = "is started by another test"]
fn hold_a_program() {
    let Ok(interface) = env::var("WIRELANE_TEST_INTERFACE") else { return };
    let mode = PLACES[env::var("WIRELANE_TEST_MODE").unwrap().parse::<usize>().unwrap()];
    let _attachment = attach(&interface, mode, &Verdicts::default()).unwrap();
    thread::sleep(10 * PATIENCE);
}

#[test]
fn privileged_the_program_goes_with_its_process() {
    if !privileged::require() {
        return;
    }
    let (a, b) = (Namespace::new(), Namespace::new());
    let pair = VethPair::new(&a, &b, 2, 1500);
    let interface = pair.a.interface.as_str();
    let _inside = a.enter();
    for (number, mode) in PLACES.into_iter().enumerate() {
        let mut command = a.command(env::current_exe().unwrap());
        command.args(["--ignored", "--exact", HOLD]);
        command.env("WIRELANE_TEST_INTERFACE", interface);
        command.env("WIRELANE_TEST_MODE", number.to_string());
        let child = ChildGuard::spawn(&mut command);
        assert!(eventually(|| there(interface).is_some()), "{}", child.stderr());
        let program = there(interface).unwrap();
        assert_eq!((program.name.as_deref(), program.mode), (Some("wirelane"), mode));
        assert!(program.link.is_some());

        child.signal(Signal::KILL);
        assert!(eventually(|| there(interface).is_none()));
        let attachment = attach(interface, mode, &Verdicts::default()).unwrap();
        assert!(attachment.is_attached().unwrap());
        attachment.detach().unwrap();
        attachment.detach().unwrap();
        assert_eq!((there(interface), attachment.is_attached().unwrap()), (None, false));
    }
}

#[test]
fn privileged_a_foreign_program_is_named_and_left_alone() {
    if !privileged::require() {
        return;
    }
    let (a, b) = (Namespace::new(), Namespace::new());
    let pair = VethPair::new(&a, &b, 2, 1500);
    let interface = pair.a.interface.as_str();
    let _inside = a.enter();
    let ifindex = iface::index(interface).unwrap();
    for theirs in PLACES {
        let program = foreign();
        let _link = Link::attach(ifindex, &program, theirs).unwrap();
        let before = there(interface);
        for ours in PLACES {
            let error = attach(interface, ours, &Verdicts::default()).unwrap_err();
            let name = if theirs == XdpMode::Native { "native" } else { "generic" };
            let expected = format!(
                "{interface}: it already has the XDP program 'firewall' (id {}), {name} mode; it was left alone; \
                 stop the process that holds its BPF link {}",
                program.id().unwrap(),
                before.as_ref().unwrap().link.unwrap()
            );
            assert_eq!(error.to_string(), expected);
            assert_eq!(there(interface), before);
        }
    }
    attach(interface, XdpMode::Native, &Verdicts::default()).unwrap();
}

/// Half of the frames sent are management and must all reach the host; none of the others may. For
/// these there is a socket, which drops them, as it is not bound. A moment without a program would
/// let some pass, and so would a moment without a map entry.
#[test]
fn privileged_replacing_the_program_loses_nothing_and_leaks_nothing() {
    if !privileged::require() {
        return;
    }
    let (a, b) = (Namespace::new(), Namespace::new());
    let pair = VethPair::new(&a, &b, 1, 1500);
    // Lets NAPI run at the receiving end also where the program is generic.
    pair.b.ethtool(&["-K", &pair.b.interface, "gro", "on"]);
    let host = b.inside(host_socket);
    for mode in PLACES {
        let _inside = b.enter();
        let management = Verdicts { keep_management: true, filter: None };
        let attachment = attach(&pair.b.interface, mode, &management).unwrap();
        let socket = xdp_socket();
        attachment.set_socket(0, socket.as_fd()).unwrap();
        let frames = [frame(&pair, 0, 53), frame(&pair, 1, 5353)];
        // Packets that do not fit in the ring of the veth, if the receiving side is too slow.
        let lost = || pair.a.statistic("tx_dropped");
        let mut replaced = 0;
        // On a busy machine most are lost, or the program is hardly replaced: then once more.
        let is_done = eventually(|| {
            let (mut counts, before) = ([0; 2], lost());
            let sending = a.inside(|| {
                let pace = LivePace { count: Some(20_000), rate: Some(40_000), cpu: None };
                LiveSender::new(&pair.a.interface, &frames).unwrap().start(pace).unwrap()
            });
            while !sending.is_finished() {
                let plan = match replaced % 2 {
                    0 => Verdicts { filter: everything(), ..management.clone() },
                    _ => management.clone(),
                };
                attachment.replace(&plan).unwrap();
                replaced += 1;
                count(&host, &mut counts);
            }
            assert_eq!(sending.wait().unwrap().frames, 20_000);
            let lost = lost() - before;
            // Those that were lost may have been of either kind.
            let mut still = counts;
            eventually(|| {
                count(&host, &mut counts);
                let is_still = std::mem::replace(&mut still, counts) == counts;
                counts[0] >= 10_000 || is_still && counts[0] + lost >= 10_000
            });
            let arrived = (10_000_u64.saturating_sub(lost)..=10_000).contains(&counts[0]);
            assert!(arrived, "{mode:?}: {counts:?}, {lost} lost, replaced {replaced} times");
            assert_eq!(counts[1], 0, "{mode:?}, replaced {replaced} times");
            lost < 5_000 && replaced > 10
        });
        assert!(is_done, "{mode:?}: replaced {replaced} times");

        // Without its entry in the map the queue is the host's.
        attachment.clear(0).unwrap();
        attachment.clear(0).unwrap();
        let mut counts = [0; 2];
        a.inside(|| LiveSender::new(&pair.a.interface, &frames).unwrap().send(10).unwrap());
        assert!(eventually(|| {
            count(&host, &mut counts);
            counts == [5, 5]
        }));
    }
}

#[test]
fn privileged_what_is_wrong_is_said() {
    if !privileged::require() {
        return;
    }
    let (a, b) = (Namespace::new(), Namespace::new());
    let pair = VethPair::new(&a, &b, 2, 1500);
    let interface = pair.a.interface.as_str();
    let _inside = a.enter();
    for (kept, missing) in [
        (&[Capability::Bpf][..], "CAP_NET_ADMIN"),
        (&[Capability::NetAdmin], "CAP_BPF"),
        (&[], "CAP_BPF and CAP_NET_ADMIN"),
    ] {
        let error = thread::scope(|scope| {
            let try_it = || {
                privilege::drop_all(kept.iter().copied().collect::<Set>()).unwrap();
                attach(interface, XdpMode::Native, &Verdicts::default()).unwrap_err()
            };
            scope.spawn(try_it).join().unwrap()
        });
        let expected = format!(
            "{interface}: an XDP program needs {missing}; \
             run as root or `setcap cap_net_raw,cap_net_admin,cap_bpf+ep` the program"
        );
        assert_eq!(error.to_string(), expected);
    }

    let attachment = attach(interface, XdpMode::Native, &Verdicts::default()).unwrap();
    let socket = xdp_socket();
    attachment.set_socket(1, socket.as_fd()).unwrap();
    let error = attachment.set_socket(2, socket.as_fd()).unwrap_err().to_string();
    assert!(error.starts_with(&format!("{interface}: ")) && error.contains("entry 2"), "{error}");
    let other = host_socket();
    assert!(attachment.set_socket(0, other.as_fd()).is_err());

    a.run("ip", ["link", "del", interface]);
    assert!(!attachment.is_attached().unwrap());
    let error = attachment.replace(&Verdicts::default()).unwrap_err();
    assert_eq!(error.to_string(), format!("{interface}: the interface is gone"));
    attachment.detach().unwrap();
}

fn xdp_socket() -> OwnedFd {
    socket_with(AddressFamily::XDP, SocketType::RAW, SocketFlags::CLOEXEC, None).unwrap()
}

/// Sees every packet that the host gets.
fn host_socket() -> OwnedFd {
    let all = Protocol::from_raw(NonZero::new(u32::from(3_u16.to_be())).unwrap());
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::PACKET, SocketType::RAW, flags, Some(all)).unwrap();
    // Room for everything, whatever the limit of the machine: what it cannot take is lost and not
    // counted.
    sockopt::set_socket_recv_buffer_size_force(&socket, 64 << 20).unwrap();
    socket
}

/// Adds what the host has got since: frames with sequence 0 and 1.
fn count(host: &OwnedFd, counts: &mut [u64; 2]) {
    let mut buffer = [0; 2048];
    while let Ok((_, length)) = recv(host, buffer.as_mut_slice(), RecvFlags::empty()) {
        if let Some(number) = packets::sequence(&buffer[..length]) {
            counts[number as usize] += 1;
        }
    }
}

/// A frame from `a` to `b` that carries `number`, to this UDP port.
fn frame(pair: &VethPair, number: u64, port: u16) -> Vec<u8> {
    let address = |end: &End| end.address;
    let mut frame = packets::udp4(number)
        .macs(pair.a.mac, pair.b.mac)
        .addresses(address(&pair.a), address(&pair.b))
        .build();
    frame[36..38].copy_from_slice(&port.to_be_bytes());
    frame[40..42].fill(0); // no checksum
    frame
}
