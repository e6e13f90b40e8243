//! The socket to a collector. The sender opens a new one after each failure.

use std::io::{self, ErrorKind, Write};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, UdpSocket};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use super::collector::Transport;
use super::shared::ExportQueue;

/// The time limit of a connection attempt, and of a write without progress.
const TIMEOUT: Duration = Duration::from_secs(5);

/// The interval at which a blocked write checks the deadline.
const SLICE: Duration = Duration::from_millis(50);

/// How long to wait for an ICMP error after the first datagram.
const REFUSAL: Duration = Duration::from_millis(20);

#[derive(Debug)]
pub(super) struct CollectorLink {
    transport: Transport,
    addresses: Vec<SocketAddr>,
    socket: Option<LinkSocket>,
    shared: Arc<ExportQueue>,
}

#[derive(Debug)]
enum LinkSocket {
    Udp(UdpSocket),
    Tcp(TcpStream),
}

impl CollectorLink {
    pub(super) fn new(
        transport: Transport,
        addresses: Vec<SocketAddr>,
        shared: Arc<ExportQueue>,
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

    /// Connects to the first address that accepts.
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

    /// Waits for an ICMP error after the first datagram, and returns it.
    pub(super) fn wait_for_refusal(&self) -> io::Result<()> {
        let Some(LinkSocket::Udp(socket)) = &self.socket else { return Ok(()) };
        thread::sleep(REFUSAL);
        socket.take_error()?.map_or(Ok(()), Err)
    }

    pub(super) fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        match &mut self.socket {
            None => Err(ErrorKind::NotConnected.into()),
            Some(LinkSocket::Udp(socket)) => socket.send(bytes).map(|_| ()),
            Some(LinkSocket::Tcp(stream)) => {
                check_open(stream)?;
                write_all(stream, bytes, &self.shared)
            }
        }
    }
}

/// The time until `deadline`, at most `longest`.
fn within(longest: Duration, deadline: Option<Instant>) -> Duration {
    deadline.map_or(longest, |end| longest.min(end.saturating_duration_since(Instant::now())))
}

/// Writes all bytes. Fails if the collector reads none for [`TIMEOUT`], or at the deadline.
fn write_all(stream: &mut TcpStream, mut bytes: &[u8], shared: &ExportQueue) -> io::Result<()> {
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
                // The write timeout of the socket: one slice has passed.
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

fn connect(
    transport: Transport,
    address: &SocketAddr,
    longest: Duration,
) -> io::Result<LinkSocket> {
    match transport {
        Transport::Udp => {
            let any: SocketAddr = match address {
                SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
                SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
            };
            let socket = UdpSocket::bind(any)?;
            socket.connect(address)?;
            Ok(LinkSocket::Udp(socket))
        }
        Transport::Tcp => {
            if longest.is_zero() {
                return Err(ErrorKind::TimedOut.into());
            }
            let stream = TcpStream::connect_timeout(address, longest)?;
            stream.set_write_timeout(Some(SLICE))?;
            stream.set_nodelay(true)?;
            Ok(LinkSocket::Tcp(stream))
        }
    }
}

/// Fails if the other side has closed the connection: a first write would succeed, and the message
/// would be lost.
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
