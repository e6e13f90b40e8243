//! Addresses of collectors: `udp://HOST:PORT` or `tcp://HOST:PORT`, with options after a `?`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use wirelane::{Error, Result};

/// The address and options of a collector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Collector {
    /// The transport protocol.
    pub transport: Transport,
    /// A name or an address; an IPv6 address without brackets.
    pub host: String,
    /// The port; 4739 by default.
    pub port: u16,
    /// `domain=N`: the observation domain, which distinguishes exporters of one host.
    pub domain: u32,
    /// `enterprise=N`: the enterprise number of private elements. Without it, the exporter sends
    /// none.
    pub enterprise: Option<u32>,
    /// `oneway`: send a two-way flow as two records, for collectors without RFC 5103.
    pub one_way: bool,
    /// `refresh=SECONDS`: the interval at which templates are sent again over UDP.
    pub refresh: Duration,
}

/// The transport protocol of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// Each message is a datagram. Loss on the way is not detected.
    Udp,
    /// A stream of messages.
    Tcp,
}

/// The IANA port of IPFIX.
const PORT: u16 = 4739;

/// The default template refresh, a usual value for nfcapd and pmacct.
const REFRESH: Duration = Duration::from_secs(60);

impl FromStr for Collector {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::read(text).map_err(|cause| Error::usage("collector", cause))
    }
}

impl Collector {
    fn read(text: &str) -> Result<Self, String> {
        let (transport, rest) = text
            .split_once("://")
            .and_then(|(scheme, rest)| Some((Transport::of(scheme)?, rest)))
            .ok_or("a collector is udp://HOST:PORT or tcp://HOST:PORT")?;
        let (place, options) = rest.split_once('?').unwrap_or((rest, ""));
        let (host, port) = split_place(place)?;
        let mut collector = Self {
            transport,
            host: host.to_owned(),
            port,
            domain: 0,
            enterprise: None,
            one_way: false,
            refresh: REFRESH,
        };
        for option in options.split('&').filter(|it| !it.is_empty()) {
            collector.set(option)?;
        }
        Ok(collector)
    }

    fn set(&mut self, option: &str) -> Result<(), String> {
        let (name, value) = option.split_once('=').unwrap_or((option, ""));
        let number =
            || value.parse::<u32>().map_err(|_| format!("{name} takes a number, not '{value}'"));
        match name {
            "domain" => self.domain = number()?,
            "enterprise" => self.enterprise = Some(number()?),
            "oneway" if value.is_empty() => self.one_way = true,
            "refresh" => self.refresh = Duration::from_secs(number()?.max(1).into()),
            _ => {
                return Err(format!(
                    "'{option}' is no option of a collector; there are domain=N, enterprise=N, \
                     oneway and refresh=SECONDS"
                ));
            }
        }
        Ok(())
    }
}

impl fmt::Display for Collector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = match self.transport {
            Transport::Udp => "udp",
            Transport::Tcp => "tcp",
        };
        if self.host.contains(':') {
            write!(f, "{scheme}://[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{scheme}://{}:{}", self.host, self.port)
        }
    }
}

impl Transport {
    fn of(scheme: &str) -> Option<Self> {
        match scheme {
            "udp" => Some(Self::Udp),
            "tcp" => Some(Self::Tcp),
            _ => None,
        }
    }
}

fn split_place(place: &str) -> Result<(&str, u16), String> {
    let bracketed = place.strip_prefix('[').and_then(|rest| rest.split_once(']'));
    let (host, port) = match bracketed {
        Some((host, rest)) => (host, rest.strip_prefix(':')),
        None => match place.split_once(':') {
            Some((_, rest)) if rest.contains(':') => {
                return Err(format!("write an IPv6 address in brackets: [{place}]:{PORT}"));
            }
            Some((host, port)) => (host, Some(port)),
            None => (place, None),
        },
    };
    if host.is_empty() {
        return Err("a collector needs a host".to_owned());
    }
    let port = match port {
        None => PORT,
        Some(text) => text
            .parse::<u16>()
            .ok()
            .filter(|port| *port > 0)
            .ok_or_else(|| format!("'{text}' is no port"))?,
    };
    Ok((host, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parse() {
        let it: Collector = "udp://nms.example".parse().unwrap();
        assert_eq!(
            (it.transport, it.host.as_str(), it.port),
            (Transport::Udp, "nms.example", 4739)
        );
        assert_eq!((it.domain, it.enterprise, it.one_way), (0, None, false));
        let it: Collector =
            "tcp://[2001:db8::1]:99?domain=7&enterprise=5&oneway&refresh=9".parse().unwrap();
        assert_eq!((it.host.as_str(), it.port, it.domain), ("2001:db8::1", 99, 7));
        assert_eq!((it.enterprise, it.one_way, it.refresh.as_secs()), (Some(5), true, 9));
        assert_eq!(it.to_string(), "tcp://[2001:db8::1]:99");
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (text, word) in [
            ("nms:4739", "udp://HOST:PORT"),
            ("sctp://nms", "udp://HOST:PORT"),
            ("udp://", "needs a host"),
            ("udp://2001:db8::1", "brackets"),
            ("udp://nms:0", "no port"),
            ("udp://nms:x", "no port"),
            ("udp://nms?domain=x", "takes a number"),
            ("udp://nms?colour=red", "no option"),
        ] {
            let error = text.parse::<Collector>().unwrap_err();
            assert!(error.to_string().contains(word), "{text}: {error}");
        }
    }
}
