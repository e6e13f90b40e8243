//! Masks, filter, start and stop of all interfaces, from any thread.

use std::sync::{Arc, Mutex};

use wirelane_os::packet::{PacketSocket, SockFilter};

use super::super::control::{PortProgress, count_blocks, may_reject};
use super::super::fanout::{FanoutGroup, note};
use super::super::ring::{self, PacketRing};
use super::interfaces::Finder;
use super::name::NAME;
use super::program;
use crate::error::{Error, Result};
use crate::filter::Filter;
use crate::mask::{Class, QueueMask, QueueSet};
use crate::port::accounting::FrameCounts;
use crate::port::control::{Control, Driver, Passed};
use crate::port::device::{ETHERNET, LINK_TYPES};
use crate::port::metadata::discovered::DiscoveredInterfaces;
use crate::port::steering::selection;
use crate::sync::lock;

/// The port's rings and the state of their programs.
pub(super) struct AnyControl {
    rings: Vec<PacketRing>,
    discovered: Arc<DiscoveredInterfaces>,
    finder: Arc<Finder>,
    progress: Arc<PortProgress>,
    snaplen: u32,
    fanout: FanoutGroup,
    state: Mutex<AnyState>,
}

struct AnyState {
    /// The programs for each link type for which the filter has a meaning.
    filters: Option<Vec<(u16, Vec<SockFilter>)>>,
    is_started: bool,
    is_stopped: bool,
    /// A socket that only stays open: see `stop` of a port for one interface.
    spare: Option<PacketSocket>,
}

/// How much of the received or sent packets a mask selects.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    All,
    Some,
    Nothing,
}

impl Part {
    fn of(mask: &QueueMask, class: Class) -> Self {
        let (queues, rest) = match class {
            Class::Tx => (&mask.tx, mask.tx == QueueSet::All),
            _ => (&mask.rx, mask.other),
        };
        match queues {
            _ if !mask.enabled => Self::All,
            QueueSet::All if rest => Self::All,
            queues if queues.is_empty() && !rest => Self::Nothing,
            _ => Self::Some,
        }
    }
}

impl AnyControl {
    pub(super) fn new(
        (rings, fanout): (Vec<PacketRing>, FanoutGroup),
        discovered: Arc<DiscoveredInterfaces>,
        finder: Arc<Finder>,
        progress: Arc<PortProgress>,
        snaplen: u32,
        spare: PacketSocket,
    ) -> Self {
        let state =
            AnyState { filters: None, is_started: false, is_stopped: false, spare: Some(spare) };
        let state = Mutex::new(state);
        Self { rings, discovered, finder, progress, snaplen, fanout, state }
    }

    /// Sets the first filter.
    pub(super) fn open_with(&self, filter: Option<&Filter>) -> Result<()> {
        self.set_filter(filter)
    }

    /// Blocks by owner.
    pub(super) fn frames(&self) -> FrameCounts {
        count_blocks(&self.rings)
    }

    /// The programs of a filter, by link type.
    fn programs(&self, filter: &Filter) -> Result<Vec<(u16, Vec<SockFilter>)>> {
        let compile = |link_type| {
            let program = filter.program(link_type, self.snaplen)?;
            Ok(match filter.is_verbatim() {
                true => program.verbatim(self.snaplen),
                false => program.for_socket(self.snaplen)?,
            })
        };
        // A filter need not have a meaning for the other link types.
        let mut programs = vec![(ETHERNET, compile(ETHERNET)?)];
        let others = LINK_TYPES.iter().map(|(link_type, _)| *link_type);
        for link_type in others.filter(|link_type| *link_type != ETHERNET) {
            let program: Result<_> = compile(link_type);
            programs.extend(program.ok().map(|program| (link_type, program)));
        }
        Ok(programs)
    }

    fn attach(&self, mask: &QueueMask, filters: Option<&[(u16, Vec<SockFilter>)]>) -> Result<()> {
        // The fanout program checks the mask first. So the ring's program rejects only packets that
        // the filter rejects.
        let mask = if self.fanout.program().is_some() { &QueueMask::ALL } else { mask };
        let program = program::of_ring(mask, self.snaplen, filters);
        selection::check_length(&program, "for all kinds of interfaces")?;
        let mut rings = self.rings.iter();
        rings.try_for_each(|ring| ring.attach(&program)).map_err(|error| Error::os(NAME, error))
    }

    /// Attaches the programs; on failure, attaches the earlier ones.
    fn change(
        &self,
        state: &AnyState,
        mask: &QueueMask,
        filters: Option<&[(u16, Vec<SockFilter>)]>,
    ) -> Result<()> {
        if !state.is_started || state.is_stopped {
            return Ok(());
        }
        self.attach(mask, filters).inspect_err(|_| {
            // Best effort: the first error is the one to report.
            let _ = self.attach(&self.finder.mask(), state.filters.as_deref());
        })?;
        self.open_to(mask);
        Ok(())
    }

    /// Opens the directions that `mask` may select, if there is a fanout program.
    fn open_to(&self, mask: &QueueMask) {
        let Some(program) = self.fanout.program() else { return };
        let [received, sent] = [Class::Rx, Class::Tx].map(|class| Part::of(mask, class));
        for ring in 0..self.rings.len() {
            program.set_open(ring, received != Part::Nothing, sent != Part::Nothing);
        }
    }

    /// Adds a note if rejected packets are not counted.
    fn heed_filters(&self, state: &AnyState, mask: &QueueMask) {
        let rejects = state.filters.iter().flatten().any(|(_, program)| may_reject(program));
        let is_part = |class| Part::of(mask, class) == Part::Some;
        let some = "only some queues of all interfaces are selected";
        let some = || {
            (self.finder.has_queues() || is_part(Class::Rx) || is_part(Class::Tx)).then_some(some)
        };
        if rejects
            && let Some(why) = self.fanout.uncounted().or_else(some)
            && self.discovered.filters_unseen()
        {
            self.progress.note(note(why));
        }
    }
}

impl Control for AnyControl {
    fn mask(&self) -> QueueMask {
        self.finder.mask()
    }

    /// Any queue can be selected: a later interface may have it.
    fn set_mask(&self, mask: QueueMask) -> Result<()> {
        let state = lock(&self.state);
        self.change(&state, &mask, state.filters.as_deref())?;
        self.heed_filters(&state, &mask);
        self.finder.set_mask(mask);
        Ok(())
    }

    fn set_filter(&self, filter: Option<&Filter>) -> Result<()> {
        let filters = filter.map(|filter| self.programs(filter)).transpose()?;
        let mut state = lock(&self.state);
        self.change(&state, &self.finder.mask(), filters.as_deref())?;
        state.filters = filters;
        self.heed_filters(&state, &self.finder.mask());
        Ok(())
    }

    fn passed(&self) -> Result<Option<Passed>> {
        ring::passed(&self.rings).map(Some).map_err(|error| Error::os(NAME, error))
    }

    fn stop(&self) {
        let mut state = lock(&self.state);
        if std::mem::replace(&mut state.is_stopped, true) {
            return;
        }
        self.fanout.shut(&self.rings, state.spare.take());
        self.progress.stop();
    }
}

impl Driver for AnyControl {
    fn start(&self) -> Result<()> {
        let mut state = lock(&self.state);
        if state.is_started {
            return Ok(());
        }
        let mask = self.finder.mask();
        self.attach(&mask, state.filters.as_deref())?;
        self.open_to(&mask);
        state.is_started = true;
        Ok(())
    }

    fn diagnostics(&self) -> Vec<String> {
        self.progress.notes(NAME)
    }
}
