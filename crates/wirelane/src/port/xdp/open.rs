//! Opens an AF_XDP port: plans, attempts the modes, assembles the ends, describes the result.

use std::ops::{Deref, DerefMut};

use wirelane_os::mmap::PageKind;

use super::negotiate::first_cause;
use super::plan::XdpPlan;
use crate::error::{Error, Result};
use crate::memory::Allotment;
use crate::pool::Region;
use crate::port::info::Attempt;
use crate::port::options::OpenOptions;
use crate::port::port::Port;
use crate::port::spec::Spec;

/// An interface opened through AF_XDP: a [`Port`] that also reports shared frame memory. See the
/// [module documentation](super).
pub struct XdpPort {
    port: Port,
    region: Region,
}

impl XdpPort {
    /// Opens the interface that `spec` names, in the calling thread's network namespace. Its
    /// program is attached, but passes all packets to the host before [`Port::start`].
    ///
    /// # Errors
    /// A usage error for a queue that does not exist, an unknown option, or an
    /// [`OpenOptions::take`] that takes no packets. Otherwise the reason that no mode works: the
    /// first cause other than a mode that the driver lacks.
    pub fn open(spec: &Spec, options: &OpenOptions) -> Result<Self> {
        Self::negotiate(spec, options).map_err(|(error, _)| error)
    }

    /// As [`XdpPort::open`]; an error includes the attempts.
    pub(in crate::port) fn negotiate(
        spec: &Spec,
        options: &OpenOptions,
    ) -> std::result::Result<Self, (Error, Vec<Attempt>)> {
        let mut attempts = Vec::new();
        Self::open_noting(spec, options, &mut attempts).map_err(|error| (error, attempts))
    }

    /// Whether both ports have their frames in the same memory: each then sends the other's frames
    /// without a copy.
    pub fn shares_memory_with(&self, other: &Self) -> bool {
        self.region.is_same(&other.region)
    }

    /// Bytes of frame memory that [`XdpPort::open`] needs with the same arguments, within `budget`.
    ///
    /// # Errors
    /// The errors of [`XdpPort::open`] that are known before the port is opened.
    pub(in crate::port) fn memory_within(
        spec: &Spec,
        options: &OpenOptions,
        budget: &Allotment,
    ) -> Result<usize> {
        Ok(XdpPlan::new(spec, options, budget)?.bytes())
    }

    /// As [`XdpPort::open`]; adds each mode that was tried to `attempts`.
    fn open_noting(
        spec: &Spec,
        options: &OpenOptions,
        attempts: &mut Vec<Attempt>,
    ) -> Result<Self> {
        let budget = Allotment::of_rest();
        let budget = match &options.internal.memory {
            Some(share) => budget.or_taken(share.bytes),
            None => budget,
        };
        let mut plan = XdpPlan::new(spec, options, &budget)?;
        let mut notes = std::mem::take(&mut plan.notes);
        let region = plan.region(&mut notes)?;
        let huge = region.kind() == PageKind::Huge2M;
        let mut pools = plan.carve(&region)?;
        let mut refusals = Vec::new();
        for mode in plan.modes() {
            let refusal = plan.offers.refusal(mode, &plan.device, &plan.shape, plan.receive, huge);
            let attempt = match refusal {
                Some(error) => Err(error),
                None => plan.attempt(mode, &region, &mut pools),
            };
            match attempt {
                Ok(bound) => {
                    attempts.push(Attempt::chosen(mode.way()));
                    let info = plan.describe(mode, &bound, std::mem::take(attempts), notes);
                    return Ok(Self { port: plan.assemble(info, bound, pools), region });
                }
                Err(error) => {
                    attempts.push(Attempt::refused(mode.way(), &error));
                    refusals.push(error);
                }
            }
        }
        // There is at least one mode.
        let none = || Error::failed(spec.to_string(), "no mode is left to try");
        Err(first_cause(refusals).unwrap_or_else(none))
    }
}

impl Deref for XdpPort {
    type Target = Port;

    fn deref(&self) -> &Port {
        &self.port
    }
}

impl DerefMut for XdpPort {
    fn deref_mut(&mut self) -> &mut Port {
        &mut self.port
    }
}

impl From<XdpPort> for Port {
    fn from(xdp: XdpPort) -> Self {
        xdp.port
    }
}
