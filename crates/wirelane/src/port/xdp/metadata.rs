//! Metadata to request from the driver for received packets: stripped tags, hashes and times. And
//! the reports if the driver does not provide them.

use wirelane_os::OsError;

use super::config::AutoSwitch;
use super::hints::HintRequest;
use super::mode::Mode;
use super::plan::XdpPlan;
use super::program::Attachment;
use super::tags::Tags;
use crate::error::{Error, Result};
use crate::port::info::PortMode;

impl XdpPlan {
    /// Whether it is an error if the driver provides no metadata.
    pub(super) fn must_ask(&self) -> bool {
        let config = &self.config;
        [config.tags, config.rx_hash, config.rx_timestamps].contains(&AutoSwitch::On)
            || self.must_keep_tags()
    }

    /// Whether stripped tags must be restored although the user did not set `tags=on`.
    fn must_keep_tags(&self) -> bool {
        self.intact && self.config.tags == AutoSwitch::Auto && self.strips_tags()
    }

    /// How to restore VLAN tags, if wanted and possible.
    ///
    /// # Errors
    /// Tags are required, but cannot be restored.
    pub(super) fn tags(&self, mode: Mode) -> Result<Option<Tags>> {
        let must = self.config.tags == AutoSwitch::On;
        if !self.receive || !must && (self.config.tags == AutoSwitch::Off || !self.strips_tags()) {
            return Ok(None);
        }
        let tags = match self.offers.tells_tags(mode) {
            true => Tags::find(),
            false => Ok(None),
        };
        match tags {
            Err(error) if must || self.must_keep_tags() => {
                Err(self.undescribed("VLAN tags", error))
            }
            Ok(None) if must => {
                let cause = format!(
                    "tags=on is impossible: {} does not report VLAN tags in {} mode",
                    self.driver(),
                    mode.as_str()
                );
                let help = "remove tags=on; `ethtool -K IF rxvlan off` keeps the driver from \
                            removing tags";
                Err(Error::failed(self.device.name.as_str(), cause).help(help))
            }
            Ok(None) if self.must_keep_tags() => {
                // Without a named mode, this is the first of several modes; the others are not
                // better here.
                let named = self.config.mode.map(|mode| format!(" in {} mode", mode.as_str()));
                let named = named.unwrap_or_default();
                let cause = format!("{} would lose VLAN tags{named}", self.driver());
                let (fix, name) = (self.leaves_tags_in(), &self.device.name);
                // A better mode is suggested only if the user has excluded it.
                let native =
                    if self.config.mode == Some(Mode::Generic) { "mode=native or " } else { "" };
                let help = match self.is_veth() {
                    true => {
                        format!(
                            "use {native}packet:{name}, or `ethtool -K PEER txvlan off` and tags=off"
                        )
                    }
                    false => format!(
                        "{fix} keeps them in packets; packet:{name} restores them; tags=off \
                         declares that there are none"
                    ),
                };
                Err(Error::failed(name.as_str(), cause).help(help))
            }
            tags => Ok(tags.unwrap_or_default()),
        }
    }

    /// How to request hashes and times, if wanted and possible.
    ///
    /// # Errors
    /// Something required is impossible.
    pub(super) fn hints(&self, mode: Mode) -> Result<HintRequest> {
        let (hash, time) = (self.config.rx_hash, self.config.rx_timestamps);
        if !self.receive || (hash, time) == (AutoSwitch::Off, AutoSwitch::Off) {
            return Ok(HintRequest::default());
        }
        let told = [self.offers.tells_hashes(mode), self.offers.tells_times(mode)];
        let asked = HintRequest::find(
            hash != AutoSwitch::Off && told[0],
            time != AutoSwitch::Off && told[1],
        );
        let must = hash == AutoSwitch::On || time == AutoSwitch::On;
        let asked = match asked {
            Err(error) if must => return Err(self.undescribed("what it knows of packets", error)),
            asked => asked.unwrap_or_default(),
        };
        let missing = [
            (hash, asked.hash(), told[0], HASHES, "rx_hash"),
            (time, asked.time(), told[1], TIMES, "rx_timestamps"),
        ];
        match missing.iter().find(|(wish, had, ..)| *wish == AutoSwitch::On && !had) {
            Some((.., told, what, option)) => {
                let why = match told {
                    true => "this kernel cannot report it".into(),
                    false => self.tells_none(mode),
                };
                let cause =
                    format!("{option}=on is impossible, received packets have no {what}: {why}");
                let help = format!("remove it, or use {option}=auto");
                Err(Error::failed(self.device.name.as_str(), cause).help(help))
            }
            None => Ok(asked),
        }
    }

