//! The socket to a collector, made anew after each failure.

use std::io::{self, ErrorKind, Write};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, UdpSocket};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use super::collector::Transport;
use super::shared::Shared;

/// How long connecting may take, and writing until the collector reads something.
const TIMEOUT: Duration = Duration::from_secs(5);

/// So often a write that waits looks whether the end has come.
const SLICE: Duration = Duration::from_millis(50);

/// How soon a host on the path says that nobody listens to a first datagram.
const REFUSAL: Duration = Duration::from_millis(20);

#[derive(Debug)]
pub(super) struct Link {
    transport: Transport,
    addresses: Vec<SocketAddr>,
    socket: Option<Socket>,
    shared: Arc<Shared>,
}

#[derive(Debug)]
enum Socket {
    Udp(UdpSocket),
    Tcp(TcpStream),
}

impl Link {
    pub(super) fn new(
        transport: Transport,
        addresses: Vec<SocketAddr>,
        shared: Arc<Shared>,
    ) -> Self {
        Self { transport, addresses, socket: None, shared }
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
            let longest = within(TIMEOUT, self.shared.deadline());
            match connect(self.transport, address, longest) {
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
                write_all(stream, bytes, &self.shared)
            }
        }
    }
}

/// The time until `deadline`, but no more than `longest`.
fn within(longest: Duration, deadline: Option<Instant>) -> Duration {
    deadline.map_or(longest, |end| longest.min(end.saturating_duration_since(Instant::now())))
}

/// Writes all of it, unless the collector reads nothing for [`TIMEOUT`], or the time is over.
fn write_all(stream: &mut TcpStream, mut bytes: &[u8], shared: &Shared) -> io::Result<()> {
    let mut since = Instant::now();
    while !bytes.is_empty() {
        match stream.write(bytes) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(written) => {
                bytes = bytes.get(written..).unwrap_or_default();
                since = Instant::now();
            }
            Err(error) => match error.kind() {
                ErrorKind::Interrupted => {}
                // The timeout of a socket: a slice is over.
                ErrorKind::WouldBlock | ErrorKind::TimedOut => {
                    let left = TIMEOUT.saturating_sub(since.elapsed());
                    if within(left, shared.deadline()).is_zero() {
                        return Err(io::Error::new(ErrorKind::TimedOut, "it reads nothing"));
                    }
                }
                _ => return Err(error),
            },
        }
    }
    Ok(())
}

fn connect(transport: Transport, address: &SocketAddr, longest: Duration) -> io::Result<Socket> {
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
            if longest.is_zero() {
                return Err(ErrorKind::TimedOut.into());
            }
            let stream = TcpStream::connect_timeout(address, longest)?;
            stream.set_write_timeout(Some(SLICE))?;
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
