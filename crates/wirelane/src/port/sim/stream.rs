//! The stream of packets that a simulated port receives, as a pure function of the packet's number.
//!
//! Packet k belongs to flow `k % flows`; its class, its size and its flow's queue repeat with a
//! known period. So each receiving end gets a list of its positions within one period and repeats
//! that list: all ends together produce the one global stream, and none depends on the progress of
//! the others.

use wirelane_wire::checksum::{pseudo_v4, pseudo_v6};
use wirelane_wire::{
    Addresses, FlowKey, HashInput, IndirectionTable, Ipv4View, Layers, Protocol, TcpView,
    ToeplitzKey, ToeplitzTable, UdpView, WireError,
};

use super::config::Config;
use super::schedule::SimSchedule;
use super::template::{self, FrameTemplate};
use crate::error::{Error, Result};
use crate::frame::Frame;
use crate::mask::Class;
use crate::port::spec::Spec;

/// The longest period of a stream, in packets.
const MAX_PERIOD: u64 = 1 << 22;

/// A packet of a stream, predicted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Predicted {
    /// The packet's number, from 0.
    pub number: u64,
    /// Whether the packet is received, transmitted by the host, or without a queue.
    pub class: Class,
    /// The packet's queue; 0 and meaningless for [`Class::Other`].
    pub queue: u16,
    /// Due time in nanoseconds after the start; `None` at rate `max`.
    pub due: Option<u64>,
    /// The bytes of the packet.
    pub bytes: Vec<u8>,
}

/// The packets that `sim:N?…` receives, without opening the port.
///
/// ```
/// use wirelane::internal::sim::Stream;
///
/// let stream = Stream::new(&"sim:4?size=100&seed=7".parse()?)?;
/// let packet = stream.packet(1_000_000);
/// assert_eq!(packet.bytes.len(), 100);
/// assert_eq!(stream.number(&packet.bytes), Some(1_000_000));
/// # Ok::<(), wirelane::Error>(())
/// ```
#[derive(Clone)]
pub struct Stream {
    config: Config,
    schedule: Option<SimSchedule>,
    rss: SimRss,
    queues: Box<[u16]>,
    filler: Box<[u8]>,
    period: u64,
}

impl Stream {
    /// The stream of the port that `spec` names.
    ///
    /// # Errors
    /// The errors of `Config::new`, or a common period of `flows`, `size=imix`, `other` and `tx`
    /// that is too long.
    pub fn new(spec: &Spec) -> Result<Self> {
        let config = Config::new(spec)?;
        let period = [config.sizes.len() as u64]
            .into_iter()
            .chain(config.other)
            .chain(config.transmitted)
            .try_fold(u64::from(config.flows), least_common_multiple)
            .filter(|period| *period <= MAX_PERIOD)
            .ok_or_else(|| {
                let cause =
                    "the combination of flows, size, other and tx repeats only after more than \
                     4194304 packets";
                Error::usage(format!("port '{spec}'"), cause)
                    .help("choose numbers with more common factors, or smaller ones")
            })?;
        let rss = SimRss::new(&config.key, config.queues);
        let queue = |flow| rss.queue_of(&template::flow_key(&config, flow));
        let queues = (0..config.flows).map(queue).collect();
        let schedule = SimSchedule::new(&config);
        let filler = template::filler(&config).into();
        let stream = Self { config, schedule, rss, queues, filler, period };
        // If one template can be built, the templates of all flows can: only their values differ.
        for variant in 0..stream.config.sizes.len() {
            stream.template(0, variant).map_err(|error| {
                Error::failed(format!("port '{spec}'"), format!("cannot build a packet: {error}"))
            })?;
        }
        Ok(stream)
    }

    /// Packet k.
    pub fn packet(&self, k: u64) -> Predicted {
        let (class, queue) = self.place(k);
        let (flow, variant) = self.flow(k);
        let template = self.template(flow, variant);
        let round = k / u64::from(self.config.flows);
        let bytes = template.map(|template| template.bytes(&self.filler, k, round));
        let due = self.schedule.as_ref().map(|schedule| schedule.due(k));
        Predicted { number: k, class, queue, due, bytes: bytes.unwrap_or_default() }
    }

    /// Number of packets, if the stream is finite.
    pub fn count(&self) -> Option<u64> {
        self.config.count
    }

    /// The options of the stream.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The five-tuple of a flow, modulo the number of flows.
    pub fn flow_key(&self, flow: u32) -> FlowKey {
        template::flow_key(&self.config, flow % self.config.flows)
    }

