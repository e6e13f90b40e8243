use super::*;
use crate::iface;
use crate::mmap::Mapping;
use crate::testing;
use crate::tun::{self, Tap};
use std::mem::size_of;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

const BLOCK: usize = 1 << 16;
const RING: RingRequest = RingRequest {
    block_size: BLOCK as u32,
    block_count: 4,
    frame_size: 2048,
    retire_ms: 5,
    fill_rxhash: false,
};
const TX_RING: SlotRingRequest =
    SlotRingRequest { block_size: BLOCK as u32, block_count: 1, frame_size: 2048 };
/// A limit for events that must happen, also on a busy machine.
const SOON: Option<Duration> = Some(Duration::from_secs(60));
const MOMENT: Option<Duration> = Some(Duration::from_millis(100));

/// A broadcast frame of an EtherType for local experiments, which no protocol answers.
fn frame(mark: u8) -> Vec<u8> {
    let mut frame = vec![0xff; 6];
    frame.extend([2, 0, 0, 0, 0, 1, 0x88, 0xb5]);
    frame.resize(60, mark);
    frame
}

/// A minimal reader, one block at a time, like a port.
struct Reader {
    socket: PacketSocket,
    ring: Mapping,
    next: usize,
}

impl Reader {
    fn open(interface: &str, filter: Option<&[SockFilter]>) -> Reader {
        let socket = PacketSocket::open().unwrap();
        socket.set_version_v3().unwrap();
        socket.set_rx_ring(&RING).unwrap();
        let ring = socket.map(RING.bytes().unwrap()).unwrap();
        if let Some(program) = filter {
            socket.attach_filter(program).unwrap();
        }
        socket.bind(iface::index(interface).unwrap(), ETH_P_ALL_BE).unwrap();
        Reader { socket, ring, next: 0 }
    }

    fn status(&self, block: usize) -> &AtomicU32 {
        // SAFETY: inside the mapping, aligned, and shared with the kernel as an atomic word.
        unsafe {
            AtomicU32::from_ptr(self.ring.as_ptr().add(block * BLOCK + BLOCK_STATUS_OFFSET).cast())
        }
    }

    /// The packets of the next block with their headers; empty after the timeout.
    fn block(&mut self, timeout: Option<Duration>) -> Vec<(Tpacket3Hdr, SockaddrLl, Vec<u8>)> {
        let until = timeout.map(|timeout| Instant::now() + timeout);
        while self.status(self.next).load(Ordering::Acquire) & TP_STATUS_USER == 0
            && until.is_none_or(|until| Instant::now() < until)
        {
            self.socket.wait_readable(timeout).unwrap();
        }
        if self.status(self.next).load(Ordering::Acquire) & TP_STATUS_USER == 0 {
            return Vec::new();
        }
        let mut packets = Vec::new();
        // SAFETY: the block is ours until its status is given back; the offsets are the kernel's.
        unsafe {
            let start = self.ring.as_ptr().add(self.next * BLOCK);
            let block = start.cast::<TpacketBlockDesc>().read();
            assert_eq!(block.version, Version::V3 as u32);
            let mut header = start.add(block.bh1.offset_to_first_pkt as usize);
            for _ in 0..block.bh1.num_pkts {
                let packet = header.cast::<Tpacket3Hdr>().read();
                let from = header.add(SOCKADDR_LL_OFFSET_V3).cast::<SockaddrLl>().read();
                let data = header.add(usize::from(packet.mac));
                let bytes = std::slice::from_raw_parts(data, packet.snaplen as usize).to_vec();
                packets.push((packet, from, bytes));
                header = header.add(packet.next_offset as usize);
            }
        }
        self.status(self.next).store(TP_STATUS_KERNEL, Ordering::Release);
        self.next = (self.next + 1) % RING.block_count as usize;
        packets
    }

    /// The marks of the received test frames, of which `count` are expected. Reads until no more
    /// arrive.
    fn marks(&mut self, count: usize) -> Vec<u8> {
        let mut marks = Vec::new();
        loop {
            let packets = self.block(if marks.len() < count { SOON } else { MOMENT });
            if packets.is_empty() {
                return marks;
            }
            let ours = packets.iter().filter(|(_, _, bytes)| bytes[12..14] == [0x88, 0xb5]);
            marks.extend(ours.map(|(_, _, bytes)| bytes[14]));
        }
    }
}

