//! The link header types of a device.

use std::ffi::c_int;
use std::fs;

use wirelane_filter::links::dlt;

/// `DLT_…` of Wirelane's ports.
const EN10MB: c_int = 1;
const RAW: c_int = 12;
const IEEE802_11: c_int = 105;
const IEEE802_11_RADIO: c_int = 127;
const DOCSIS: c_int = 143;

/// The current type, and the other choices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LinkTypes {
    pub(crate) current: c_int,
    /// The list of `pcap_list_datalinks`; empty if there is no choice.
    pub(crate) choice: Vec<c_int>,
}

impl LinkTypes {
    /// Of an interface of type `hardware` (`ARPHRD_…`). `None` if Wirelane's frames differ from
    /// libpcap's: libpcap removes their header ("cooked"), or they have a switch's tag.
    pub(crate) fn of_interface(name: &str, hardware: u16) -> Option<Self> {
        // ISDN devices have Ethernet's type, but other headers.
        let foreign = ["cdma_rmnet", "isdn", "isdY"];
        let only = |current| Some(Self { current, choice: Vec::new() });
        match hardware {
            ETHER if foreign.iter().any(|other| name.starts_with(other)) => None,
            ETHER if is_wireless(name) => only(EN10MB),
            ETHER if has_switch_tag(name) => None,
            ETHER => Some(Self { current: EN10MB, choice: vec![EN10MB, DOCSIS] }),
            LOOPBACK => only(EN10MB),
            NONE | TUNNEL | SIT => only(RAW),
            WIRELESS => only(IEEE802_11),
            RADIOTAP => only(IEEE802_11_RADIO),
            _ => None,
        }
    }

    /// Of frames with a link type of capture files.
    pub(crate) fn of_link_type(link_type: u16) -> Self {
        Self { current: dlt(link_type), choice: Vec::new() }
    }

    /// Makes `link` the current type, and returns whether it is one of the choices.
    pub(crate) fn choose(&mut self, link: c_int) -> bool {
        let can = link == self.current || self.choice.contains(&link);
        if can {
            self.current = link;
        }
        can
    }

    /// The choices, with at least the current type.
    pub(crate) fn list(&self) -> Vec<c_int> {
        if self.choice.is_empty() { vec![self.current] } else { self.choice.clone() }
    }
}

/// `ARPHRD_…` of `linux/if_arp.h`.
const ETHER: u16 = 1;
const LOOPBACK: u16 = 772;
const NONE: u16 = 65534;
const TUNNEL: u16 = 768;
const SIT: u16 = 776;
const WIRELESS: u16 = 801;
const RADIOTAP: u16 = 803;

fn is_wireless(name: &str) -> bool {
    fs::exists(format!("/sys/class/net/{name}/wireless")).unwrap_or(false)
}

/// Whether it leads to a switch's ports, so that its frames have the switch's tag (DSA).
fn has_switch_tag(name: &str) -> bool {
    let tagging = fs::read_to_string(format!("/sys/class/net/{name}/dsa/tagging"));
    tagging.is_ok_and(|tag| tag.trim_end() != "none")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ethernet_may_be_docsis_and_others_have_no_choice() {
        let mut links = LinkTypes::of_interface("eth0", ETHER).unwrap();
        assert_eq!(links.list(), [EN10MB, DOCSIS]);
        assert!(links.choose(DOCSIS) && !links.choose(RAW) && links.current == DOCSIS);
        assert_eq!(LinkTypes::of_interface("lo", LOOPBACK).unwrap().list(), [EN10MB]);
        assert_eq!(LinkTypes::of_interface("tun0", NONE).unwrap().current, RAW);
        for (name, hardware) in
            [("ppp0", 512), ("isdn0", ETHER), ("can0", 280), ("cdma_rmnet1", ETHER)]
        {
            assert_eq!(LinkTypes::of_interface(name, hardware), None, "{name}");
        }
        assert_eq!(LinkTypes::of_link_type(101).current, RAW);
    }
}
