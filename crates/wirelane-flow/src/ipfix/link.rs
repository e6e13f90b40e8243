//! The socket to a collector, made anew after each failure.

use std::io::{self, ErrorKind, Write};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, UdpSocket};
use std::thread;
use std::time::Duration;

use super::collector::Transport;

/// How long connecting and writing may take.
const TIMEOUT: Duration = Duration::from_secs(5);

/// How soon a host on the path says that nobody listens to a first datagram.
const REFUSAL: Duration = Duration::from_millis(20);

#[derive(Debug)]
pub(super) struct Link {
    transport: Transport,
    addresses: Vec<SocketAddr>,
    socket: Option<Socket>,
}

#[derive(Debug)]
enum Socket {
    Udp(UdpSocket),
    Tcp(TcpStream),
}

impl Link {
    pub(super) fn new(transport: Transport, addresses: Vec<SocketAddr>) -> Self {
        Self { transport, addresses, socket: None }
    }

    pub(super) fn transport(&self) -> Transport {
        self.transport
    }

    pub(super) fn is_open(&self) -> bool {
        self.socket.is_some()
    }

    pub(super) fn close(&mut self) {
        self.socket = None;
    }

    /// Connects to the first address that takes it.
    pub(super) fn open(&mut self) -> io::Result<()> {
        let mut failure = io::Error::from(ErrorKind::AddrNotAvailable);
        for address in &self.addresses {
            match connect(self.transport, address) {
                Ok(socket) => {
                    self.socket = Some(socket);
                    return Ok(());
                }
                Err(error) => failure = error,
            }
        }
        Err(failure)
    }

    /// Waits for the answer to a first datagram that nobody wanted.
    pub(super) fn wait_for_refusal(&self) -> io::Result<()> {
        let Some(Socket::Udp(socket)) = &self.socket else { return Ok(()) };
        thread::sleep(REFUSAL);
        socket.take_error()?.map_or(Ok(()), Err)
    }

    pub(super) fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        match &mut self.socket {
            None => Err(ErrorKind::NotConnected.into()),
            Some(Socket::Udp(socket)) => socket.send(bytes).map(|_| ()),
            Some(Socket::Tcp(stream)) => {
                check_open(stream)?;
                stream.write_all(bytes)
            }
        }
    }
}

fn connect(transport: Transport, address: &SocketAddr) -> io::Result<Socket> {
    match transport {
        Transport::Udp => {
            let any: SocketAddr = match address {
                SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
                SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
            };
            let socket = UdpSocket::bind(any)?;
            socket.connect(address)?;
            Ok(Socket::Udp(socket))
        }
        Transport::Tcp => {
            let stream = TcpStream::connect_timeout(address, TIMEOUT)?;
            stream.set_write_timeout(Some(TIMEOUT))?;
            stream.set_nodelay(true)?;
            Ok(Socket::Tcp(stream))
        }
    }
}

/// A first write to a connection that the other side has closed would succeed, and its message be
/// lost.
fn check_open(stream: &TcpStream) -> io::Result<()> {
    stream.set_nonblocking(true)?;
    let peeked = stream.peek(&mut [0]);
    stream.set_nonblocking(false)?;
    match peeked {
        Ok(0) => Err(ErrorKind::ConnectionReset.into()),
        Err(error) if error.kind() != ErrorKind::WouldBlock => Err(error),
        _ => Ok(()),
    }
}
