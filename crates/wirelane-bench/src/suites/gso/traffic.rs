//! A sender and a receiver with plain sockets, which run until stopped. The receiver counts the
//! bytes.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::net::sockopt;

use super::case::TransferProtocol;
use crate::suites::gso::account::{RECEIVER, SENDER};
use wirelane::error::{Error, Result};
use wirelane::internal::threads;
use wirelane_lab::Site;

/// Bytes per call of a TCP sender, and room of a receiver.
const CHUNK: usize = 128 << 10;
/// Payload of a datagram: the 2014 FreeBSD GSO paper's "9K".
pub(super) const DATAGRAM: usize = 9000;
/// The most datagrams in flight, of all flows. UDP has no flow control: a sender that is faster
/// than the path would measure the rate of drops. 32 datagrams of seven fragments each fit into
/// every queue of the path: the queue of the veth pair has room for 256 packets.
const WINDOW: u64 = 32;
/// How long a call waits before it checks whether to stop.
const SLICE: Duration = Duration::from_millis(50);
/// A datagram that has not arrived after this time is lost.
const LOST: Duration = Duration::from_millis(100);
/// The time limit of a connection's set-up.
const PATIENCE: Duration = Duration::from_secs(5);
/// Room for datagrams that the receiver has not read yet.
const RECEIVE_BUFFER: usize = 8 << 20;

/// A running transfer. Dropping it ends it.
pub(super) struct Transfer {
    shared: Arc<TransferProgress>,
    threads: Vec<JoinHandle<Result<()>>>,
}

#[derive(Default)]
struct TransferProgress {
    stop: AtomicBool,
    /// Bytes of payload received.
    received: AtomicU64,
    /// Datagrams sent, received, and given up.
    window: Mutex<DatagramWindow>,
    room: Condvar,
}

#[derive(Clone, Copy, Debug, Default)]
struct DatagramWindow {
    sent: u64,
    received: u64,
    lost: u64,
}

impl DatagramWindow {
    /// A datagram that was given up may still arrive.
    fn on_their_way(&self) -> u64 {
        self.sent.saturating_sub(self.lost + self.received)
    }
}

/// Both ends of a transfer.
pub(super) struct TransferEnds<'a> {
    pub(super) from: &'a Site,
    pub(super) to: &'a Site,
    /// The address of the receiver, with port 0.
    pub(super) address: SocketAddr,
}

impl Transfer {
    /// Starts two threads per flow, as children of the calling one.
    ///
    /// # Errors
    /// The address cannot be used, or no receiver answers.
    pub(super) fn start(
        protocol: TransferProtocol,
        ends: &TransferEnds<'_>,
        flows: u16,
    ) -> Result<Self> {
        let mut transfer = Self { shared: Arc::default(), threads: Vec::new() };
        for _ in 0..flows {
            // If one of the threads cannot be started, dropping the transfer ends the others.
            transfer.threads.extend(match protocol {
                TransferProtocol::Tcp => tcp(&transfer.shared, ends),
                TransferProtocol::Udp => udp(&transfer.shared, ends),
            }?);
        }
        Ok(transfer)
    }

    /// Bytes received so far.
    pub(super) fn received(&self) -> u64 {
        self.shared.received.load(Ordering::Relaxed)
    }

    /// Datagrams lost so far; 0 for TCP, which retransmits.
    pub(super) fn lost(&self) -> u64 {
        self.shared.window.lock().unwrap_or_else(PoisonError::into_inner).lost
    }

    /// Whether a thread has ended, which happens only after an error.
    pub(super) fn has_ended(&self) -> bool {
        self.threads.iter().any(JoinHandle::is_finished)
    }

    /// Ends the transfer.
    ///
    /// # Errors
    /// The error of a thread that has ended before.
    pub(super) fn finish(mut self) -> Result<()> {
        self.end()
    }

    fn end(&mut self) -> Result<()> {
        self.shared.stop.store(true, Ordering::Release);
        self.shared.room.notify_all();
        let mut outcome = Ok(());
        for thread in self.threads.drain(..) {
            let ended = thread.join().unwrap_or_else(|_| {
                Err(Error::failed("a thread of a transfer", "panicked: a defect"))
            });
            outcome = outcome.and(ended);
        }
        outcome
    }
}

