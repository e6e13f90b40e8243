//! The subject of requests: the ports of this process and their counters.

use std::str::FromStr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use wirelane::filter::Filter;
use wirelane::internal::frame::Protocols;
use wirelane::internal::port::Switches;
use wirelane::internal::session::PortSwitches;
use wirelane::port::Control;
use wirelane::session::monitor::Monitor;
use wirelane::{Error, Result};

use super::request::{
    FilterChange, Identity, MaskChange, OffloadChange, PortOffload, Select, Triggered,
};
use crate::output::store::StoreView;
use crate::steering::Diversion;

/// A running command.
pub(crate) struct ControlledCommand {
    pub(crate) command: &'static str,
    pub(crate) started: Instant,
    pub(crate) monitor: Monitor,
    /// In order of position.
    pub(crate) ports: Vec<Served>,
    /// Whether packets are received, so that requests can select some.
    pub(crate) receives: bool,
    /// Whether the process has dropped its privileges.
    pub(crate) dropped_privileges: bool,
    /// Of a recording.
    pub(crate) store: Option<StoreView>,
}

/// The settings of one port that requests can change.
pub(crate) struct Served {
    control: Arc<dyn Control>,
    /// GSO and GRO, if they can be changed.
    switches: Option<PortSwitches>,
    /// The packets that the port takes from the host, if any.
    diversion: Option<Diversion>,
    /// The current filter. Locked during a change, so that changes are made one after the other.
    filter: Mutex<Option<String>>,
}

impl Served {
    /// Ports that were opened with this filter. With a diversion, a later filter may not take the
    /// user's own connection from the host.
    pub(crate) fn all(
        controls: Vec<Arc<dyn Control>>,
        switches: Vec<Option<PortSwitches>>,
        diversions: Vec<Option<Diversion>>,
        filter: Option<&str>,
    ) -> Vec<Self> {
        let (mut switches, mut diversions) = (switches.into_iter(), diversions.into_iter());
        let served = |control| Self {
            control,
            switches: switches.next().flatten(),
            diversion: diversions.next().flatten(),
            filter: Mutex::new(filter.map(str::to_owned)),
        };
        controls.into_iter().map(served).collect()
    }

    /// Replaces the filter.
    fn set_filter(&self, text: Option<&str>) -> Result<()> {
        let filter = text.map(str::parse::<Filter>).transpose()?;
        if let Some(diversion) = &self.diversion {
            diversion.check(filter.as_ref(), false)?;
        }
        self.control.set_filter(filter.as_ref())
    }

    fn lock(&self) -> MutexGuard<'_, Option<String>> {
        self.filter.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The packets that are selected now.
    pub(super) fn selected(&self, port: usize) -> MaskChange {
        self.describe(port, &self.lock())
    }

    /// The current GSO and GRO settings, if they can be changed.
    pub(super) fn offloading(&self, port: usize) -> Option<PortOffload> {
        let switches = self.switches.as_ref()?.settings();
        Some(PortOffload {
            port,
            gso: switches.gso().to_string(),
            gro: switches.gro().to_string(),
            gso_max: switches.max_burst(),
        })
    }

    fn describe(&self, port: usize, filter: &Option<String>) -> MaskChange {
        let mask = self.control.mask();
        MaskChange {
            port,
            enabled: mask.enabled,
            rx: mask.rx.to_string(),
            tx: mask.tx.to_string(),
            other: mask.other,
            filter: filter.clone(),
        }
    }
}

impl ControlledCommand {
    /// Which command this is.
    pub(super) fn identity(&self) -> Identity {
        Identity {
            command: self.command.into(),
            version: env!("CARGO_PKG_VERSION").into(),
            elapsed_s: self.started.elapsed().as_secs_f64(),
            ports: self.monitor.ports().iter().map(|info| info.spec.clone()).collect(),
            store: self.store.as_ref().map(StoreView::place),
            library: None,
        }
    }

    /// Changes or reads the selection of a port. Reads all ports if the request names none and
    /// changes nothing.
    pub(super) fn select(&self, select: &Select) -> Result<Vec<MaskChange>> {
        if select.port.is_none() && select.is_empty() {
            let of = |(position, port): (usize, &Served)| port.selected(position);
            return Ok(self.ports.iter().enumerate().map(of).collect());
        }
        self.select_one(select).map(|selected| vec![selected])
    }

