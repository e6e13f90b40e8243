//! The beds: one for each kind of port.

mod ears;
mod host;
pub(crate) mod packet;
pub(crate) mod sim;
pub(crate) mod tap;
pub(crate) mod veth;
pub(crate) mod xdp;

use std::time::Duration;

use wirelane::Result;
use wirelane::port::{self, OpenOptions, Port};

use crate::bed::{Bed, Observed, Promises};

/// The medium between a network interface and the test.
pub(crate) trait Medium: Send {
    /// The interface for the port under test.
    fn interface(&self) -> &str;

    /// The link-layer addresses of the interface and of its neighbour.
    fn macs(&self) -> [[u8; 6]; 2];

    /// Creates another medium like this one.
    fn again(&self) -> Self
    where
        Self: Sized;

    /// Calls `action` in the namespace of the interface.
    fn inside<T>(&self, action: impl FnOnce() -> T) -> T
    where
        Self: Sized;

    /// Waits until the previous port is closed completely.
    fn make_room(&mut self) {}

    /// As [`Bed::flow`].
    fn flow(&self, queue: u16) -> u16 {
        queue
    }

    /// As [`Bed::inject`].
    fn inject(&mut self, queue: u16, frame: &[u8]) -> bool;

    /// As [`Bed::settle`]. Does nothing if the injecting call delivers the frame itself.
    fn settle(&mut self) {}

    /// As [`Bed::observe`].
    fn observe(&mut self) -> Vec<Observed>;

    /// As [`Bed::set_link`].
    fn set_link(&mut self, up: bool) -> bool {
        let _ = up;
        false
    }

    /// As [`Bed::host_sends`]. `None` if the frame is sent and the queue is unknown.
    fn host_sends(&mut self, frame: &[u8]) -> Option<u16>;

    /// As [`Promises::calm`].
    fn calm(&self) -> Duration {
        Duration::from_millis(20)
    }

    /// As [`Bed::lost_before`].
    fn lost_before(&mut self) -> u64;

    /// As [`Bed::lost_behind`].
    fn lost_behind(&mut self) -> u64;
}

/// A bed of ports on a network interface.
pub(crate) struct OnInterface<M> {
    medium: M,
    promises: Promises,
    /// The part of the spec after the name.
    query: &'static str,
    /// Whether the port selects the TX queue of its frames.
    steers: bool,
}

impl<M> OnInterface<M> {
    /// The same bed, with frames of up to `longest` bytes.
    fn with_longest(mut self, longest: usize) -> Self {
        self.promises.longest = longest;
        self
    }
}

impl<M> OnInterface<M> {
    /// The same bed, on a device that does not count the frames that it has no room for.
    #[allow(dead_code, reason = "for interfaces that exist, which are another target's")]
    pub(crate) fn that_loses_silently(mut self) -> Self {
        self.promises.counts_losses = false;
        self
    }
}

impl<M: Medium + 'static> Bed for OnInterface<M> {
    fn promises(&self) -> &Promises {
        &self.promises
    }

    fn open(&mut self, queues: Option<&str>, options: &OpenOptions) -> Result<Port> {
        let at = queues.map(|queues| format!("@{queues}")).unwrap_or_default();
        let (backend, name) = (self.promises.backend, self.medium.interface());
        let spec = format!("{backend}:{name}{at}{}", self.query).parse()?;
        self.medium.make_room();
        self.medium.inside(|| port::open(&spec, options))
    }

    fn flow(&self, queue: u16) -> u16 {
        self.medium.flow(queue)
    }

    fn inject(&mut self, queue: u16, frame: &[u8]) -> bool {
        self.medium.inject(queue, frame)
    }

    fn settle(&mut self) {
        self.medium.settle();
    }

    fn observe(&mut self) -> Vec<Observed> {
        let mut observed = self.medium.observe();
        if !self.steers {
            observed.iter_mut().for_each(|frame| frame.queue = None);
        }
        observed
    }

    fn set_link(&mut self, up: bool) -> bool {
        self.medium.set_link(up)
    }

    fn host_sends(&mut self, frame: &[u8]) -> Option<u16> {
        self.medium.host_sends(frame)
    }

    fn lost_before(&mut self) -> u64 {
        self.medium.lost_before()
    }

    fn lost_behind(&mut self) -> u64 {
        self.medium.lost_behind()
    }

    fn twin(&self) -> Box<dyn Bed> {
        let medium = self.medium.again();
        let promises = Promises {
            interface: Some(medium.interface().to_owned()),
            macs: medium.macs(),
            ..self.promises.clone()
        };
        Box::new(Self { medium, promises, query: self.query, steers: self.steers })
    }
}