impl Drop for Transfer {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

impl TransferProgress {
    fn is_over(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    fn window(&self) -> std::sync::MutexGuard<'_, DatagramWindow> {
        self.window.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn tcp(
    shared: &Arc<TransferProgress>,
    ends: &TransferEnds<'_>,
) -> Result<Vec<JoinHandle<Result<()>>>> {
    let failed = |call| move |error| Error::io("TCP transfer", call, error);
    let listener = ends.to.inside(|| TcpListener::bind(ends.address))?.map_err(failed("bind"))?;
    let address = listener.local_addr().map_err(failed("getsockname"))?;
    // The connection is established before it is accepted.
    let connect = || TcpStream::connect_timeout(&address, PATIENCE);
    let mut sender = ends.from.inside(connect)?.map_err(failed("connect"))?;
    let (mut receiver, _) = listener.accept().map_err(failed("accept"))?;
    sender.set_write_timeout(Some(SLICE)).map_err(failed("setsockopt"))?;
    receiver.set_read_timeout(Some(SLICE)).map_err(failed("setsockopt"))?;
    let (at_sender, at_receiver) = (Arc::clone(shared), Arc::clone(shared));
    let receive = move || {
        let mut buffer = vec![0; CHUNK];
        while !at_receiver.is_over() {
            match receiver.read(&mut buffer) {
                Ok(0) => break,
                Ok(length) => {
                    at_receiver.received.fetch_add(length as u64, Ordering::Relaxed);
                }
                Err(error) if is_pause(&error) => {}
                Err(error) => return Err(Error::io("TCP transfer", "read", error)),
            }
        }
        Ok(())
    };
    let send = move || {
        let content = content(CHUNK);
        while !at_sender.is_over() {
            match sender.write(&content) {
                Ok(_) => {}
                Err(error) if is_pause(&error) => {}
                // At the end, the receiver may close before the sender.
                Err(_) if at_sender.is_over() => break,
                Err(error) => return Err(Error::io("TCP transfer", "write", error)),
            }
        }
        Ok(())
    };
    Ok(vec![threads::spawn(RECEIVER, receive)?, threads::spawn(SENDER, send)?])
}

fn udp(
    shared: &Arc<TransferProgress>,
    ends: &TransferEnds<'_>,
) -> Result<Vec<JoinHandle<Result<()>>>> {
    let failed = |call| move |error| Error::io("UDP transfer", call, error);
    let receiver = ends.to.inside(|| UdpSocket::bind(ends.address))?.map_err(failed("bind"))?;
    let address = receiver.local_addr().map_err(failed("getsockname"))?;
    sockopt::set_socket_recv_buffer_size_force(&receiver, RECEIVE_BUFFER)
        .map_err(|errno| failed("setsockopt")(errno.into()))?;
    receiver.set_read_timeout(Some(SLICE)).map_err(failed("setsockopt"))?;
    let any = SocketAddr::new(unspecified(address), 0);
    let sender = ends.from.inside(|| UdpSocket::bind(any))?.map_err(failed("bind"))?;
    sender.connect(address).map_err(failed("connect"))?;
    let (at_sender, at_receiver) = (Arc::clone(shared), Arc::clone(shared));
    let receive = move || {
        let mut buffer = vec![0; DATAGRAM + 1];
        while !at_receiver.is_over() {
            match receiver.recv(&mut buffer) {
                Ok(length) => {
                    at_receiver.received.fetch_add(length as u64, Ordering::Relaxed);
                    let mut window = at_receiver.window();
                    window.received += 1;
                    // At half a window, so that not every datagram wakes the senders.
                    if window.on_their_way() <= WINDOW / 2 {
                        at_receiver.room.notify_all();
                    }
                }
                Err(error) if is_pause(&error) => {}
                Err(error) => return Err(Error::io("UDP transfer", "recv", error)),
            }
        }
        Ok(())
    };
    let send = move || {
        let content = content(DATAGRAM);
        while !at_sender.is_over() {
            wait_for_room(&at_sender);
            match sender.send(&content) {
                Ok(_) => at_sender.window().sent += 1,
                // Datagrams in flight fill the socket's buffer or the device's queue.
                Err(error) if is_pause(&error) || is_full(&error) => std::thread::yield_now(),
                // The receiver may have closed first: the far kernel reports the closed port.
                Err(_) if at_sender.is_over() => break,
                Err(error) => return Err(Error::io("UDP transfer", "send", error)),
            }
        }
        Ok(())
    };
    Ok(vec![threads::spawn(RECEIVER, receive)?, threads::spawn(SENDER, send)?])
}

/// Sleeps until fewer than [`WINDOW`] datagrams are in flight. After a time without progress, the
/// datagrams in flight count as lost.
fn wait_for_room(shared: &TransferProgress) {
    let window = shared.window();
    if window.on_their_way() < WINDOW {
        return;
    }
    let is_full =
        |window: &mut DatagramWindow| !shared.is_over() && window.on_their_way() > WINDOW / 2;
    let waited = shared.room.wait_timeout_while(window, LOST, is_full);
    let (mut window, result) = waited.unwrap_or_else(PoisonError::into_inner);
    if result.timed_out() {
        window.lost += window.on_their_way();
    }
}

/// Bytes without a pattern that memory or a device could compress.
fn content(length: usize) -> Vec<u8> {
    (0..length as u64).map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()[0]).collect()
}

fn unspecified(address: SocketAddr) -> std::net::IpAddr {
    match address {
        SocketAddr::V4(_) => std::net::Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => std::net::Ipv6Addr::UNSPECIFIED.into(),
    }
}

fn is_pause(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}

fn is_full(error: &std::io::Error) -> bool {
    error.raw_os_error() == Some(rustix::io::Errno::NOBUFS.raw_os_error())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::net::SocketAddr;
    use std::time::Instant;
    use wirelane_lab::{Lab, LabConfig};
    use wirelane_testkit::privileged;

    #[test]
    fn privileged_as_many_flows_as_asked_for_carry_bytes() {
        if !privileged::require() {
            return;
        }
        let lab = Lab::new(LabConfig::default()).unwrap();
        let ends = TransferEnds {
            from: &lab.near,
            to: &lab.far,
            address: SocketAddr::new(lab.far.address.into(), 0),
        };
        // An established TCP connection has state 1, a UDP socket state 7.
        for (protocol, table, state) in
            [(TransferProtocol::Tcp, "tcp", " 01 "), (TransferProtocol::Udp, "udp", " 07 ")]
        {
            let transfer = Transfer::start(protocol, &ends, 3).unwrap();
            let path = format!("/proc/thread-self/net/{table}");
            let sockets = lab.far.inside(|| fs::read_to_string(path)).unwrap().unwrap();
            assert_eq!(sockets.lines().filter(|line| line.contains(state)).count(), 3, "{sockets}");
            let deadline = Instant::now() + Duration::from_secs(30);
            while transfer.received() < 10 << 20 {
                assert!(!transfer.has_ended() && Instant::now() < deadline);
                std::thread::sleep(Duration::from_millis(5));
            }
            transfer.finish().unwrap();
        }
    }
}
