//! Captures of many flows. Every round has a packet of each flow, in the same order, which jumps
//! between addresses. In every second round the packets are replies.

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::net::Ipv4Addr;
use std::path::Path;

use wirelane::error::{Error, Result};
use wirelane_pcap::pcap::{self, Resolution};
use wirelane_pcap::{Direction, LINK_TYPE_ETHERNET, Record, Source};
use wirelane_wire::{MacAddr, Tcp, packet};

/// Lengths of packets, repeated.
pub(super) const IMIX: [usize; 12] = [64, 594, 64, 64, 594, 64, 1518, 64, 594, 64, 594, 64];
/// The shortest packets.
pub(super) const SMALL: [usize; 1] = [64];
/// Ethernet, IPv4, and the longer header of a transport.
const HEADERS: usize = 14 + 20 + 20;
/// 2026-11-23, in ns since 1970.
const BEGIN: u64 = 1_795_392_000_000_000_000;
/// From a packet to the next, in ns.
const GAP: u64 = 1000;

/// The content of a capture.
#[derive(Clone, Copy, Debug)]
pub(super) struct CaptureTraffic {
    pub(super) packets: u64,
    pub(super) flows: u64,
    pub(super) sizes: &'static [usize],
    /// Every second flow is TCP, with consecutive sequence numbers.
    pub(super) has_tcp: bool,
}

impl CaptureTraffic {
    /// Writes it as pcap.
    ///
    /// # Errors
    /// The file cannot be written, or there is no room.
    pub(super) fn write(&self, path: &Path) -> Result<()> {
        let failed = |error| Error::io(path.display().to_string(), "write", error);
        let mut file = BufWriter::with_capacity(1 << 20, File::create(path).map_err(failed)?);
        let mut bytes = Vec::new();
        let source = Source { link_type: LINK_TYPE_ETHERNET, ..Source::default() };
        pcap::file_header(&mut bytes, Resolution::Microseconds, &source);
        let mut sequences = vec![[1_u32; 2]; if self.has_tcp { self.flows as usize } else { 0 }];
        let (mut frame, payload) = ([0; 2048], [0; 2048]);
        for number in 0..self.packets {
            let (flow, is_back) = self.flow(number);
            let size = self.sizes.get(number as usize % self.sizes.len()).copied().unwrap_or(64);
            let payload = payload.get(..size.saturating_sub(HEADERS)).unwrap_or_default();
            let sequence =
                sequences.get_mut(flow as usize).map(|both| &mut both[usize::from(is_back)]);
            let len = emit(flow, is_back, payload, sequence, &mut frame)?;
            let data = frame.get(..len).unwrap_or_default();
            let record = Record {
                interface: 0,
                timestamp: BEGIN + number * GAP,
                original_len: len as u32,
                direction: Direction::Unknown,
                data,
            };
            pcap::packet(&mut bytes, Resolution::Microseconds, &record);
            file.write_all(&bytes).map_err(failed)?;
            bytes.clear();
        }
        file.flush().map_err(failed)
    }

    /// The flow of a packet, and whether the packet is a reply.
    fn flow(&self, number: u64) -> (u64, bool) {
        /// A prime, so that a round includes every flow.
        const STEP: u64 = 2_654_435_761;
        ((number % self.flows) * STEP % self.flows, number / self.flows % 2 == 1)
    }
}

/// Writes a packet into `frame` and returns its length. A TCP packet advances its sequence number.
fn emit(
    flow: u64,
    is_back: bool,
    payload: &[u8],
    sequence: Option<&mut u32>,
    frame: &mut [u8],
) -> Result<usize> {
    let client = Ipv4Addr::from(0x0a00_0000 | flow as u32);
    let server = Ipv4Addr::from(0xc0a8_0000 | (flow % 5003) as u32);
    let port = 1024 + (flow % 60_000) as u16;
    let (mut ends, mut ports) = ([client, server], [port, 443]);
    if is_back {
        ends.reverse();
        ports.reverse();
    }
    let ethernet = packet::ethernet(MacAddr([2, 0, 0, 0, 0, 1]), MacAddr([2, 0, 0, 0, 0, 2]));
    let ip = ethernet.ipv4(ends[0], ends[1]);
    let packet = match sequence.filter(|_| flow % 2 == 1) {
        Some(next) => {
            let sequence = *next;
            *next = next.wrapping_add(payload.len() as u32);
            ip.tcp(Tcp { sequence, ..Tcp::between(ports[0], ports[1]) }, payload)
        }
        None => ip.udp(ports[0], ports[1], payload),
    };
    packet.emit(frame).map_err(|error| Error::failed("a packet", error.to_string()))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use wirelane_pcap::CaptureReader;

    #[test]
    fn a_round_has_every_flow_and_the_next_one_goes_back() {
        let traffic = CaptureTraffic { packets: 60, flows: 20, sizes: &IMIX, has_tcp: true };
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("capture");
        traffic.write(&path).unwrap();
        let mut reader = CaptureReader::open(&path).unwrap();
        let mut rounds = [BTreeSet::new(), BTreeSet::new(), BTreeSet::new()];
        let (mut number, mut tcp) = (0, 0);
        while let Some(record) = reader.next_record().unwrap() {
            assert_eq!(record.timestamp, BEGIN + number * GAP);
            let key = wirelane_wire::FlowKey::parse(record.data).unwrap().unwrap();
            tcp += u32::from(key.protocol == wirelane_wire::Protocol::TCP);
            let is_back = number / 20 == 1;
            rounds[number as usize / 20]
                .insert(if is_back { key.reversed() } else { key }.to_string());
            number += 1;
        }
        assert_eq!((number, tcp, rounds[0].len()), (60, 30, 20));
        assert!(rounds[0] == rounds[1] && rounds[1] == rounds[2], "{rounds:?}");
    }
}
