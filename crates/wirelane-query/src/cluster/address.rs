//! The address of a scheduler: `df://HOST:PORT`.

use std::fmt;
use std::str::FromStr;

use url::Url;

/// Default port of a scheduler.
const PORT: u16 = 50050;

/// A scheduler's address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SchedulerAddress {
    /// A name or an IP address; IPv6 in brackets.
    pub(crate) host: String,
    pub(crate) port: u16,
}

impl FromStr for SchedulerAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let url = Url::parse(text).ok().filter(|url| url.scheme() == "df");
        let is_bare = |url: &Url| matches!(url.path(), "" | "/") && url.query().is_none();
        url.filter(is_bare)
            .and_then(|url| {
                let host = url.host_str().filter(|host| !host.is_empty())?.to_owned();
                Some(Self { host, port: url.port().unwrap_or(PORT) })
            })
            .ok_or_else(|| format!("{text} is no scheduler; write df://HOST:PORT"))
    }
}

impl fmt::Display for SchedulerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "df://{}:{}", self.host, self.port)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedulers_have_a_host_and_a_port() {
        for (text, host, port) in [
            ("df://a.example:7", "a.example", 7),
            ("df://10.0.0.1", "10.0.0.1", PORT),
            ("df://[::1]:9/", "[::1]", 9),
        ] {
            assert_eq!(text.parse(), Ok(SchedulerAddress { host: host.to_owned(), port }));
        }
        for text in ["a:7", "http://a:7", "df://", "df://a:7/x", "df://a:99999"] {
            let error = text.parse::<SchedulerAddress>().unwrap_err();
            assert!(error.starts_with(text), "{error}");
        }
    }
}