fn op(code: u32, jt: u8, jf: u8, k: u32) -> SockFilter {
    SockFilter { code: code as u16, jt, jf, k }
}

fn accept(bytes: u32) -> SockFilter {
    op(libc::BPF_RET | libc::BPF_K, 0, 0, bytes)
}

/// Accepts packets with this `skb->queue_mapping`.
fn only_queue_mapping(value: u32) -> [SockFilter; 4] {
    let queue = (libc::SKF_AD_OFF + libc::SKF_AD_QUEUE) as u32;
    [
        op(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, queue),
        op(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 1, value),
        accept(u32::MAX),
        accept(0),
    ]
}

fn tap(name: &str, queues: usize) -> Tap {
    let tap = Tap::open(name, queues, tun::Options::default()).unwrap();
    iface::up(name).unwrap();
    tap
}

#[test]
fn words_shared_with_the_kernel() {
    assert_eq!(BLOCK_STATUS_OFFSET, 8);
    assert_eq!(ETH_P_ALL_BE.to_ne_bytes(), [0, 3]);
}

#[test]
fn privileged_a_frame_sent_is_read_from_the_ring() {
    testing::in_new_namespace(|| {
        let tap = tap("wl-a", 1);
        let mut reader = Reader::open("wl-a", None);
        let before = crate::clock::realtime_ns();
        assert_eq!(tap.write(0, &frame(7)).unwrap(), 60);
        let packets = std::iter::from_fn(|| Some(reader.block(SOON))).flatten();
        let (header, from, bytes) = packets
            .take(20)
            .find(|(_, _, bytes)| bytes[12..14] == [0x88, 0xb5])
            .expect("the frame arrives");
        assert_eq!(bytes, frame(7));
        assert_eq!((header.len, header.snaplen), (60, 60));
        assert_eq!((from.pkttype, from.hatype), (PACKET_BROADCAST, libc::ARPHRD_ETHER));
        let time = u64::from(header.sec) * 1_000_000_000 + u64::from(header.nsec);
        let after = crate::clock::realtime_ns();
        assert!((before..=after).contains(&time), "{before} <= {time} <= {after}");
        assert!(reader.socket.statistics().unwrap().packets >= 1);
        assert_eq!(reader.socket.statistics().unwrap(), Statistics::default(), "reading resets");
    });
}

#[test]
fn privileged_nothing_arrives_before_bind() {
    testing::in_new_namespace(|| {
        let tap = tap("wl-b", 1);
        let socket = PacketSocket::open().unwrap();
        socket.set_version_v3().unwrap();
        socket.set_rx_ring(&RING).unwrap();
        tap.write(0, &frame(1)).unwrap();
        assert!(!socket.wait_readable(MOMENT).unwrap());
        assert_eq!(socket.statistics().unwrap(), Statistics::default());
        let index = iface::index("wl-b").unwrap();
        socket.bind(index, ETH_P_ALL_BE).unwrap();
        let address = socket.local_address().unwrap();
        assert_eq!(address.ifindex, index as i32);
        assert_eq!(address.protocol, ETH_P_ALL_BE);
        assert_eq!(socket.link_type(index).unwrap(), libc::ARPHRD_ETHER);
    });
}

#[test]
fn privileged_a_filter_selects_exactly_a_queue_and_is_replaced() {
    testing::in_new_namespace(|| {
        let tap = tap("wl-c", 4);
        // Every multi-queue tap records its queue, shifted by one.
        let mut reader = Reader::open("wl-c", Some(&only_queue_mapping(3)));
        let write_all =
            || (0..4).for_each(|q| assert_eq!(tap.write(q, &frame(q as u8)).unwrap(), 60));
        write_all();
        assert_eq!(reader.marks(1), [2]);
        reader.socket.attach_filter(&only_queue_mapping(1)).unwrap();
        write_all();
        assert_eq!(reader.marks(1), [0]);
        reader.socket.attach_filter(&[accept(0)]).unwrap();
        write_all();
        assert_eq!(reader.marks(0), []);
        let error = reader.socket.attach_filter(&[]).unwrap_err();
        assert_eq!(error.errno(), Some(libc::EINVAL), "{error}");
        write_all();
        assert_eq!(reader.marks(0), [], "a refused program leaves the old one");
    });
}

