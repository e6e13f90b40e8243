//! Tests against the kernel: as root, in separate namespaces.

use std::os::fd::{AsFd, AsRawFd};
use std::process::Command;

use super::*;
use crate::privilege::{Capability, Set};
use crate::testing::{in_new_namespace, privileged};
use crate::{iface, privilege};

/// A program that returns `action` for every packet.
fn constant(name: &str, action: XdpAction) -> Program {
    let insns = [Insn::mov(Reg::R0, action as i32), Insn::exit()];
    Program::load(&Load::new(ProgramType::Xdp, name, &insns)).unwrap()
}

/// A program that counts packets in entry 0 of `map` and returns `action`.
fn counting(map: &Map, action: XdpAction) -> Program {
    let mut asm = Assembler::new();
    let missing = asm.label();
    asm.emit(Insn::store_imm(Size::Word, Reg::R10, -4, 0));
    asm.emit(Insn::mov_reg(Reg::R2, Reg::R10));
    asm.emit(Insn::alu64(Alu::Add, Reg::R2, -4));
    asm.extend(Insn::load_map(Reg::R1, map.as_fd().as_raw_fd()));
    asm.emit(Insn::call(MAP_LOOKUP_ELEM));
    asm.jump_if(Cond::Eq, Reg::R0, 0, missing);
    asm.emit(Insn::load(Size::Double, Reg::R1, Reg::R0, 0));
    asm.emit(Insn::alu64(Alu::Add, Reg::R1, 1));
    asm.emit(Insn::store(Size::Double, Reg::R0, 0, Reg::R1));
    asm.place(missing);
    asm.emit(Insn::mov(Reg::R0, action as i32));
    asm.emit(Insn::exit());
    Program::load(&Load::new(ProgramType::Xdp, "counting", &asm.finish().unwrap())).unwrap()
}

fn ip(arguments: &str) {
    let status = Command::new("ip").args(arguments.split(' ')).status().unwrap();
    assert!(status.success(), "ip {arguments}");
}

/// A veth pair `va`, `vb` in this namespace, up; returns their indices.
fn veth() -> (u32, u32) {
    // Disables neighbour discovery, whose packets would be counted.
    let _ = std::fs::write("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1");
    ip("link add va type veth peer name vb");
    iface::up("va").unwrap();
    iface::up("vb").unwrap();
    (iface::index("va").unwrap(), iface::index("vb").unwrap())
}

// enum bpf_func_id
const MAP_LOOKUP_ELEM: i32 = 1;
const REDIRECT: i32 = 23;

#[test]
fn privileged_values_of_arrays() {
    if !privileged() {
        return;
    }
    let map = Map::create(MapKind::Array, "values", 12, 2).unwrap();
    map.update(1, b"twelve bytes").unwrap();
    assert_eq!(map.lookup(1).unwrap(), b"twelve bytes");
    assert_eq!(map.lookup(0).unwrap(), [0; 12]);
    let error = map.update(1, b"short").unwrap_err();
    assert_eq!(
        error.to_string(),
        "bpf BPF_MAP_UPDATE_ELEM(map values, entry 1): Invalid argument (EINVAL)"
    );
    assert_eq!(map.update(2, &[0; 12]).unwrap_err().errno(), Some(libc::E2BIG));
    assert_eq!(map.lookup(2).unwrap_err().errno(), Some(libc::ENOENT));
    assert_eq!(map.delete(0).unwrap_err().errno(), Some(libc::EINVAL));

    let map = Map::create(MapKind::PercpuArray, "percpu", 12, 1).unwrap();
    let value = map.lookup(0).unwrap();
    assert!(!value.is_empty() && value.len().is_multiple_of(16));
    let value = [1_u8; 16].repeat(value.len() / 16);
    map.update(0, &value).unwrap();
    assert_eq!(map.lookup(0).unwrap()[..12], [1; 12]);
}

#[test]
fn privileged_only_sockets_of_af_xdp_go_into_their_map() {
    if !privileged() {
        return;
    }
    let map = Map::create(MapKind::Xsk, "sockets", 4, 2).unwrap();
    let other = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let error = map.set_socket(0, other.as_fd()).unwrap_err();
    assert_eq!(error.errno(), Some(libc::EOPNOTSUPP), "{error}");
    map.delete(0).unwrap();
    assert_eq!(map.delete(2).unwrap_err().errno(), Some(libc::EINVAL));
    assert_eq!(map.lookup(0).unwrap_err().errno(), Some(libc::EOPNOTSUPP));
    let map = Map::create(MapKind::Array, "numbers", 4, 1).unwrap();
    assert_eq!(map.set_socket(0, other.as_fd()).unwrap_err().errno(), Some(libc::EINVAL));
}