    fn select_one(&self, select: &Select) -> Result<MaskChange> {
        let (position, port) = self.port(select.port)?;
        let mut filter = port.lock();
        if select.is_empty() {
            return Ok(port.describe(position, &filter));
        }
        if !self.receives {
            let cause = format!("`{}` receives nothing that could be selected", self.command);
            return Err(Error::usage("mask", cause).help("select what another command receives"));
        }
        let queues = self.monitor.ports().get(position).map_or(0, |info| info.queues.len());
        let before = port.control.mask();
        let mask = select.apply(before.clone(), queues)?;
        if mask != before {
            port.control.set_mask(mask).map_err(|error| self.explain(error))?;
        }
        if let Some(expression) = &select.filter {
            let text = match expression {
                FilterChange::None => None,
                FilterChange::Text(text) => Some(text.as_str()),
            };
            if let Err(error) = port.set_filter(text) {
                // Best effort: the first error is the one to report.
                let _ = port.control.set_mask(before);
                return Err(self.explain(error));
            }
            *filter = text.map(str::to_owned);
        }
        Ok(port.describe(position, &filter))
    }

    /// Changes or reads GSO and GRO of a port. Reads all ports if there are several and the request
    /// is empty.
    pub(super) fn offload(&self, offload: &OffloadChange) -> Result<Vec<PortOffload>> {
        if self.ports.len() > 1 && *offload == OffloadChange::default() {
            let of = |(position, port): (usize, &Served)| port.offloading(position);
            let all: Vec<_> = self.ports.iter().enumerate().filter_map(of).collect();
            if !all.is_empty() {
                return Ok(all);
            }
        }
        let position =
            offload.port.or(self.ports.iter().all(|port| port.switches.is_none()).then_some(0));
        let offload = OffloadChange { port: position, ..offload.clone() };
        self.offload_one(&offload).map(|offloading| vec![offloading])
    }

    fn offload_one(&self, offload: &OffloadChange) -> Result<PortOffload> {
        let (position, port) = self.port(offload.port)?;
        let missing = || {
            let object = self.monitor.ports().get(position).map_or("port", |info| &info.spec);
            Error::failed(format!("port '{object}'"), "it was opened without GSO and GRO")
                .help("start `wirelane forward` with --gso=off --gro=off to turn them on later")
        };
        let switches = port.switches.as_ref().ok_or_else(missing)?;
        let protocols =
            |text: &Option<String>| text.as_deref().map(Protocols::from_str).transpose();
        let (gso, gro) = (protocols(&offload.gso)?, protocols(&offload.gro)?);
        if let Some(bytes) = offload.gso_max.filter(|bytes| !Switches::BURSTS.contains(bytes)) {
            let (least, most) = (Switches::BURSTS.start(), Switches::BURSTS.end());
            return Err(Error::usage(format!("gso_max {bytes}"), "out of range")
                .help(format!("write a number from {least} to {most}")));
        }
        let (gso_before, gro_before) = (switches.settings().gso(), switches.settings().gro());
        let change = || -> Result<()> {
            gro.map_or(Ok(()), |protocols| switches.set_gro(protocols))?;
            gso.map_or(Ok(()), |protocols| switches.set_gso(protocols))?;
            offload.gso_max.map_or(Ok(()), |bytes| switches.set_max_burst(bytes))
        };
        if let Err(error) = change() {
            // Restore the previous settings.
            let _ = (switches.set_gro(gro_before), switches.set_gso(gso_before));
            return Err(self.explain(error));
        }
        port.offloading(position).ok_or_else(missing)
    }

    /// Fires the trigger of a recording.
    pub(super) fn trigger(&self) -> Result<Triggered> {
        let refuse = |cause: &'static str| Err(Error::failed("trigger", cause));
        let Some(store) = &self.store else { return refuse("it is no recording") };
        let Some(trigger) = store.trigger() else {
            return refuse("the recording has no trigger: everything is written");
        };
        Ok(Triggered {
            triggers: trigger.fire(),
            before_s: trigger.before().as_secs_f64(),
            after_s: trigger.after().as_secs_f64(),
        })
    }

    /// The port at this position, or the only one.
    fn port(&self, position: Option<usize>) -> Result<(usize, &Served)> {
        let position = match position {
            Some(position) => position,
            None if self.ports.len() == 1 => 0,
            None => {
                return Err(
                    Error::usage("port", "the command has several ports").help(self.choice())
                );
            }
        };
        let port = self.ports.get(position).map(|port| (position, port));
        port.ok_or_else(|| {
            Error::usage(format!("port {position}"), "no such port").help(self.choice())
        })
    }

    fn choice(&self) -> String {
        let ports = self.monitor.ports().iter().enumerate();
        let names: Vec<_> = ports.map(|(i, info)| format!("{i} is {}", info.spec)).collect();
        format!("choose with --port: {}", names.join(", "))
    }

    /// Names dropped privileges as a possible reason for a refusal.
    fn explain(&self, error: Error) -> Error {
        // EPERM (1) or EACCES (13).
        if self.dropped_privileges && matches!(error.errno(), Some(1 | 13)) {
            let help = "the command dropped its privileges after opening its ports; start it with \
                        --keep-privileges to change this while it runs";
            return error.help(help);
        }
        error
    }
}