#[test]
fn privileged_tx_rings_of_both_versions_send() {
    testing::in_new_namespace(|| {
        for version in [Version::V2, Version::V3] {
            for bypass in [false, true] {
                let name = format!("wl-{version:?}-{bypass}");
                let tap = tap(&name, 1);
                let socket = PacketSocket::open().unwrap();
                socket.set_qdisc_bypass(bypass).unwrap();
                socket.set_tx_ring(version, &TX_RING).unwrap();
                assert_eq!(socket.version().unwrap(), Some(version));
                let ring = socket.map(TX_RING.bytes().unwrap()).unwrap();
                socket.bind(iface::index(&name).unwrap(), 0).unwrap();
                assert_eq!(socket.send_pending().unwrap(), 0, "nothing to send");
                for mark in 0..3 {
                    put(&ring, version, u32::from(mark), &frame(mark));
                }
                assert_eq!(socket.send_pending().unwrap(), 3 * 60);
                assert_eq!(sent_marks(&tap), [0, 1, 2], "{version:?}, bypass {bypass}");
                assert!(socket.wait_writable(SOON).unwrap());
            }
        }
    });
}

/// Writes a frame in slot `slot` of a TX ring and requests sending it.
fn put(ring: &Mapping, version: Version, slot: u32, frame: &[u8]) {
    let (len_at, status_at) = match version {
        Version::V2 => (std::mem::offset_of!(Tpacket2Hdr, len), 0),
        Version::V3 => {
            (std::mem::offset_of!(Tpacket3Hdr, len), std::mem::offset_of!(Tpacket3Hdr, status))
        }
    };
    // SAFETY: the slot is inside the mapping and free, so it is ours until its status says
    // otherwise.
    unsafe {
        let start = ring.as_ptr().add(TX_RING.frame_offset(slot).unwrap());
        let data = start.add(version.tx_data_offset());
        data.copy_from_nonoverlapping(frame.as_ptr(), frame.len());
        start.add(len_at).cast::<u32>().write(frame.len() as u32);
        let status = AtomicU32::from_ptr(start.add(status_at).cast());
        assert_eq!(status.load(Ordering::Acquire), TP_STATUS_AVAILABLE);
        status.store(TP_STATUS_SEND_REQUEST, Ordering::Release);
    }
}

fn sent_marks(tap: &Tap) -> Vec<u8> {
    let mut marks = Vec::new();
    let mut buffer = [0; 2048];
    while let Ok(len) = tap.read(0, &mut buffer) {
        if buffer[12..14] == [0x88, 0xb5] {
            assert_eq!(len, 60);
            marks.push(buffer[14]);
        }
    }
    marks
}

#[test]
fn privileged_what_this_host_sends_is_seen_unless_ignored() {
    testing::in_new_namespace(|| {
        let _tap = tap("wl-j", 1);
        let mut reader = Reader::open("wl-j", Some(&only_ethertype(0x88b5)));
        let sender = PacketSocket::open().unwrap();
        sender.bind(iface::index("wl-j").unwrap(), 0).unwrap();
        sender.send_frame(&frame(1)).unwrap();
        let packets = reader.block(SOON);
        let kinds: Vec<_> = packets.iter().map(|(_, from, _)| from.pkttype).collect();
        assert_eq!(kinds, [PACKET_OUTGOING]);
        reader.socket.set_ignore_outgoing(true).unwrap();
        sender.send_frame(&frame(2)).unwrap();
        assert_eq!(reader.marks(0), []);
        reader.socket.set_ignore_outgoing(false).unwrap();
        sender.send_frame(&frame(3)).unwrap();
        assert_eq!(reader.marks(1), [3]);
    });
}

#[test]
fn privileged_a_full_ring_counts_its_drops() {
    testing::in_new_namespace(|| {
        let tap = tap("wl-e", 1);
        let mut reader = Reader::open("wl-e", Some(&only_ethertype(0x88b5)));
        // Four blocks of 64 KiB hold fewer than 4 · 65536 / (60 + 80) packets.
        let sent = 2000;
        for _ in 0..sent {
            tap.write(0, &frame(1)).unwrap();
        }
        let statistics = reader.socket.statistics().unwrap();
        assert_eq!(statistics.packets, sent, "dropped ones are included");
        assert!(statistics.drops > 0 && statistics.freezes > 0, "{statistics:?}");
        let kept = sent - statistics.drops;
        assert_eq!(reader.marks(kept as usize).len() as u32, kept);
    });
}