#[test]
fn privileged_the_verifier_says_why() {
    if !privileged() {
        return;
    }
    let insns = [Insn::mov_reg(Reg::R0, Reg::R3), Insn::exit()];
    let error = Program::load(&Load::new(ProgramType::Xdp, "wrong", &insns)).unwrap_err();
    assert_eq!(error.os.errno(), Some(libc::EACCES));
    assert_eq!(error.reason(), Some("R3 !read_ok"), "{}", error.log);
    let text = "bpf BPF_PROG_LOAD(program wrong): Permission denied (EACCES): R3 !read_ok";
    assert_eq!(error.to_string(), text);
    assert!(error.log.lines().count() > 1, "{}", error.log);
    let text = "bpf BPF_PROG_LOAD(program wrong: R3 !read_ok): Permission denied (EACCES)";
    assert_eq!(crate::OsError::from(error).to_string(), text);
    // The log of these jumps is longer than the first buffer.
    let mut asm = Assembler::new();
    asm.emit(Insn::load(Size::Word, Reg::R2, Reg::R1, 16));
    asm.emit(Insn::mov(Reg::R0, 2));
    for n in 0..4000 {
        let next = asm.label();
        asm.jump_if(Cond::Eq, Reg::R2, n, next);
        asm.place(next);
    }
    asm.emit(Insn::mov_reg(Reg::R0, Reg::R3));
    asm.emit(Insn::exit());
    let insns = asm.finish().unwrap();
    let error = Program::load(&Load::new(ProgramType::Xdp, "long", &insns)).unwrap_err();
    assert_eq!(error.reason(), Some("R3 !read_ok"), "{}", error.os);
}

#[test]
fn privileged_without_capabilities_it_is_said_which() {
    if !privileged() {
        return;
    }
    assert_eq!(missing_capabilities(), []);
    for (kept, missing) in [
        (vec![Capability::NetAdmin], vec![Capability::Bpf]),
        (vec![Capability::Bpf], vec![Capability::NetAdmin]),
        (vec![], vec![Capability::Bpf, Capability::NetAdmin]),
        (vec![Capability::SysAdmin], vec![]),
    ] {
        std::thread::spawn(move || {
            privilege::drop_all(kept.into_iter().collect::<Set>()).unwrap();
            assert_eq!(missing_capabilities(), missing);
            let insns = [Insn::mov(Reg::R0, 2), Insn::exit()];
            let loaded = Program::load(&Load::new(ProgramType::Xdp, "pass", &insns));
            if missing.is_empty() {
                loaded.unwrap();
                return;
            }
            let error = loaded.unwrap_err();
            let text = "bpf BPF_PROG_LOAD(program pass): Operation not permitted (EPERM)";
            assert_eq!(error.to_string(), text);
            let map = Map::create(MapKind::Xsk, "sockets", 4, 1);
            assert_eq!(map.unwrap_err().errno(), Some(libc::EPERM));
        })
        .join()
        .unwrap();
    }
}

#[test]
fn privileged_a_test_run_shows_result_and_packet() {
    in_new_namespace(|| {
        // Drops packets from interface 1; writes the length of other packets into them.
        let mut asm = Assembler::new();
        let (drop, end) = (asm.label(), asm.label());
        asm.emit(Insn::load(Size::Word, Reg::R3, Reg::R1, 12));
        asm.emit(Insn::load(Size::Word, Reg::R4, Reg::R1, 4));
        asm.emit(Insn::load(Size::Word, Reg::R1, Reg::R1, 0));
        asm.emit(Insn::mov_reg(Reg::R2, Reg::R1));
        asm.emit(Insn::alu64(Alu::Add, Reg::R2, 14));
        asm.emit(Insn::mov(Reg::R0, XdpAction::Pass as i32));
        asm.jump_if_reg(Cond::Gt, Reg::R2, Reg::R4, end);
        asm.emit(Insn::store_imm(Size::Byte, Reg::R1, 13, 77));
        asm.jump_if(Cond::Ne, Reg::R3, 1, drop);
        asm.emit(Insn::exit());
        asm.place(drop);
        asm.emit(Insn::mov(Reg::R0, XdpAction::Drop as i32));
        asm.place(end);
        asm.emit(Insn::exit());
        let insns = asm.finish().unwrap();
        let load = Load { frags: true, ..Load::new(ProgramType::Xdp, "mark", &insns) };
        let program = Program::load(&load).unwrap();
        for length in [14, 60, 3000, 9000] {
            let outcome = program.test_run(&vec![7; length], None, 1).unwrap();
            let mut expected = vec![7; length];
            expected[13] = 77;
            assert_eq!((outcome.result, outcome.output), (XdpAction::Pass as u32, expected));
        }
        let error = program.test_run(&[7; 13], None, 1).unwrap_err();
        assert_eq!(error.errno(), Some(libc::EINVAL));

        let (va, _) = veth();
        // veth registers its queues with the first program; test runs need that.
        let _link = Link::attach(va, &constant("pass", XdpAction::Pass), XdpMode::Native).unwrap();
        let arrival = |ifindex, queue| Some(Arrival { ifindex, queue });
        let run = |arrival| program.test_run(&[7; 60], arrival, 3);
        assert_eq!(run(arrival(1, 0)).unwrap().result, XdpAction::Pass as u32);
        assert_eq!(run(arrival(va, 0)).unwrap().result, XdpAction::Drop as u32);
        assert_eq!(run(arrival(va, 1)).unwrap_err().errno(), Some(libc::EINVAL));
    });
}

