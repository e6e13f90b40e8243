//! What comes to an interface, by queue: plain packet sockets, which share nothing with any port.

use std::thread;

use rustix::io::Errno;
use rustix::net::{RecvFlags, recv, sockopt};
use wirelane_os::iface;
use wirelane_os::packet::{ETH_P_ALL_BE, PacketSocket, SockFilter};

use crate::bed::Observed;

/// A socket for each queue of an interface.
pub(crate) struct Ears {
    sockets: Vec<PacketSocket>,
    buffer: Vec<u8>,
}

/// Bytes that a socket keeps for us, counted as the kernel does: with all that surrounds a packet.
const BUFFER: usize = 8 << 20;
const LONGEST: usize = 1 << 16;

impl Ears {
    /// Listens to the packets that come to `interface` with as many numbers as there are `queues`
    /// in `skb->queue_mapping`, from `first` on: which is that of queue 0.
    pub(crate) fn new(interface: &str, queues: u16, first: u16) -> Self {
        let index = iface::index(interface).unwrap();
        let socket = |queue: u16| {
            let socket = PacketSocket::open().unwrap();
            sockopt::set_socket_recv_buffer_size_force(&socket, BUFFER).unwrap();
            socket.set_ignore_outgoing(true).unwrap();
            socket.attach_filter(&of_queue(first + queue)).unwrap();
            socket.bind(index, ETH_P_ALL_BE).unwrap();
            socket
        };
        Self { sockets: (0..queues).map(socket).collect(), buffer: vec![0; LONGEST] }
    }

    /// Everything that has come.
    pub(crate) fn hear(&mut self) -> Vec<Observed> {
        let mut observed = Vec::new();
        for (socket, queue) in self.sockets.iter().zip(0..) {
            loop {
                match recv(socket, &mut self.buffer[..], RecvFlags::DONTWAIT) {
                    Ok((length, _)) => {
                        let bytes = self.buffer[..length].to_vec();
                        observed.push(Observed { queue: Some(queue), path: 0, bytes });
                    }
                    Err(Errno::AGAIN) => break,
                    // Said once after the link was taken down.
                    Err(Errno::NETDOWN) => {}
                    Err(errno) => panic!("cannot listen: {errno}"),
                }
            }
        }
        observed
    }
}

impl Drop for Ears {
    fn drop(&mut self) {
        // Closing a packet socket waits until no processor is at it (packet_release); side by side
        // they wait together.
        thread::scope(|scope| {
            for socket in self.sockets.drain(..) {
                scope.spawn(move || drop(socket));
            }
        });
    }
}

/// Takes the packets of one queue, whole.
fn of_queue(queue: u16) -> [SockFilter; 4] {
    // linux/filter.h: SKF_AD_OFF + SKF_AD_QUEUE.
    const QUEUE: u32 = (-0x1000_i32 + 24) as u32;
    let insn = |code: u16, jt, jf, k| SockFilter { code, jt, jf, k };
    [
        // BPF_LD | BPF_W | BPF_ABS, BPF_JMP | BPF_JEQ | BPF_K, BPF_RET | BPF_K twice.
        insn(0x20, 0, 0, QUEUE),
        insn(0x15, 0, 1, u32::from(queue)),
        insn(0x06, 0, 0, u32::MAX),
        insn(0x06, 0, 0, 0),
    ]
}
