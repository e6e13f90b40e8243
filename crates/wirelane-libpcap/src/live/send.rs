//! Sending packets through a capture.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use wirelane::Batch;
use wirelane::internal::stats::TxCounters;
use wirelane::port::{Control, Tx};

use crate::failure::PcapFailure;

/// Where packets leave.
pub(crate) struct PacketSender {
    end: SendPath,
    counters: Arc<TxCounters>,
}

enum SendPath {
    /// The sockets of the rings, which do not capture what they send.
    Rings(Arc<dyn Control>),
    /// A transmitting end.
    Tx(Box<Tx>, Batch),
    /// The port only receives.
    Nowhere,
}

/// How long to wait for room at a time.
const PAUSE: Duration = Duration::from_millis(100);

impl PacketSender {
    /// Through the rings of a packet port.
    pub(super) fn of_rings(control: Arc<dyn Control>) -> Self {
        Self { end: SendPath::Rings(control), counters: Arc::new(TxCounters::new(0)) }
    }

    /// Through the first of these ends.
    pub(super) fn of_ends(ends: Vec<Tx>) -> Self {
        match ends.into_iter().next() {
            Some(tx) => {
                let counters = Arc::clone(tx.counters());
                Self { end: SendPath::Tx(Box::new(tx), Batch::new(1)), counters }
            }
            None => Self { end: SendPath::Nowhere, counters: Arc::new(TxCounters::new(0)) },
        }
    }

    /// The counters of sent packets; `None` if the port cannot send.
    pub(super) fn counters(&self) -> Option<&Arc<TxCounters>> {
        (!matches!(self.end, SendPath::Nowhere)).then_some(&self.counters)
    }

    /// Sends one packet and returns its length. Waits for room if `wait`.
    ///
    /// # Errors
    /// The system's error, in libpcap's form.
    pub(super) fn send(&mut self, packet: &[u8], wait: bool) -> Result<usize, PcapFailure> {
        let failed = |error: &io::Error| match error.raw_os_error() {
            Some(errno) => PcapFailure::errno("send", errno),
            None => PcapFailure::new(format!("send: {error}")),
        };
        match &mut self.end {
            SendPath::Rings(control) => match control.inject(packet, wait) {
                Some(Ok(sent)) => {
                    self.counters.count(1, sent as u64);
                    Ok(sent)
                }
                Some(Err(error)) => {
                    self.counters.count_refused(1);
                    Err(failed(&error))
                }
                None => Err(PcapFailure::new(NOWHERE)),
            },
            SendPath::Tx(tx, batch) => through(tx, batch, packet, wait),
            SendPath::Nowhere => Err(PcapFailure::new(NOWHERE)),
        }
    }
}

const NOWHERE: &str = "Sending packets isn't supported on this device";

fn through(
    tx: &mut Tx,
    batch: &mut Batch,
    packet: &[u8],
    wait: bool,
) -> Result<usize, PcapFailure> {
    let errors = tx.counters().errors.value();
    loop {
        batch.clear();
        if tx.allocate(batch, 1) == 1 {
            if !batch.iter_mut().all(|frame| frame.fill(packet)) {
                return Err(PcapFailure::errno("send", libc::EMSGSIZE));
            }
            if tx.transmit(batch) == 1 {
                break;
            }
        }
        if !wait {
            return Err(PcapFailure::errno("send", libc::EAGAIN));
        }
        tx.flush()?;
        tx.wait(PAUSE)?;
    }
    tx.flush()?;
    match tx.counters().errors.value() > errors {
        true => Err(PcapFailure::errno("send", libc::EMSGSIZE)),
        false => Ok(packet.len()),
    }
}
