//! The filter of a query, ready to run: a program for each link type.

use std::collections::HashMap;
use std::sync::Arc;

use wirelane_filter::jit::Jit;
use wirelane_filter::{Filter, Interpreter, Metadata, Packet, Program};
use wirelane_pcap::{Class, LINK_TYPE_ETHERNET, Record, Source};

use crate::error::Result;
use crate::narrow::Plan;

/// The snap length of compiled expressions, as in tcpdump.
const SNAPLEN: u32 = 262_144;

/// A runnable program: machine code, or interpreted.
#[derive(Debug)]
pub(super) enum FilterEngine {
    Jit(Jit),
    Interpreter(Interpreter),
}

impl FilterEngine {
    fn new(program: &Program) -> wirelane_filter::Result<Self> {
        let interpreter = Interpreter::new(program)?;
        Ok(Jit::new(program).map_or(Self::Interpreter(interpreter), Self::Jit))
    }

    /// Whether it accepts the packet.
    #[inline]
    fn accepts(&self, record: &Record<'_>, metadata: Metadata) -> bool {
        let packet = Packet { data: record.data, wire_len: record.original_len, metadata };
        let verdict = match self {
            Self::Jit(jit) => jit.run(&packet),
            Self::Interpreter(interpreter) => interpreter.run(&packet),
        };
        verdict != 0
    }
}

/// The filter for packets of one link type.
#[derive(Clone, Debug)]
pub(super) enum LinkFilter {
    /// There is no filter.
    All,
    /// The packets that a program accepts, and the condition on extents that may hold them.
    Some(Arc<FilterEngine>, Arc<Plan>),
    /// The filter cannot be applied to this link type.
    Nothing,
}

impl LinkFilter {
    /// Whether the packet, with this metadata, matches.
    #[inline]
    pub(super) fn accepts(&self, record: &Record<'_>, metadata: Metadata) -> bool {
        match self {
            Self::All => true,
            Self::Some(engine, _) => engine.accepts(record, metadata),
            Self::Nothing => false,
        }
    }
}

/// The metadata of an interface's packets, for filters with `inbound` and `outbound`.
pub(super) fn metadata(source: &Source) -> Metadata {
    let packet_type = if source.class == Some(Class::Tx) { OUTGOING } else { 0 };
    Metadata { queue: source.queue.unwrap_or(0), packet_type, interface_index: 0 }
}

/// `PACKET_OUTGOING` of `linux/if_packet.h`.
const OUTGOING: u32 = 4;

/// The programs of a filter, compiled when a link type first occurs.
#[derive(Debug)]
pub(super) struct FilterEngines<'a> {
    filter: Option<&'a Filter>,
    made: HashMap<u16, LinkFilter>,
    notes: Vec<String>,
}

impl<'a> FilterEngines<'a> {
    pub(super) fn new(filter: Option<&'a Filter>) -> Self {
        Self { filter, made: HashMap::new(), notes: Vec::new() }
    }

    /// The verdict on packets of this link type.
    ///
    /// # Errors
    /// The filter cannot be compiled for this link type or for Ethernet: it is wrong in itself.
    pub(super) fn verdict(&mut self, link_type: u16) -> Result<LinkFilter> {
        let Some(filter) = self.filter else { return Ok(LinkFilter::All) };
        if let Some(verdict) = self.made.get(&link_type) {
            return Ok(verdict.clone());
        }
        let verdict = match compile(filter, link_type) {
            Ok(verdict) => verdict,
            Err(error) if link_type == LINK_TYPE_ETHERNET => return Err(error.into()),
            Err(error) => {
                compile(filter, LINK_TYPE_ETHERNET)?;
                self.notes.push(format!("packets of link type {link_type}: {error}"));
                LinkFilter::Nothing
            }
        };
        self.made.insert(link_type, verdict.clone());
        Ok(verdict)
    }

    /// The link types that the filter cannot be applied to, with reasons.
    pub(super) fn into_notes(self) -> Vec<String> {
        self.notes
    }
}

fn compile(filter: &Filter, link_type: u16) -> wirelane_filter::Result<LinkFilter> {
    let program = filter.program(link_type, SNAPLEN)?;
    let engine = FilterEngine::new(&program)?;
    Ok(LinkFilter::Some(Arc::new(engine), Arc::new(Plan::new(&program))))
}
