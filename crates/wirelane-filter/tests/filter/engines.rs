//! The engines that the tests compare. The first engine of a list is the reference.

use std::os::unix::net::UnixDatagram;

use wirelane_filter::jit::{self, Jit};
use wirelane_filter::libpcap;
use wirelane_filter::{Buffers, Ending, Interpreter, Metadata, Packet, Program, translate};
use wirelane_os::bpf::{self, Load, ProgramType};

/// The metadata of every packet, equal to an XDP test run on `lo`.
pub(crate) const METADATA: Metadata = Metadata { queue: 0, packet_type: 0, interface_index: 1 };

/// Runs a program on a packet; `None` for a packet that the engine cannot be given.
pub(crate) type Run<'a> = Box<dyn Fn(&Packet<'_>) -> Option<u32> + 'a>;

/// One way to run a program.
#[derive(Clone, Copy)]
pub(crate) struct Engine {
    pub(crate) name: &'static str,
    /// Whether its answers are cut to the length of the packet.
    pub(crate) is_cut: bool,
    /// `None` for a program that the engine does not know how to run.
    pub(crate) prepare: fn(&Program) -> Option<Run<'_>>,
}

/// All that need no privilege.
pub(crate) fn unprivileged() -> Vec<Engine> {
    vec![Engine::INTERPRETER, Engine::LIBPCAP, Engine::SOCKET, Engine::JIT]
}

impl Engine {
    pub(crate) const INTERPRETER: Self =
        Self { name: "interpreter", is_cut: false, prepare: interpreter };
    /// Machine code; nothing where there is none for the processor.
    pub(crate) const JIT: Self = Self { name: "jit", is_cut: false, prepare: machine_code };
    /// libpcap's `bpf_filter`.
    pub(crate) const LIBPCAP: Self = Self { name: "libpcap", is_cut: false, prepare: libpcap };
    /// The kernel's filter of a socket.
    pub(crate) const SOCKET: Self = Self { name: "socket", is_cut: true, prepare: socket };
    /// Translated, in the kernel.
    pub(crate) const XDP: Self =
        Self { name: "xdp", is_cut: false, prepare: |program| xdp(program, Buffers::One) };
    /// The same, for packets in several buffers.
    pub(crate) const XDP_FRAGMENTS: Self = Self {
        name: "xdp with fragments",
        is_cut: false,
        prepare: |program| xdp(program, Buffers::Several),
    };
}

fn interpreter(program: &Program) -> Option<Run<'_>> {
    let interpreter = Interpreter::new(program).unwrap();
    Some(Box::new(move |packet| Some(interpreter.run(packet))))
}

fn machine_code(program: &Program) -> Option<Run<'_>> {
    if !jit::AVAILABLE {
        return None;
    }
    let jit = Jit::new(program).unwrap();
    // A read beyond the end is then one beyond the memory of the packet, which checkers see.
    Some(Box::new(move |packet| {
        let data: Box<[u8]> = packet.data.into();
        Some(jit.run(&Packet { data: &data, ..*packet }))
    }))
}

fn libpcap(program: &Program) -> Option<Run<'_>> {
    // libpcap supports only the ancillary loads for VLAN tags.
    if !program.ancillary().is_empty() {
        return None;
    }
    let library = libpcap::library().unwrap();
    let interpreter = library.interpreter(program.instructions()).expect("a valid program");
    Some(Box::new(move |packet| Some(interpreter.run(packet.data, packet.wire_len))))
}

fn socket(program: &Program) -> Option<Run<'_>> {
    // Datagrams of this socket have no queue, and their protocol is 0.
    if !program.ancillary().is_empty() {
        return None;
    }
    let (sender, receiver) = UnixDatagram::pair().unwrap();
    receiver.set_nonblocking(true).unwrap();
    // Where the kernel means something else, a cell of scratch memory may be needed to say it.
    let instructions = match program.for_socket(u32::MAX) {
        Ok(instructions) => instructions,
        Err(error) if error.cause().contains("uses all 16 cells") => return None,
        Err(error) => panic!("{error}"),
    };
    wirelane_os::packet::attach_filter(&receiver, &instructions).unwrap();
    Some(Box::new(move |packet| {
        // An empty datagram and a datagram cut to nothing look the same.
        if packet.data.is_empty() {
            return None;
        }
        sender.send(packet.data).unwrap();
        let mut buffer = vec![0; packet.data.len()];
        Some(receiver.recv(&mut buffer).map_or(0, |len| len as u32))
    }))
}

fn xdp(program: &Program, buffers: Buffers) -> Option<Run<'_>> {
    let insns = translate(program, buffers, Ending::Exit).unwrap();
    let load = Load {
        frags: buffers == Buffers::Several,
        ..Load::new(ProgramType::Xdp, "filter", &insns)
    };
    let loaded = bpf::Program::load(&load).unwrap_or_else(|error| {
        panic!(
            "{error}\n{program}\n{}",
            error.log.lines().rev().take(30).collect::<Vec<_>>().join("\n")
        )
    });
    Some(Box::new(move |packet| {
        // A test run takes Ethernet frames of up to about a page.
        if !(14..3000).contains(&packet.data.len()) {
            return None;
        }
        Some(loaded.test_run(packet.data, None, 1).unwrap().result)
    }))
}
