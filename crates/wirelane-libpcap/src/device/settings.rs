//! `WIRELANE_PCAP`: options for programs that have no flags for them.
//!
//! ```text
//! WIRELANE_PCAP=ring=64M,queues=0-3,share=flow:7
//! ```

use std::env;
use std::ffi::OsStr;

use wirelane::QueueSet;
use wirelane::internal::port::parse_number;

/// The variable's name.
pub(crate) const VARIABLE: &str = "WIRELANE_PCAP";

/// Options that the packet port receives unchanged.
const PASSED_ON: [&str; 3] = ["share", "retire", "block"];

/// The parsed variable. All fields except [`DeviceSettings::is_off`] apply to interfaces only.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct DeviceSettings {
    /// The system's libpcap opens all devices.
    pub(super) is_off: bool,
    /// Bytes of all rings of a handle together.
    pub(super) ring: Option<usize>,
    /// The queues that a handle receives from.
    pub(super) queues: Option<QueueSet>,
    /// Options of the packet port.
    pub(super) options: Vec<(String, String)>,
    /// `pcap_findalldevs` also lists Wirelane's devices.
    pub(crate) is_listing: bool,
}

impl DeviceSettings {
    /// Parses the variable's current value.
    ///
    /// # Errors
    /// It has an unknown option or a wrong value.
    pub(crate) fn of_environment() -> Result<Self, String> {
        Self::parse(env::var_os(VARIABLE).as_deref().unwrap_or_default())
    }

    fn parse(text: &OsStr) -> Result<Self, String> {
        let wrong = |what: String| format!("{VARIABLE}: {what}");
        let text = text.to_str().ok_or_else(|| wrong("it is not UTF-8".into()))?;
        let mut settings = Self { is_listing: true, ..Self::default() };
        if text == "off" {
            return Ok(Self { is_off: true, is_listing: false, ..settings });
        }
        for part in parts(text) {
            let (key, value) =
                part.split_once('=').ok_or_else(|| wrong(format!("'{part}' is not key=value")))?;
            match key {
                "ring" => settings.ring = Some(bytes(value).map_err(wrong)?),
                "queues" => {
                    let queues = value.parse::<QueueSet>().map_err(|e| wrong(e.to_string()))?;
                    settings.queues = (queues != QueueSet::All).then_some(queues);
                }
                "list" => settings.is_listing = on_or_off(value).map_err(wrong)?,
                key if PASSED_ON.contains(&key) => {
                    settings.options.push((key.into(), value.into()));
                }
                _ => {
                    let known = "ring, queues, share, retire, block, list";
                    return Err(wrong(format!(
                        "'{key}' is not an option (known: {known}, or off)"
                    )));
                }
            }
        }
        Ok(settings)
    }
}

/// The parts between commas. The commas of a queue list do not separate parts:
/// `queues=0,2-3,ring=1M`.
fn parts(text: &str) -> Vec<String> {
    let mut parts: Vec<String> = Vec::new();
    for piece in text.split(',').map(str::trim).filter(|piece| !piece.is_empty()) {
        let goes_on = piece.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
        match parts.last_mut().filter(|last| goes_on && last.starts_with("queues=")) {
            Some(last) => {
                last.push(',');
                last.push_str(piece);
            }
            None => parts.push(piece.into()),
        }
    }
    parts
}

fn bytes(value: &str) -> Result<usize, String> {
    let bytes = parse_number(value).and_then(|bytes| usize::try_from(bytes).ok());
    let fits = |bytes: &usize| (16 << 10..=64 << 30).contains(bytes);
    bytes.filter(fits).ok_or_else(|| format!("ring={value} is not a size such as 64M, from 16Ki"))
}

fn on_or_off(value: &str) -> Result<bool, String> {
    match value {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err(format!("list={value} is not on or off")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<DeviceSettings, String> {
        DeviceSettings::parse(OsStr::new(text))
    }

    #[test]
    fn every_option() {
        let settings = parse("ring=64Mi,queues=0,2-3,5, share=flow:7,retire=5ms,list=off").unwrap();
        let expected = DeviceSettings {
            is_off: false,
            ring: Some(64 << 20),
            queues: Some([0, 2, 3, 5].into_iter().collect()),
            options: vec![("share".into(), "flow:7".into()), ("retire".into(), "5ms".into())],
            is_listing: false,
        };
        assert_eq!(settings, expected);
    }

    #[test]
    fn nothing_said_is_the_default() {
        let nothing = DeviceSettings { is_listing: true, ..DeviceSettings::default() };
        for text in ["", ",", " ", "queues=all", "list=on"] {
            assert_eq!(parse(text).unwrap(), nothing, "{text:?}");
        }
        assert!(parse("off").unwrap().is_off);
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, cause) in [
            ("ring", "'ring' is not key=value"),
            ("ring=0", "ring=0 is not a size"),
            ("ring=64M,4", "'4' is not key=value"),
            ("queues=x", "'x' is not a queue number"),
            ("list=1", "list=1 is not on or off"),
            ("rings=1M", "'rings' is not an option"),
            ("ring=1M,off", "'off' is not key=value"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.starts_with("WIRELANE_PCAP: ") && error.contains(cause), "{error}");
        }
    }
}
