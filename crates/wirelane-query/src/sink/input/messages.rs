//! Flows, as IPFIX messages on standard input.

use std::io::{self, BufReader};
use std::sync::mpsc::SyncSender;

use wirelane::{Error, Result};
use wirelane_flow::Flow;
use wirelane_flow::ipfix::{Decoder, element, read_message};

/// Reads messages until the end, or until the receiver is gone.
pub(crate) fn read(to: &SyncSender<Vec<Flow>>) -> Result<()> {
    decode(to).map_err(|error| Error::io("flows", "read", error))
}

fn decode(to: &SyncSender<Vec<Flow>>) -> io::Result<()> {
    let mut input = BufReader::with_capacity(1 << 16, io::stdin().lock());
    let (mut decoder, mut message) = (Decoder::new(Some(element::EXAMPLE)), Vec::new());
    while read_message(&mut input, &mut message)? {
        let mut flows = Vec::new();
        let outcome = decoder.decode(&message, &mut flows);
        if !flows.is_empty() && to.send(flows).is_err() {
            return Ok(());
        }
        let invalid =
            |error: Error| io::Error::new(io::ErrorKind::InvalidData, error.cause().to_owned());
        outcome.map_err(invalid)?;
    }
    Ok(())
}
