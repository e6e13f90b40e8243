//! The switches of one port of a running forwarder, and their effect on its source.

use std::sync::Arc;

use crate::error::Result;
use crate::frame::{Protocols, SinkGso};
use crate::port::{Control, Switches};

/// Changes segmentation and merging at one port, from any thread.
///
/// When segmentation is turned off at the sink, a source that leaves segmentation to the program (a
/// TAP device) must segment again.
#[derive(Clone)]
pub struct PortSwitches {
    pub(super) switches: Arc<Switches>,
    /// The source of the frames that leave through this port, if any.
    pub(super) source: Option<FrameSource>,
    /// The port sends long frames, so it limits their length itself.
    pub(super) sends_long: bool,
    /// The port itself, if it receives frames that are forwarded.
    pub(super) itself: Option<FrameSource>,
}

/// The source of a route.
#[derive(Clone)]
pub(super) struct FrameSource {
    pub(super) control: Arc<dyn Control>,
    /// The switches of both ends of the route.
    pub(super) ends: [Arc<Switches>; 2],
}

impl FrameSource {
    /// Limits the frames that the source passes on to the limits of both ends.
    fn limit(&self) -> Result<()> {
        let [from, to] = &self.ends;
        self.control.set_max_burst(from.max_burst().min(to.max_burst()))
    }
}

impl PortSwitches {
    /// The current settings.
    pub fn settings(&self) -> &Switches {
        &self.switches
    }

    /// Changes which protocols are segmented before frames leave through the port.
    ///
    /// # Errors
    /// The source has no room for long frames, or the system refuses. Then nothing changes.
    pub fn set_gso(&self, protocols: Protocols) -> Result<()> {
        if let Some(source) = &self.source {
            source.control.set_offload(SinkGso::leaving(protocols))?;
        }
        self.switches.set_gso(protocols);
        Ok(())
    }

    /// Changes which protocols are merged when packets arrive at the port.
    ///
    /// # Errors
    /// The errors of [`Switches::set_gro`].
    pub fn set_gro(&self, protocols: Protocols) -> Result<()> {
        self.switches.set_gro(protocols)
    }

    /// Changes the longest frame that passes the port ([`Switches::set_max_burst`]). A source that
    /// leaves segmentation to the program follows, unless the port sends long frames and limits
    /// them itself.
    ///
    /// # Errors
    /// The source refuses: a TAP device needs CAP_NET_ADMIN for this. Then nothing changes.
    pub fn set_max_burst(&self, bytes: u32) -> Result<()> {
        let before = self.switches.max_burst();
        self.switches.set_max_burst(bytes);
        self.limit_sources().inspect_err(|_| {
            self.switches.set_max_burst(before);
            // Best effort: the first error is the one to report.
            let _ = self.limit_sources();
        })
    }

    fn limit_sources(&self) -> Result<()> {
        let source = self.source.as_ref().filter(|_| !self.sends_long);
        source.into_iter().chain(&self.itself).try_for_each(FrameSource::limit)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::error::Error;
    use crate::mask::QueueMask;
    use crate::sync::lock;

    /// A source that accepts only limits up to `most`.
    struct Stack {
        most: u32,
        limit: Mutex<u32>,
    }

    impl Stack {
        fn new(most: u32) -> Arc<Self> {
            Arc::new(Self { most, limit: Mutex::new(0) })
        }

        fn limit(&self) -> u32 {
            *lock(&self.limit)
        }
    }

    impl Control for Stack {
        fn mask(&self) -> QueueMask {
            QueueMask::ALL
        }

        fn set_mask(&self, _: QueueMask) -> Result<()> {
            Ok(())
        }

        fn set_max_burst(&self, bytes: u32) -> Result<()> {
            if bytes > self.most {
                return Err(Error::usage("stack", "too long"));
            }
            *lock(&self.limit) = bytes;
            Ok(())
        }

        fn stop(&self) {}
    }

    /// The switches of port `own` of a route between two sources, in both directions.
    fn port(own: usize, sources: [&Arc<Stack>; 2], all: [&Arc<Switches>; 2]) -> PortSwitches {
        let source = |control: &Arc<Stack>| {
            Some(FrameSource { control: Arc::clone(control) as _, ends: all.map(Arc::clone) })
        };
        let [source, itself] = [sources[1 - own], sources[own]].map(source);
        PortSwitches { switches: Arc::clone(all[own]), source, sends_long: false, itself }
    }

    #[test]
    fn a_source_follows_the_shorter_limit() {
        let sources = [Stack::new(65_535), Stack::new(65_535)];
        let all = [Arc::<Switches>::default(), Arc::default()];
        let limits = || sources.each_ref().map(|source| source.limit());
        let [first, second] = [0, 1].map(|own| port(own, sources.each_ref(), all.each_ref()));
        first.set_max_burst(9000).unwrap();
        assert_eq!(limits(), [9000, 9000]);
        second.set_max_burst(20_000).unwrap();
        assert_eq!(limits(), [9000, 9000]);
        first.set_max_burst(1 << 20).unwrap();
        assert_eq!((limits(), first.settings().max_burst()), ([20_000, 20_000], 65_535));
        let second = PortSwitches { sends_long: true, ..second };
        second.set_max_burst(1).unwrap();
        assert_eq!((limits(), second.settings().max_burst()), ([20_000, 576], 576));
    }

    #[test]
    fn one_port_may_lengthen_its_frames_again() {
        let (source, switches) = (Stack::new(65_535), Arc::default());
        let one = port(0, [&source, &source], [&switches, &switches]);
        for bytes in [9000, 40_000] {
            one.set_max_burst(bytes).unwrap();
            assert_eq!((source.limit(), switches.max_burst()), (bytes, bytes));
        }
    }

    #[test]
    fn nothing_changes_if_a_source_refuses() {
        let sources = [Stack::new(9000), Stack::new(65_535)];
        let all = [Arc::<Switches>::default(), Arc::default()];
        let first = port(0, sources.each_ref(), all.each_ref());
        first.set_max_burst(9000).unwrap();
        assert!(first.set_max_burst(20_000).is_err());
        assert_eq!(sources.map(|source| source.limit()), [9000, 9000]);
        assert_eq!(first.settings().max_burst(), 9000);
    }
}
