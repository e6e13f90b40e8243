//! Counts behind a merge by time, for the first packets of several queues (`-c`).

use crate::error::Result;
use crate::pcap::Record;
use crate::session::capture::View;
use crate::session::interfaces::Interface;

use super::teller::Teller;

/// Counts packets on the one thread that receives all of them.
pub(super) struct InOrder {
    teller: Teller,
    /// By interface.
    link_types: Vec<u16>,
}

impl InOrder {
    pub(super) fn new(teller: Teller) -> Self {
        Self { teller, link_types: Vec::new() }
    }
}

impl View for InOrder {
    fn interface(&mut self, interface: &Interface) -> Result<()> {
        self.link_types.push(interface.source.link_type);
        Ok(())
    }

    fn packet(&mut self, record: &Record<'_>, _: &[u8]) -> Result<()> {
        if let Some(link_type) = self.link_types.get(record.interface as usize) {
            let tables = self.teller.tables();
            tables.count(*link_type, record.data, record.original_len, record.timestamp);
        }
        self.teller.answer_if_asked();
        Ok(())
    }

    fn needs_all(&self) -> bool {
        true
    }

    fn pause(&mut self) -> Result<()> {
        self.teller.answer_if_asked();
        Ok(())
    }
}

impl Drop for InOrder {
    fn drop(&mut self) {
        self.teller.finish();
    }
}
