//! The options of a TAP port.

use wirelane_os::tun::MAX_QUEUES;

use crate::error::{Error, Result};
use crate::port::Spec;
use crate::port::number::parse_number;

/// Frames per queue and direction. As many as the device queues (`txqueuelen` 1000) would be 64 MiB
/// with segmentation offload, and a consumer that far behind drops packets anyway.
pub(super) const FRAMES: u32 = 256;

/// The options of a spec.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Config {
    queues: Option<u16>,
    pub(super) mtu: Option<u32>,
    pub(super) persist: bool,
    /// Frames per queue and direction; `None` means the default.
    pub(super) frames: Option<u32>,
}

impl Config {
    /// Reads the options `queues`, `mtu`, `persist` and `frames`.
    ///
    /// # Errors
    /// An unknown option, or a value of the wrong form.
    pub(super) fn parse(spec: &Spec) -> Result<Self> {
        let mut options = spec.options();
        let queues = options.value("queues", None, "a number from 1 to 256", |text| {
            let count = text.parse::<u16>().ok()?;
            (1..=MAX_QUEUES).contains(&usize::from(count)).then_some(Some(count))
        })?;
        let mtu = options.value("mtu", None, "a number of bytes from 68 to 65521", |text| {
            let mtu = text.parse::<u32>().ok()?;
            (68..=65_521).contains(&mtu).then_some(Some(mtu))
        })?;
        let persist = options.value("persist", false, "on or off", |text| match text {
            "on" => Some(true),
            "off" => Some(false),
            _ => None,
        })?;
        let frames = options.value("frames", None, "a number from 2 to 64k", |text| {
            let frames = u32::try_from(parse_number(text)?).ok();
            frames.filter(|frames| (2..=65_536).contains(frames)).map(Some)
        })?;
        options.finish()?;
        Ok(Self { queues, mtu, persist, frames })
    }

    /// The number of queues to open: `queues=`, or up to the largest of `@QUEUES`, or one.
    ///
    /// # Errors
    /// `@QUEUES` is empty, or names a queue beyond `queues=`.
    pub(super) fn queues(&self, spec: &Spec) -> Result<u16> {
        let object = || format!("port '{spec}'");
        let Some(named) = &spec.queues else { return Ok(self.queues.unwrap_or(1)) };
        if named.is_empty() {
            return Err(Error::usage(object(), "it names no queue"));
        }
        // All queues, if the set has no maximum.
        let needed = named.largest().map_or(1, |largest| largest + 1);
        let most = self.queues.map_or(MAX_QUEUES, usize::from);
        if needed > most {
            let cause = format!("there is no queue {}: it has {most}", needed - 1);
            return Err(Error::usage(object(), cause));
        }
        Ok(self.queues.unwrap_or(u16::try_from(needed).unwrap_or(u16::MAX)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queues(text: &str) -> Result<u16> {
        let spec: Spec = text.parse()?;
        Config::parse(&spec)?.queues(&spec)
    }

    #[test]
    fn as_many_queues_as_are_named() {
        for (text, count) in [
            ("tap:t", 1),
            ("tap:t@0-3", 4),
            ("tap:t@2", 3),
            ("tap:t?queues=8", 8),
            ("tap:t@1?queues=4", 4),
        ] {
            assert_eq!(queues(text).unwrap(), count, "{text}");
        }
    }

    #[test]
    fn what_cannot_be_is_refused() {
        for text in [
            "tap:t@256",
            "tap:t@4?queues=4",
            "tap:t?queues=0",
            "tap:t?queues=257",
            "tap:t?mtu=67",
            "tap:t?mtu=65522",
            "tap:t?persist=yes",
            "tap:t?frames=1",
            "tap:t?rate=max",
        ] {
            assert_eq!(queues(text).unwrap_err().kind(), crate::ErrorKind::Usage, "{text}");
        }
    }
}
