//! The part of an XDP program that finds the packets that keep a host reachable.
//!
//! They are, behind up to two VLAN tags:
//!
//! | what | how it is known |
//! |---|---|
//! | ARP | EtherType |
//! | neighbour discovery; multicast listeners, for snooping switches | ICMPv6 types 130 to 137 |
//! | SSH, DNS over TCP | port 22 or 53, of either side |
//! | DNS, DHCP, DHCPv6 | UDP port 53, 67, 68, 546 or 547, of either side |
//! | anything encrypted or signed | IPsec: ESP and AH, which may hold any of these |
//!
//! Packets that cannot be classified count as management too: those with a truncated or wrong
//! header, a third tag, or more than [`EXTENSIONS`] extension headers, and later fragments, which
//! have no ports.
//!
//! Fields at fixed offsets are read from the packet. After IPv4 options and IPv6 extension headers
//! a helper reads them (`bpf_xdp_load_bytes`, Linux 5.18): adding a variable to a packet pointer
//! needs CAP_PERFMON (`sanitize_ptr_alu` in `kernel/bpf/verifier.c`). On older kernels the program
//! adds to the pointer, and needs that capability.

use wirelane_os::bpf::{Alu, Assembler, Cond, Insn, Label, Reg, Size};

/// How many extension headers are walked. RFC 8200 section 4.1 has four before TCP or UDP, one of
/// them twice; AH and ESP end the walk.
pub(super) const EXTENSIONS: usize = 6;

/// Whether packets of a TCP connection between these ports stay with the host unless a port takes
/// them ([`Take::takes_management`](crate::port::Take::takes_management)).
pub fn keeps_tcp(ports: [u16; 2]) -> bool {
    ports.iter().any(|port| TCP_PORTS.contains(port))
}

/// How fields at variable offsets are read.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) enum FieldReading {
    /// By a helper, which Linux 5.18 has.
    #[default]
    Helper,
    /// Through a packet pointer, which CAP_PERFMON allows.
    Pointer,
}

/// Emits the test. The context is in R6, which is preserved; R0 to R5, R7 to R9 and 8 bytes below
/// the end of the stack frame are overwritten. Jumps to `host` for a management packet, and
/// continues after the last instruction for any other.
pub(super) fn keep(asm: &mut Assembler, host: Label, reading: FieldReading) {
    let [other, ports, ports_beyond, extensions, icmp6] = std::array::from_fn(|_| asm.label());
    let walk = ManagementLabels { reading, host, other, ports, ports_beyond, extensions, icmp6 };

    asm.emit(Insn::load(Size::Word, PACKET, CONTEXT, XDP_MD_DATA));
    asm.emit(Insn::load(Size::Word, END, CONTEXT, XDP_MD_DATA_END));
    for (depth, network) in NETWORK.into_iter().enumerate() {
        let tagged = asm.label();
        walk.present(asm, network);
        asm.emit(Insn::load(Size::Half, SECOND, PACKET, network - 2));
        for tag in TAGS {
            asm.jump_if(Cond::Eq, SECOND, network_order(tag), tagged);
        }
        walk.network(asm, network);
        asm.place(tagged);
        if depth == NETWORK.len() - 1 {
            asm.jump(host);
        }
    }
    walk.extensions(asm);
    walk.ports_beyond(asm);
    walk.icmp6(asm);
    walk.ports(asm);
    asm.place(other);
}

/// Offset of the network header with no, one and two tags.
const NETWORK: [i16; 3] = [14, 18, 22];
/// EtherTypes of VLAN tags: 802.1Q, 802.1ad, and its forerunner.
const TAGS: [u16; 3] = [0x8100, 0x88a8, 0x9100];
const ARP: u16 = 0x0806;
const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;

const TCP: i32 = 6;
const UDP: i32 = 17;
const FRAGMENT: i32 = 44;
const ESP: i32 = 50;
const AH: i32 = 51;
const ICMP6: i32 = 58;
/// Extension headers that begin with the next header and a length in units of 8 bytes beyond the
/// first 8: hop-by-hop and destination options, routing (RFC 8200), mobility (RFC 6275), HIP (RFC
/// 7401), shim6 (RFC 5533).
const WITH_LENGTH: [i32; 6] = [0, 43, 60, 135, 139, 140];

const SSH: u16 = 22;
const DNS: u16 = 53;
const TCP_PORTS: [u16; 2] = [SSH, DNS];
const UDP_PORTS: [u16; 5] = [DNS, 67, 68, 546, 547];

// Of `struct xdp_md`.
const XDP_MD_DATA: i16 = 0;
const XDP_MD_DATA_END: i16 = 4;
/// `BPF_FUNC_xdp_load_bytes`.
const XDP_LOAD_BYTES: i32 = 189;

