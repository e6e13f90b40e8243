//! The packets of a cable: their lengths, and their sender.
//!
//! Up to the usual MTU, the kernel's live sender sends them ([`wirelane_send::kernel`]). Its frames
//! fit into a page: a longer one is a UDP datagram of a socket. The MTU of the interfaces is large
//! enough for it, as for a frame before segmentation.

use std::net::{Ipv4Addr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use wirelane::error::{Error, Result};
use wirelane_lab::Site;
use wirelane_os::{affinity, link};
use wirelane_send::kernel::LiveSender;

use crate::suites::senders;

/// Flows of the packets, so that an index has work; datagrams of the socket have fewer.
pub(super) const FLOWS: u64 = 10_000;
const PORTS: u64 = 64;
/// A sender that is later than this does not catch up.
const LATE: Duration = Duration::from_millis(10);
/// An address that no host has: only recorders receive packets to it.
const NOBODY: Ipv4Addr = Ipv4Addr::new(10, 87, 0, 99);
const NOBODY_MAC: [u8; 6] = [0x02, 0x57, 0x4c, 0, 0, 99];
/// The longest datagram, and the headers before it: Ethernet, IPv4, UDP.
const DATAGRAM: usize = 65_507;
const HEADERS: usize = 14 + 20 + 8;

/// Lengths of packets, without frame check sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PacketLengths {
    Small,
    /// 7:4:1 of 64, 594 and 1518 bytes.
    Imix,
    Full,
    /// The longest frame before segmentation.
    Super,
}

impl PacketLengths {
    pub(super) const ALL: [Self; 4] = [Self::Small, Self::Imix, Self::Full, Self::Super];

    /// The name in rows.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Small => "64",
            Self::Imix => "imix",
            Self::Full => "1500",
            Self::Super => "65549",
        }
    }

    /// The lengths in a turn, with the number of packets of each.
    const fn turn(self) -> &'static [(usize, u32)] {
        match self {
            Self::Small => &[(64, 1)],
            Self::Imix => &[(64, 7), (594, 4), (1518, 1)],
            Self::Full => &[(1500, 1)],
            Self::Super => &[(DATAGRAM + HEADERS, 1)],
        }
    }

    /// Bytes of the longest packet.
    pub(super) fn longest(self) -> usize {
        self.turn().iter().map(|(size, _)| *size).max().unwrap_or(0)
    }

    /// Bytes of a packet, on average.
    pub(super) fn mean(self) -> f64 {
        let (bytes, packets) =
            self.turn().iter().fold((0, 0), |(bytes, packets), (size, count)| {
                (bytes + size * *count as usize, packets + count)
            });
        bytes as f64 / f64::from(packets)
    }
}

/// The result of sending.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LoadResult {
    pub(super) frames: u64,
    pub(super) elapsed: Duration,
}

/// A sender at one end of the cable.
pub(super) struct RecordLoad<'a> {
    pub(super) near: &'a Site,
    /// Whether the interface belongs to a lab, so that the stack may send to it.
    pub(super) is_lab: bool,
    /// The CPU of the sender.
    pub(super) cpu: Option<u32>,
    /// The most bytes of a trial.
    pub(super) most_bytes: u64,
}

impl RecordLoad<'_> {
    /// Sends packets of this shape for `window`: `rate` per second, or as many as possible with
    /// `None`.
    pub(super) fn send(
        &self,
        shape: PacketLengths,
        rate: Option<f64>,
        window: Duration,
        stop: &AtomicBool,
    ) -> Result<LoadResult> {
        let most = (self.most_bytes as f64 / shape.mean()) as u64;
        let count = rate.map_or(u64::MAX, |rate| (rate * window.as_secs_f64()).ceil() as u64);
        self.at_the_end(|| {
            let mut source = TrafficSender::new(self.near, shape)?;
            let mut pace = FramePacer::new(rate, source.least());
            let begin = Instant::now();
            let mut sent = LoadResult::default();
            // The limit for a sender that does not keep up.
            while sent.frames < count.min(most)
                && sent.elapsed < window + window / 4
                && !stop.load(Ordering::Relaxed)
            {
                match pace.due(begin.elapsed()) {
                    Ok(frames) => {
                        let frames = source.send(frames)?;
                        pace.sent(frames);
                        sent.frames += frames;
                        sent.elapsed = begin.elapsed();
                    }
                    Err(wait) => thread::sleep(wait),
                }
                if rate.is_none() && sent.elapsed >= window {
                    break;
                }
            }
            Ok(sent)
        })
    }

    /// Sends a packet: some programs check their signals only when a packet arrives.
    pub(super) fn push(&self) -> Result<()> {
        let shape = if self.is_lab { PacketLengths::Super } else { PacketLengths::Small };
        self.at_the_end(|| match TrafficSender::new(self.near, shape)? {
            TrafficSender::Socket(socket, _) => {
                let sent = socket.send_to(&[0; 64], (NOBODY, 9));
                sent.map(drop).map_err(|error| Error::io("push", "sendto", error))
            }
            mut kernel @ TrafficSender::Kernel(_) => kernel.send(1).map(drop),
        })
    }

    /// Runs `work` on a separate thread, in the namespace of the near end and on the CPU.
    fn at_the_end<T: Send>(&self, work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
        let inside = || {
            if let Some(cpu) = self.cpu {
                affinity::pin(cpu).map_err(|error| Error::os("load", error))?;
            }
            self.near.inside(work)?
        };
        let panicked = || Error::failed("load", "its thread panicked");
        thread::scope(|scope| scope.spawn(inside).join().ok()).ok_or_else(panicked)?
    }
}

