//! Interfaces of a capture, as rows know them.

use wirelane_pcap::{Record, Source};

use super::packets::Packets;

/// By number of the interface in a capture, its number in [`Packets`]. Each capture has its own.
#[derive(Clone, Debug, Default)]
pub struct Interfaces(Vec<u32>);

impl Interfaces {
    /// Adds a packet to `packets`; `sources` has the interfaces of the capture so far, and grows
    /// from packet to packet. False if the packet's own is not among them, and it was not added.
    pub fn push(&mut self, packets: &mut Packets, record: &Record<'_>, sources: &[Source]) -> bool {
        let number = record.interface as usize;
        if number >= self.0.len() {
            let new = sources.iter().skip(self.0.len());
            self.0.extend(new.map(|source| packets.interface(source)));
        }
        let Some(interface) = self.0.get(number) else { return false };
        packets.push(*interface, record);
        true
    }
}
