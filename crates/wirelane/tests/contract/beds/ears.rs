//! Receives the packets of an interface by queue, with plain packet sockets that share no code with
//! ports.

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

/// The receive buffer of a socket in bytes. The kernel counts the true size of each packet, with
/// its overhead.
const BUFFER: usize = 8 << 20;
const LONGEST: usize = 1 << 16;

impl Ears {
    /// Listens to the packets of `interface`, with one socket per queue. In `skb->queue_mapping`,
    /// queue 0 has the value `first`, and the others follow.
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

    /// Returns all packets that have arrived.
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
                    // The kernel reports this once after the link was taken down.
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
        // Closing a packet socket waits until no CPU uses it (packet_release). In parallel, the
        // waits overlap.
        thread::scope(|scope| {
            for socket in self.sockets.drain(..) {
                scope.spawn(move || drop(socket));
            }
        });
    }
}

/// A filter that accepts the packets of one queue in full length.
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
