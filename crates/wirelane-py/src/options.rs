//! The arguments of `wirelane.open`.

use wirelane::filter::Filter;
use wirelane::halt::Halt;
use wirelane::internal::port::ProgramOptions;
use wirelane::port::{OpenOptions, Take};
use wirelane::{Error, QueueMask, Result};

use crate::values::Queues;

/// The arguments of `wirelane.open` except the spec.
pub(crate) struct Arguments {
    pub(crate) filter: Option<String>,
    pub(crate) rx_queues: Option<Queues>,
    pub(crate) tx_queues: Option<Queues>,
    pub(crate) other: bool,
    pub(crate) snaplen: Option<u32>,
    pub(crate) promiscuous: bool,
    pub(crate) ring: Option<usize>,
    pub(crate) count: Option<u64>,
    pub(crate) receive: bool,
    pub(crate) transmit: bool,
    pub(crate) take: String,
}

impl Arguments {
    /// Arguments to receive all packets, for example of a file.
    pub(crate) fn to_receive(filter: Option<String>, count: Option<u64>) -> Self {
        Self {
            filter,
            rx_queues: None,
            tx_queues: None,
            other: true,
            snaplen: None,
            promiscuous: false,
            ring: None,
            count,
            receive: true,
            transmit: false,
            take: NOTHING.to_owned(),
        }
    }

    /// The library's options.
    ///
    /// # Errors
    /// The filter or `take` is wrong.
    pub(crate) fn options(self, halt: Halt) -> Result<OpenOptions> {
        let filter = self.filter.as_deref().map(filter).transpose()?.flatten();
        let all = QueueMask::ALL;
        let mask = QueueMask {
            enabled: true,
            rx: self.rx_queues.map_or(all.rx, |queues| queues.0),
            tx: self.tx_queues.map_or(all.tx, |queues| queues.0),
            other: self.other,
        };
        Ok(OpenOptions::default()
            .mask(mask)
            .filter(filter)
            .snaplen(self.snaplen.unwrap_or(OpenOptions::MAX_SNAPLEN))
            .promiscuous(self.promiscuous)
            .ring_bytes(self.ring)
            .receive(self.receive)
            .transmit(self.transmit)
            .take(take(&self.take)?)
            .internal(ProgramOptions::default().every_interface(true).packets(self.count))
            .halt(halt))
    }
}

/// Parses a filter; `None` if the expression is empty and accepts all packets.
///
/// # Errors
/// The expression is invalid.
pub(crate) fn filter(expression: &str) -> Result<Option<Filter>> {
    match expression.trim() {
        "" => Ok(None),
        _ => Ok(Some(expression.parse()?)),
    }
}

const NOTHING: &str = "nothing";

fn take(word: &str) -> Result<Take> {
    match word {
        NOTHING => Ok(Take::Nothing),
        "matching" => Ok(Take::Matching),
        "all" => Ok(Take::All),
        _ => Err(Error::usage(format!("take='{word}'"), "it is unknown")
            .help("write 'nothing', 'matching' or 'all'")),
    }
}