const FIRST: Reg = Reg::R1;
const SECOND: Reg = Reg::R2;
const CONTEXT: Reg = Reg::R6;
/// The packet's first byte; after options and extension headers, the offset of the next header
/// instead.
const PACKET: Reg = Reg::R7;
const OFFSET: Reg = Reg::R7;
/// The protocol of the next header.
const PROTOCOL: Reg = Reg::R8;
const END: Reg = Reg::R9;
/// Output of the helper, below the end of the stack frame.
const READ: i16 = -8;

/// Labels of the parts of the test.
struct ManagementLabels {
    reading: FieldReading,
    /// For a management packet.
    host: Label,
    /// For any other packet.
    other: Label,
    /// With the ports in `FIRST` and `SECOND`, in network byte order.
    ports: Label,
    /// With the ports at `OFFSET`.
    ports_beyond: Label,
    /// With an extension header, of protocol `PROTOCOL`, at `OFFSET`.
    extensions: Label,
    /// With the ICMPv6 type in `FIRST`.
    icmp6: Label,
}

impl ManagementLabels {
    /// Continues if the packet has `length` bytes.
    fn present(&self, asm: &mut Assembler, length: i16) {
        asm.emit(Insn::mov_reg(SECOND, PACKET));
        asm.emit(Insn::alu64(Alu::Add, SECOND, i32::from(length)));
        asm.jump_if_reg(Cond::Gt, SECOND, END, self.host);
    }

    /// The EtherType is in `SECOND`, the network header at `at`.
    fn network(&self, asm: &mut Assembler, at: i16) {
        let ipv6 = asm.label();
        asm.jump_if(Cond::Eq, SECOND, network_order(ARP), self.host);
        asm.jump_if(Cond::Eq, SECOND, network_order(IPV6), ipv6);
        asm.jump_if(Cond::Ne, SECOND, network_order(IPV4), self.other);
        self.ipv4(asm, at);
        asm.place(ipv6);
        self.ipv6(asm, at);
    }

    /// RFC 791 section 3.1.
    fn ipv4(&self, asm: &mut Assembler, at: i16) {
        self.present(asm, at + 20);
        asm.emit(Insn::load(Size::Byte, FIRST, PACKET, at));
        asm.jump_if(Cond::Lt, FIRST, 0x45, self.host);
        asm.jump_if(Cond::Gt, FIRST, 0x4f, self.host);
        asm.emit(Insn::load(Size::Byte, PROTOCOL, PACKET, at + 9));
        let with_ports = asm.label();
        for protocol in [ESP, AH] {
            asm.jump_if(Cond::Eq, PROTOCOL, protocol, self.host);
        }
        for protocol in [TCP, UDP] {
            asm.jump_if(Cond::Eq, PROTOCOL, protocol, with_ports);
        }
        asm.jump(self.other);

        asm.place(with_ports);
        let options = asm.label();
        asm.emit(Insn::load(Size::Half, SECOND, PACKET, at + 6));
        asm.jump_if(Cond::Set, SECOND, network_order(0x1fff), self.host);
        asm.jump_if(Cond::Ne, FIRST, 0x45, options);
        self.ports_at(asm, at + 20);
        asm.place(options);
        asm.emit(Insn::mov_reg(OFFSET, FIRST));
        asm.emit(Insn::alu64(Alu::And, OFFSET, 0xf));
        asm.emit(Insn::alu64(Alu::Shl, OFFSET, 2));
        asm.emit(Insn::alu64(Alu::Add, OFFSET, i32::from(at)));
        asm.jump(self.ports_beyond);
    }

    /// RFC 8200 section 3.
    fn ipv6(&self, asm: &mut Assembler, at: i16) {
        self.present(asm, at + 40);
        asm.emit(Insn::load(Size::Byte, FIRST, PACKET, at));
        asm.emit(Insn::alu64(Alu::Shr, FIRST, 4));
        asm.jump_if(Cond::Ne, FIRST, 6, self.host);
        asm.emit(Insn::load(Size::Byte, PROTOCOL, PACKET, at + 6));
        let (with_ports, icmp6) = (asm.label(), asm.label());
        for protocol in [TCP, UDP] {
            asm.jump_if(Cond::Eq, PROTOCOL, protocol, with_ports);
        }
        asm.jump_if(Cond::Eq, PROTOCOL, ICMP6, icmp6);
        asm.emit(Insn::mov(OFFSET, i32::from(at + 40)));
        asm.jump(self.extensions);

        asm.place(with_ports);
        self.ports_at(asm, at + 40);
        asm.place(icmp6);
        self.present(asm, at + 41);
        asm.emit(Insn::load(Size::Byte, FIRST, PACKET, at + 40));
        asm.jump(self.icmp6);
    }

    fn ports_at(&self, asm: &mut Assembler, at: i16) {
        self.present(asm, at + 4);
        asm.emit(Insn::load(Size::Half, FIRST, PACKET, at));
        asm.emit(Insn::load(Size::Half, SECOND, PACKET, at + 2));
        asm.jump(self.ports);
    }