    /// The queue that receive-side scaling selects.
    pub fn queue_of(&self, key: &FlowKey) -> u16 {
        self.rss.queue_of(key)
    }

    /// The number in a packet of this or another simulated port. `None` if its headers are
    /// inconsistent or a checksum is wrong. Its addresses may have been changed.
    pub fn number(&self, bytes: &[u8]) -> Option<u64> {
        number(bytes)
    }

    /// Class and queue of packet k.
    fn place(&self, k: u64) -> (Class, u16) {
        let every = |n: Option<u64>| n.is_some_and(|n| k % n == n - 1);
        if every(self.config.other) {
            return (Class::Other, 0);
        }
        let (flow, _) = self.flow(k);
        let queue = self.queues[flow as usize];
        (if every(self.config.transmitted) { Class::Tx } else { Class::Rx }, queue)
    }

    /// Flow and size of packet k.
    fn flow(&self, k: u64) -> (u32, usize) {
        let flow = (k % u64::from(self.config.flows)) as u32;
        (flow, (k % self.config.sizes.len() as u64) as usize)
    }

    fn template(&self, flow: u32, variant: usize) -> Result<FrameTemplate, WireError> {
        FrameTemplate::new(&self.config, flow, variant, &self.filler)
    }

    pub(super) fn schedule(&self) -> Option<&SimSchedule> {
        self.schedule.as_ref()
    }

    pub(super) fn filler(&self) -> &[u8] {
        &self.filler
    }

    /// The walks over all packets of each class and queue in `ends`.
    pub(super) fn walks(&self, ends: &[(Class, u16)]) -> Vec<PacketWalk> {
        let queues = ends.iter().map(|(_, queue)| usize::from(*queue) + 1).max().unwrap_or(0);
        let slot = |(class, queue): (Class, u16)| {
            (usize::from(queue) < queues).then(|| class as usize * queues + usize::from(queue))
        };
        let mut walks: Vec<_> = ends.iter().map(|_| PacketWalk::new(self)).collect();
        let mut walk_of = vec![None; 3 * queues];
        for (i, end) in ends.iter().enumerate() {
            slot(*end).into_iter().for_each(|slot| walk_of[slot] = Some(i));
        }
        let variants = self.config.sizes.len();
        let templates = self.queues.len() * variants;
        // All packets of one flow and class are in one walk.
        let mut known = vec![None; 3 * templates];
        for k in 0..self.period {
            let place = self.place(k);
            let Some(i) = slot(place).and_then(|slot| walk_of[slot]) else { continue };
            let (flow, variant) = self.flow(k);
            let known =
                &mut known[place.0 as usize * templates + flow as usize * variants + variant];
            let template = match *known {
                Some(template) => template,
                None => {
                    let Ok(template) = self.template(flow, variant) else { continue };
                    walks[i].templates.push(template);
                    *known.insert(walks[i].templates.len() as u32 - 1)
                }
            };
            walks[i].entries.push(WalkPacket { position: k as u32, template });
        }
        walks
    }
}

/// A packet of a walk within its period.
#[derive(Clone, Copy)]
struct WalkPacket {
    position: u32,
    template: u32,
}

/// The packets of one class and queue, in order.
pub(super) struct PacketWalk {
    period: u64,
    flows: u64,
    /// Whether a period is one round of the flows, as it usually is: this needs no division.
    is_single: bool,
    entries: Vec<WalkPacket>,
    templates: Vec<FrameTemplate>,
    /// Number of the period's first packet, and of its first round.
    base: u64,
    round: u64,
    /// Index of the next entry; below the number of entries, unless there are none.
    at: usize,
}

impl PacketWalk {
    fn new(stream: &Stream) -> Self {
        let (period, flows) = (stream.period, u64::from(stream.config.flows));
        Self {
            period,
            flows,
            is_single: period == flows,
            entries: Vec::new(),
            templates: Vec::new(),
            base: 0,
            round: 0,
            at: 0,
        }
    }

    /// Number of the next packet; `u64::MAX` if there is none.
    #[inline]
    pub(super) fn next(&self) -> u64 {
        match self.entries.get(self.at) {
            Some(entry) => self.base + u64::from(entry.position),
            None => u64::MAX,
        }
    }

