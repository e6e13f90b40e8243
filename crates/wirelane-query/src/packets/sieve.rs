//! Compiled filters that select the packets for rows: the user's, which are exact, and a coarse
//! one, which saves work.

use wirelane::filter::Engine;
use wirelane::{Error, Result};
use wirelane_filter::{Filter, Metadata, Packet, Program};
use wirelane_pcap::Class;
use wirelane_pcap::{Direction, LINK_TYPE_ETHERNET, Record, Source};

/// The snap length of compiled expressions, as tcpdump's.
const SNAPLEN: u32 = 262_144;

/// Filters by link type, compiled on first use.
pub(super) struct LinkFilters {
    filters: Vec<Filter>,
    ask: Option<Filter>,
    made: Vec<(u16, Option<Vec<Engine>>)>,
    /// Link types to which a filter does not apply, and why.
    unfiltered: Vec<String>,
}

impl LinkFilters {
    /// # Errors
    /// An expression is wrong.
    pub(super) fn new(filters: &[String], ask: Option<&str>) -> Result<Self> {
        let filters = filters.iter().map(|text| parsed(text)).collect::<Result<_>>()?;
        let ask = ask.map(parsed).transpose()?;
        Ok(Self { filters, ask, made: Vec::new(), unfiltered: Vec::new() })
    }

    /// Whether the packet may be a row.
    #[inline]
    pub(super) fn accepts(&mut self, record: &Record<'_>, source: &Source) -> bool {
        if self.filters.is_empty() && self.ask.is_none() {
            return true;
        }
        let known = self.made.iter().position(|(link_type, _)| *link_type == source.link_type);
        let at = known.unwrap_or_else(|| {
            let engines = self.make(source.link_type);
            self.made.push((source.link_type, engines));
            self.made.len() - 1
        });
        let Some((_, Some(engines))) = self.made.get(at) else { return false };
        let is_sent = match source.class {
            Some(class) => class == Class::Tx,
            None => record.direction == Direction::Outbound,
        };
        let packet_type = if is_sent { Metadata::OUTGOING } else { 0 };
        let metadata =
            Metadata { queue: source.queue.unwrap_or(0), packet_type, interface_index: 0 };
        let packet = Packet { data: record.data, wire_len: record.original_len, metadata };
        engines.iter().all(|it| it.run(&packet) != 0)
    }

    /// The link types to which a filter does not apply, and why. Their packets are not rows.
    pub(super) fn into_unfiltered(self) -> Vec<String> {
        self.unfiltered
    }

    /// Compiles the filters; `None` if one does not apply to this link type.
    fn make(&mut self, link_type: u16) -> Option<Vec<Engine>> {
        let mut engines = Vec::new();
        for filter in &self.filters {
            match engine(filter, link_type) {
                Ok(engine) => engines.push(engine),
                Err(error) => {
                    self.unfiltered.push(format!("packets of link type {link_type}: {error}"));
                    return None;
                }
            }
        }
        // The coarse filter only saves work. It may not compile: some link types have no VLAN tags.
        engines.extend(self.ask.as_ref().and_then(|ask| engine(ask, link_type).ok()));
        Some(engines)
    }
}

/// Checks that an expression compiles for Ethernet.
///
/// # Errors
/// The expression is wrong, or this host cannot compile it.
pub(super) fn check(text: &str) -> Result<()> {
    let wrong = |error: wirelane_filter::Error| {
        Error::usage(format!("bpf('{text}')"), error.cause().to_owned())
            .help("`wirelane filter EXPRESSION` shows what an expression means")
    };
    parsed(text)?.check(LINK_TYPE_ETHERNET).map_err(wrong)
}

/// Parses an expression.
pub(super) fn parsed(text: &str) -> Result<Filter> {
    Ok(text.parse()?)
}

fn engine(filter: &Filter, link_type: u16) -> Result<Engine> {
    let program: std::sync::Arc<Program> = filter.program(link_type, SNAPLEN)?;
    Engine::new(&program, 0)
}
