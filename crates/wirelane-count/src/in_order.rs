//! Counting behind a merge by time, for the first packets of several queues (`-c`).

use wirelane::Result;
use wirelane::pcap::Record;
use wirelane::session::capture::View;
use wirelane::session::interfaces::Interface;

use crate::teller::Teller;

/// Counts packets on the one thread that receives all of them.
pub(crate) struct InOrder {
    teller: Teller,
    /// Of the interfaces.
    link_types: Vec<u16>,
}

impl InOrder {
    pub(crate) fn new(teller: Teller) -> Self {
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