fn only_ethertype(value: u32) -> [SockFilter; 4] {
    [
        op(libc::BPF_LD | libc::BPF_H | libc::BPF_ABS, 0, 0, 12),
        op(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 1, value),
        accept(u32::MAX),
        accept(0),
    ]
}

#[test]
fn privileged_promiscuous_mode_is_undone_with_the_socket() {
    testing::in_new_namespace(|| {
        let tap = tap("wl-f", 1);
        let index = iface::index("wl-f").unwrap();
        // IFF_PROMISC does not reflect the requests of sockets; the device's count does.
        let promiscuity = || {
            let shown =
                std::process::Command::new("ip").args(["-d", "link", "show", "wl-f"]).output();
            let text = String::from_utf8(shown.unwrap().stdout).unwrap();
            let mut words = text.split_whitespace().skip_while(|word| *word != "promiscuity");
            words.nth(1).unwrap().parse::<u32>().unwrap()
        };
        let (one, two) = (PacketSocket::open().unwrap(), PacketSocket::open().unwrap());
        one.set_promiscuous(index, true).unwrap();
        two.set_promiscuous(index, true).unwrap();
        assert_eq!(promiscuity(), 2);
        one.set_promiscuous(index, false).unwrap();
        assert_eq!(promiscuity(), 1);
        drop(two);
        assert!(testing::eventually(|| promiscuity() == 0));
        one.set_promiscuous(index, false).unwrap();
        assert_eq!(promiscuity(), 0, "one's wish was withdrawn already");
        assert_eq!(one.set_promiscuous(9999, true).unwrap_err().errno(), Some(libc::ENODEV));
        drop(tap);
    });
}

#[test]
fn privileged_options_and_their_errors() {
    testing::in_new_namespace(|| {
        let tap = tap("wl-g", 1);
        let socket = PacketSocket::open().unwrap();
        assert_eq!(socket.version().unwrap(), None);
        let error = socket.set_rx_ring(&RingRequest { frame_size: 0, ..RING }).unwrap_err();
        assert_eq!(
            error.to_string(),
            "setsockopt PACKET_RX_RING(AF_PACKET): Invalid argument (EINVAL)"
        );
        socket.set_version_v3().unwrap();
        socket.set_ignore_outgoing(true).unwrap();
        socket.set_busy_poll(50).unwrap();
        socket.set_send_buffer(1 << 22).unwrap();
        let level = (libc::SOL_SOCKET, libc::SO_SNDBUF);
        let bytes: i32 = crate::socket::get(socket.as_fd(), level, "getsockopt SO_SNDBUF").unwrap();
        assert_eq!(bytes, 2 << 22);
        socket.set_rx_ring(&RING).unwrap();
        assert_eq!(socket.set_version(Version::V2).unwrap_err().errno(), Some(libc::EBUSY));
        assert_eq!(socket.set_vnet_hdr(true).unwrap_err().errno(), Some(libc::EBUSY));
        assert_eq!(
            socket.set_tx_ring(Version::V2, &TX_RING).unwrap_err().errno(),
            Some(libc::EBUSY)
        );
        socket.set_tx_ring(Version::V3, &TX_RING).unwrap();
        let both = RING.bytes().unwrap() + TX_RING.bytes().unwrap();
        assert_eq!(socket.map(both - 4096).unwrap_err().errno(), Some(libc::EINVAL));
        let mapping = socket.map(both).unwrap();
        assert_eq!(mapping.len(), both);
        drop(socket);
        assert_eq!(
            PacketSocket::open().unwrap().bind(9999, 0).unwrap_err().errno(),
            Some(libc::ENODEV)
        );
        drop((mapping, tap));
    });
}