    /// The error if the kernel's BTF, which requests need, cannot be read.
    fn undescribed(&self, what: &str, error: OsError) -> Error {
        let name = self.device.name.as_str();
        let cause = format!("cannot find out how to ask {} for {what}: {error}", self.driver());
        let remedy = Error::os(name, error);
        let fix = remedy.next_step().unwrap_or("it takes a kernel with CONFIG_DEBUG_INFO_BTF");
        let help = format!("{fix}; packet:{name} needs none of it");
        let told = Error::failed(name, cause).help(help);
        match remedy.into_source() {
            Some(source) => told.caused_by(source),
            None => told,
        }
    }

    /// Notes on missing metadata of received packets.
    pub(super) fn missing(
        &self,
        mode: Mode,
        actual: PortMode,
        attachment: &Attachment,
    ) -> Vec<String> {
        let mut notes = Vec::new();
        let unread = || match mode {
            Mode::Generic => None,
            Mode::ZeroCopy | Mode::Native => Tags::find().err(),
        };
        if self.strips_tags() && !attachment.restores_tags() {
            let why = unread().map_or_else(String::new, |error| format!(" ({error})"));
            notes.push(format!("{}{why}", self.lost_tags(actual)));
        }
        let hints = attachment.hints();
        for (wish, had, what, option) in [
            (self.config.rx_hash, hints.hash(), HASHES, "rx_hash"),
            (self.config.rx_timestamps, hints.time(), TIMES, "rx_timestamps"),
        ] {
            if wish == AutoSwitch::Auto && !had {
                let why = unread().map_or_else(|| self.tells_none(mode), |error| error.to_string());
                notes.push(format!("received packets have no {what} ({option}=auto): {why}"));
            }
        }
        notes
    }

    /// Whether packets may lack the VLAN tags that they had on the wire.
    fn strips_tags(&self) -> bool {
        // For a veth, the sender (its other end) decides whether the tag is outside of the packet
        // (veth_xmit).
        self.is_veth() || self.device.offloads.rx_vlan == Some(true)
    }

    fn lost_tags(&self, mode: PortMode) -> String {
        let (driver, fix) = (self.driver(), self.leaves_tags_in());
        format!(
            "VLAN tags that {driver} removes from packets are lost in {mode} mode: {fix} keeps \
             them in packets"
        )
    }

    /// A command that keeps tags in packets.
    fn leaves_tags_in(&self) -> String {
        match self.is_veth() {
            true => "`ethtool -K PEER txvlan off` at its other end".to_owned(),
            false => format!("`ethtool -K {} rxvlan off`", self.device.name),
        }
    }

    fn is_veth(&self) -> bool {
        self.device.hardware.as_deref() == Some("veth")
    }

    fn tells_none(&self, mode: Mode) -> String {
        let (driver, mode) = (self.driver(), mode.as_str());
        format!("{driver} does not report it in {mode} mode on this kernel")
    }

    fn driver(&self) -> &str {
        self.device.hardware.as_deref().unwrap_or("the driver")
    }
}

const HASHES: &str = "hashes";
const TIMES: &str = "times of the hardware";