/// The sending object.
enum TrafficSender {
    /// Senders that take turns, each with its number of packets.
    Kernel(Vec<(LiveSender, u32)>),
    Socket(UdpSocket, u64),
}

impl TrafficSender {
    fn new(near: &Site, shape: PacketLengths) -> Result<Self> {
        if shape == PacketLengths::Super {
            let failed = |call| move |error| Error::io("load", call, error);
            // The entry may exist already.
            let _ = link::add_neighbour(near.interface(), NOBODY, NOBODY_MAC);
            let socket = UdpSocket::bind((near.address, 0)).map_err(failed("bind"))?;
            return Ok(Self::Socket(socket, 0));
        }
        let sender = |(size, count): &(usize, u32)| {
            let frames = senders::frames(FLOWS, size)?;
            Ok((LiveSender::new(near.interface(), &frames)?, *count))
        };
        shape.turn().iter().map(sender).collect::<Result<Vec<_>>>().map(Self::Kernel)
    }

    /// The least number of frames that is worth a call.
    fn least(&self) -> u64 {
        match self {
            Self::Kernel(senders) if senders.len() == 1 => 64,
            // 32 turns.
            Self::Kernel(senders) => {
                32 * u64::from(senders.iter().map(|(_, count)| count).sum::<u32>())
            }
            Self::Socket(..) => 1,
        }
    }

    /// Sends about `frames` frames and returns the exact number.
    fn send(&mut self, frames: u64) -> Result<u64> {
        match self {
            Self::Kernel(senders) => {
                let turn: u32 = senders.iter().map(|(_, count)| count).sum();
                let turns = (frames / u64::from(turn)).max(1) as u32;
                let mut sent = 0;
                for (sender, count) in senders {
                    let before = sender.sent();
                    sender.send(*count * turns)?;
                    sent += sender.sent() - before;
                }
                Ok(sent)
            }
            Self::Socket(socket, number) => {
                for _ in 0..frames {
                    let port = 10_000 + (*number % PORTS) as u16;
                    let sent = socket.send_to(&PAYLOAD, (NOBODY, port));
                    sent.map_err(|error| Error::io("load", "sendto", error))?;
                    *number += 1;
                }
                Ok(frames)
            }
        }
    }
}

static PAYLOAD: [u8; DATAGRAM] = [0xA5; DATAGRAM];

/// Computes when frames are due.
struct FramePacer {
    rate: Option<f64>,
    least: u64,
    granted: f64,
}

impl FramePacer {
    fn new(rate: Option<f64>, least: u64) -> Self {
        Self { rate, least, granted: 0.0 }
    }

    /// How many frames are due at this time, or how long to wait until enough are.
    fn due(&mut self, elapsed: Duration) -> std::result::Result<u64, Duration> {
        let Some(rate) = self.rate else { return Ok(self.least * 4) };
        let target = rate * elapsed.as_secs_f64();
        // At least the frames of a millisecond, so that the overhead of sleeping is small.
        let least = (self.least as f64).max(rate / 1000.0);
        // A longer delay is not made up for.
        let late = least.max(rate * LATE.as_secs_f64());
        self.granted = self.granted.max(target - late);
        let due = target - self.granted;
        if due < least {
            return Err(Duration::from_secs_f64((least - due) / rate).min(LATE));
        }
        Ok(due as u64)
    }

    /// Records that `frames` were sent.
    fn sent(&mut self, frames: u64) {
        self.granted += frames as f64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_are_as_long_as_they_say() {
        assert_eq!(PacketLengths::Imix.mean().round(), 362.0);
        let name = |shape: PacketLengths| shape.name().parse::<f64>().unwrap();
        for shape in [PacketLengths::Small, PacketLengths::Full, PacketLengths::Super] {
            assert_eq!(shape.mean(), name(shape));
        }
    }

    #[test]
    fn a_pace_is_kept_and_what_is_late_is_forgotten() {
        let mut pace = FramePacer::new(Some(1e6), 64);
        let mut due = |ms| {
            let due = pace.due(Duration::from_millis(ms));
            pace.sent(due.unwrap_or(0));
            due
        };
        assert_eq!(due(2), Ok(2000));
        assert_eq!(due(2), Err(Duration::from_millis(1)));
        assert_eq!(due(3), Ok(1000));
        assert_eq!(due(1003), Ok(10_000));
        assert_eq!(due(1004), Ok(1000));
        assert_eq!(FramePacer::new(None, 64).due(Duration::ZERO), Ok(256));
    }
}