    /// The protocol of the header at `OFFSET` is in `PROTOCOL`.
    fn extensions(&self, asm: &mut Assembler) {
        asm.place(self.extensions);
        let icmp6 = asm.label();
        for step in 0..=EXTENSIONS {
            let [with_length, next] = std::array::from_fn(|_| asm.label());
            for protocol in [TCP, UDP] {
                asm.jump_if(Cond::Eq, PROTOCOL, protocol, self.ports_beyond);
            }
            asm.jump_if(Cond::Eq, PROTOCOL, ICMP6, icmp6);
            for protocol in [ESP, AH] {
                asm.jump_if(Cond::Eq, PROTOCOL, protocol, self.host);
            }
            for protocol in WITH_LENGTH {
                asm.jump_if(Cond::Eq, PROTOCOL, protocol, with_length);
            }
            asm.jump_if(Cond::Ne, PROTOCOL, FRAGMENT, self.other);
            if step == EXTENSIONS {
                asm.place(with_length);
                asm.jump(self.host);
                break;
            }
            // RFC 8200 section 4.5: the offset is in the upper 13 bits of the second half-word.
            self.read(asm, 4);
            asm.emit(Insn::load(Size::Half, SECOND, Reg::R10, READ + 2));
            asm.jump_if(Cond::Set, SECOND, network_order(0xfff8), self.host);
            asm.emit(Insn::mov(FIRST, 0));
            asm.jump(next);
            asm.place(with_length);
            self.read(asm, 4);
            asm.emit(Insn::load(Size::Byte, FIRST, Reg::R10, READ + 1));
            asm.place(next);
            asm.emit(Insn::load(Size::Byte, PROTOCOL, Reg::R10, READ));
            asm.emit(Insn::alu64(Alu::Add, FIRST, 1));
            asm.emit(Insn::alu64(Alu::Shl, FIRST, 3));
            asm.emit(Insn::alu64_reg(Alu::Add, OFFSET, FIRST));
        }
        asm.place(icmp6);
        self.read(asm, 1);
        asm.emit(Insn::load(Size::Byte, FIRST, Reg::R10, READ));
        asm.jump(self.icmp6);
    }

    fn ports_beyond(&self, asm: &mut Assembler) {
        asm.place(self.ports_beyond);
        self.read(asm, 4);
        asm.emit(Insn::load(Size::Half, FIRST, Reg::R10, READ));
        asm.emit(Insn::load(Size::Half, SECOND, Reg::R10, READ + 2));
        asm.jump(self.ports);
    }

    /// RFC 4861 has 133 to 137; RFC 2710 and RFC 3810, 130 to 132.
    fn icmp6(&self, asm: &mut Assembler) {
        asm.place(self.icmp6);
        asm.jump_if(Cond::Lt, FIRST, 130, self.other);
        asm.jump_if(Cond::Le, FIRST, 137, self.host);
        asm.jump(self.other);
    }

    fn ports(&self, asm: &mut Assembler) {
        let udp = asm.label();
        asm.place(self.ports);
        asm.jump_if(Cond::Eq, PROTOCOL, UDP, udp);
        let compare = |asm: &mut Assembler, ports: &[u16]| {
            for port in ports {
                for side in [FIRST, SECOND] {
                    asm.jump_if(Cond::Eq, side, network_order(*port), self.host);
                }
            }
        };
        compare(asm, &TCP_PORTS);
        asm.jump(self.other);
        asm.place(udp);
        compare(asm, &UDP_PORTS);
    }

    /// Reads `length` bytes at `OFFSET`: 1 or 4.
    fn read(&self, asm: &mut Assembler, length: i32) {
        if self.reading == FieldReading::Pointer {
            let size = if length == 1 { Size::Byte } else { Size::Word };
            asm.emit(Insn::load(Size::Word, FIRST, CONTEXT, XDP_MD_DATA));
            asm.emit(Insn::alu64_reg(Alu::Add, FIRST, OFFSET));
            asm.emit(Insn::mov_reg(SECOND, FIRST));
            asm.emit(Insn::alu64(Alu::Add, SECOND, length));
            asm.jump_if_reg(Cond::Gt, SECOND, END, self.host);
            asm.emit(Insn::load(size, FIRST, FIRST, 0));
            asm.emit(Insn::store(size, Reg::R10, READ, FIRST));
            return;
        }
        asm.emit(Insn::mov_reg(Reg::R1, CONTEXT));
        asm.emit(Insn::mov_reg(Reg::R2, OFFSET));
        asm.emit(Insn::mov_reg(Reg::R3, Reg::R10));
        asm.emit(Insn::alu64(Alu::Add, Reg::R3, i32::from(READ)));
        asm.emit(Insn::mov(Reg::R4, length));
        asm.emit(Insn::call(XDP_LOAD_BYTES));
        asm.jump_if(Cond::Ne, Reg::R0, 0, self.host);
    }
}

/// The result of a 16-bit load from a packet that contains `value`.
fn network_order(value: u16) -> i32 {
    value.to_be().into()
}