#[test]
fn privileged_a_socket_filter_sees_the_packet() {
    if !privileged() {
        return;
    }
    let insns = [Insn::load(Size::Word, Reg::R0, Reg::R1, 0), Insn::exit()];
    let load = Load { license: c"GPL", ..Load::new(ProgramType::SocketFilter, "length", &insns) };
    let outcome = Program::load(&load).unwrap().test_run(&[0; 60], None, 1).unwrap();
    assert_eq!(outcome.result, 60 - 14);
}

#[test]
fn privileged_a_link_comes_changes_and_goes() {
    in_new_namespace(|| {
        let (va, vb) = veth();
        for mode in [XdpMode::Native, XdpMode::Generic] {
            assert_eq!(attached(va).unwrap(), None);
            let first = constant("first", XdpAction::Pass);
            let link = Link::attach(va, &first, mode).unwrap();
            let there = attached(va).unwrap().unwrap();
            assert_eq!(there.name.as_deref(), Some("first"));
            assert_eq!((there.id, there.mode), (first.id().unwrap(), mode));
            assert!(there.link.is_some() && link.is_attached().unwrap());
            assert_eq!(there.to_string(), format!("program 'first' (id {})", there.id));

            let second = constant("second", XdpAction::Pass);
            let error = Link::attach(va, &second, mode).unwrap_err();
            assert_eq!(error.errno(), Some(libc::EBUSY), "{error}");
            assert_eq!(
                error.to_string(),
                "bpf BPF_LINK_CREATE(va): Device or resource busy (EBUSY)"
            );
            assert_eq!(attached(va).unwrap(), Some(there));
            assert_eq!(attached(vb).unwrap(), None);

            link.update(&second).unwrap();
            assert_eq!(attached(va).unwrap().unwrap().name.as_deref(), Some("second"));
            drop((first, second));
            // A copy of the descriptor keeps a link alive, like a copy in a child process.
            let copy = link.as_fd().try_clone_to_owned().unwrap();
            link.detach().unwrap();
            assert_eq!((attached(va).unwrap(), link.is_attached().unwrap()), (None, false));
            drop((copy, link));
            let link = Link::attach(va, &constant("third", XdpAction::Pass), mode).unwrap();
            let _copy = link.as_fd().try_clone_to_owned().unwrap();
            drop(link);
            assert_eq!(attached(va).unwrap(), None);
        }
        assert_eq!(attached(4711).unwrap_err().errno(), Some(libc::ENODEV));
    });
}

#[test]
fn privileged_a_link_outlives_its_interface() {
    in_new_namespace(|| {
        let (va, _) = veth();
        let pass = constant("pass", XdpAction::Pass);
        let link = Link::attach(va, &pass, XdpMode::Native).unwrap();
        ip("link del va");
        assert!(!link.is_attached().unwrap());
        assert_eq!(link.update(&pass).unwrap_err().errno(), Some(libc::ENOLINK));
        link.detach().unwrap();
        let error = Link::attach(va, &pass, XdpMode::Native).unwrap_err();
        assert_eq!(error.errno(), Some(libc::EINVAL));
    });
}

#[test]
fn privileged_live_frames_arrive() {
    in_new_namespace(|| {
        let (va, vb) = veth();
        let map = Map::create(MapKind::Array, "count", 8, 1).unwrap();
        let _link = Link::attach(vb, &counting(&map, XdpAction::Drop), XdpMode::Native).unwrap();
        let insns = [
            Insn::mov(Reg::R1, va as i32),
            Insn::mov(Reg::R2, 0),
            Insn::call(REDIRECT),
            Insn::exit(),
        ];
        let send = Program::load(&Load::new(ProgramType::Xdp, "send", &insns)).unwrap();
        send.live_frames(&[0xff; 60], None, 0, 0).unwrap();
        let counted = || u64::from_ne_bytes(map.lookup(0).unwrap().try_into().unwrap());
        // The ring of a veth has 256 entries.
        for (repeat, batch, sum) in [(1, 0, 1), (64, 64, 65), (200, 256, 265), (250, 16, 515)] {
            send.live_frames(&[0xff; 60], None, repeat, batch).unwrap();
            assert!(crate::testing::eventually(|| counted() == sum), "{}", counted());
        }
        let error = send.live_frames(&[0xff; 60], None, 1, 257).unwrap_err();
        assert_eq!(error.errno(), Some(libc::E2BIG), "{error}");
    });
}