#[test]
fn privileged_an_interface_that_is_down_or_gone_is_an_error() {
    testing::in_new_namespace(|| {
        let tap = Tap::open("wl-h", 1, tun::Options::default()).unwrap();
        let index = iface::index("wl-h").unwrap();
        let socket = PacketSocket::open().unwrap();
        let error = socket.bind(index, ETH_P_ALL_BE).unwrap_err();
        assert_eq!(error.errno(), Some(libc::ENETDOWN), "{error}");
        iface::up("wl-h").unwrap();
        socket.bind(index, ETH_P_ALL_BE).unwrap();
        assert!(socket.take_error().unwrap().is_none());
        drop(tap);
        // Packets that arrived earlier may be read first; the error follows.
        let mut error = None;
        assert!(testing::eventually(|| {
            error = socket.wait_readable(MOMENT).err();
            error.is_some()
        }));
        let error = error.unwrap();
        assert_eq!(error.errno(), Some(libc::ENETDOWN), "{error}");
    });
}

#[test]
fn privileged_vnet_hdr_precedes_the_frame() {
    testing::in_new_namespace(|| {
        let tap = tap("wl-i", 1);
        let socket = PacketSocket::open().unwrap();
        socket.set_vnet_hdr(true).unwrap();
        socket.bind(iface::index("wl-i").unwrap(), 0).unwrap();
        let mut packet = vec![0; size_of::<VirtioNetHdr>()];
        packet.extend(frame(5));
        assert_eq!(socket.send_frame(&packet).unwrap(), 70);
        assert_eq!(sent_marks(&tap), [5]);
        socket.send_with_header(&VirtioNetHdr::default(), &frame(6)).unwrap();
        assert_eq!(sent_marks(&tap), [6]);
        let wrong = VirtioNetHdr { gso_type: 99, gso_size: 1, ..VirtioNetHdr::default() };
        let error = socket.send_with_header(&wrong, &frame(7)).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EINVAL));
    });
}

#[test]
fn privileged_a_fanout_group_gives_each_packet_to_the_member_its_program_names() {
    testing::in_new_namespace(|| {
        let tap = tap("wl-f", 3);
        let mut readers: Vec<_> = (0..3).map(|_| Reader::open("wl-f", None)).collect();
        assert_eq!(
            readers[0].socket.set_fanout_program(&[accept(0)]).unwrap_err().errno(),
            Some(libc::EINVAL)
        );
        let group = readers[0].socket.new_fanout(Fanout::Program, 3, true).unwrap();
        readers[1].socket.join_fanout((group, Fanout::Program), 3, true).unwrap();
        readers[2].socket.join_fanout((group, Fanout::Program), 3, true).unwrap();
        let load = op(
            libc::BPF_LD | libc::BPF_W | libc::BPF_ABS,
            0,
            0,
            (libc::SKF_AD_OFF + libc::SKF_AD_QUEUE) as u32,
        );
        // A tap records the queue plus one, and the result is taken modulo 3.
        let program = [load, op(libc::BPF_RET | libc::BPF_A, 0, 0, 0)];
        readers[0].socket.set_fanout_program(&program).unwrap();
        (0..3).for_each(|q| assert_eq!(tap.write(q, &frame(q as u8)).unwrap(), 60));
        assert_eq!(readers[0].marks(1), [2]);
        assert_eq!(readers[1].marks(1), [0]);
        assert_eq!(readers[2].marks(1), [1]);
    });
}

#[test]
fn privileged_a_fanout_group_is_spared_what_the_host_sends() {
    testing::in_new_namespace(|| {
        let tap = tap("wl-g", 1);
        for outgoing in [true, false] {
            let mut readers: Vec<_> = (0..2).map(|_| Reader::open("wl-g", None)).collect();
            let group = readers[0].socket.new_fanout(Fanout::Program, 2, outgoing).unwrap();
            readers[1].socket.join_fanout((group, Fanout::Program), 2, outgoing).unwrap();
            readers[0].socket.set_fanout_program(&[accept(0)]).unwrap();
            let sender = PacketSocket::open().unwrap();
            sender.bind(iface::index("wl-g").unwrap(), 0).unwrap();
            assert_eq!(sender.send_frame(&frame(8)).unwrap(), 60);
            tap.write(0, &frame(9)).unwrap();
            let expected: &[u8] = if outgoing { &[8, 9] } else { &[9] };
            assert_eq!(readers[0].marks(expected.len()), expected, "{outgoing}");
            assert_eq!(readers[1].marks(0), [0; 0]);
        }
    });
}