    /// The number of packets before number `limit`.
    #[inline]
    pub(super) fn ready(&self, limit: u64) -> u64 {
        let entries = self.entries.len() as u64;
        let (periods, rest) = (limit / self.period, limit % self.period);
        let within = self.entries.partition_point(|entry| u64::from(entry.position) < rest) as u64;
        let passed = self.base / self.period * entries + self.at as u64;
        (periods * entries + within).saturating_sub(passed)
    }

    pub(super) fn skip(&mut self, n: u64) {
        let entries = self.entries.len() as u64;
        if entries == 0 {
            return;
        }
        let at = self.at as u64 + n;
        self.base += at / entries * self.period;
        self.round = self.base / self.flows;
        self.at = (at % entries) as usize;
    }

    /// Writes the next packet into `frame`, which has room for it, and returns its number;
    /// `u64::MAX` if there is none.
    #[inline(always)]
    pub(super) fn fill(&mut self, frame: &mut Frame, filler: &[u8]) -> u64 {
        let Some(entry) = self.entries.get(self.at) else { return u64::MAX };
        let k = self.base + u64::from(entry.position);
        let mut round = self.round;
        if !self.is_single {
            round += u64::from(entry.position) / self.flows;
        }
        if let Some(template) = self.templates.get(entry.template as usize) {
            let fits = template.fill(frame, filler, k, round);
            debug_assert!(fits, "the pool was made for the longest packet");
        }
        self.at += 1;
        if self.at == self.entries.len() {
            self.at = 0;
            self.base += self.period;
            self.round = self.base / self.flows;
        }
        k
    }
}

/// Receive-side scaling of a simulated port: hash key and indirection table.
#[derive(Clone)]
pub(super) struct SimRss {
    toeplitz: Box<ToeplitzTable>,
    table: Box<IndirectionTable<TABLE>>,
}

/// Entries of the table, as in cards with more than 128 queues.
const TABLE: usize = 1024;
/// Distinct entries for fewer queues, as in most cards; the table repeats them.
const USUAL_TABLE: usize = 128;

impl SimRss {
    pub(super) fn new(key: &ToeplitzKey, queues: u16) -> Self {
        let toeplitz = Box::new(ToeplitzTable::new(key));
        let usual: IndirectionTable<USUAL_TABLE> = IndirectionTable::spread(queues);
        let table = match usize::from(queues) {
            ..=USUAL_TABLE => {
                IndirectionTable::new(std::array::from_fn(|at| usual.queue(at as u32)))
            }
            _ => IndirectionTable::spread(queues),
        };
        Self { toeplitz, table: Box::new(table) }
    }

    #[inline]
    pub(super) fn queue_of(&self, key: &FlowKey) -> u16 {
        self.table.queue(self.toeplitz.hash(HashInput::with_ports(key).bytes()))
    }

    /// The queue of a packet. A packet other than IP has no hash and belongs to the first entry's
    /// queue, as on most cards.
    #[inline]
    pub(super) fn queue(&self, bytes: &[u8]) -> u16 {
        match FlowKey::parse(bytes) {
            Ok(Some(key)) => self.queue_of(&key),
            _ => self.table.queue(0),
        }
    }
}

/// The number in the payload of a packet whose lengths and checksums are right.
pub(super) fn number(bytes: &[u8]) -> Option<u64> {
    let layers = Layers::parse(bytes).ok()?;
    let transport = layers.transport?;
    let flow = layers.flow().ok()??;
    let length = transport.bytes.len() as u32;
    let pseudo = match flow.addresses {
        Addresses::V4 { source, destination } => {
            let header = Ipv4View::new(bytes.get(layers.network_offset..)?).ok()?;
            if !header.checksum_is_valid() {
                return None;
            }
            pseudo_v4(source, destination, transport.protocol, length)
        }
        Addresses::V6 { source, destination } => {
            pseudo_v6(source, destination, transport.protocol, length)
        }
    };
    let payload = match transport.protocol {
        Protocol::UDP => {
            let datagram = UdpView::new(transport.bytes).ok()?;
            datagram.checksum_is_valid(pseudo).then(|| datagram.payload())?
        }
        Protocol::TCP => {
            let segment = TcpView::new(transport.bytes).ok()?;
            segment.checksum_is_valid(pseudo).then(|| segment.payload())?
        }
        _ => return None,
    };
    payload.first_chunk().map(|number| u64::from_be_bytes(*number))
}

fn least_common_multiple(a: u64, b: u64) -> Option<u64> {
    let (mut greater, mut divisor) = (a, b);
    while divisor != 0 {
        (greater, divisor) = (divisor, greater % divisor);
    }
    (a / greater.max(1)).checked_mul(b)
}
