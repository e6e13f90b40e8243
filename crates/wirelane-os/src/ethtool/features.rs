//! The features of an interface (`ethtool -k`), by the kernel's names.

use std::collections::BTreeMap;
use std::mem::size_of;

use super::Ethtool;
use super::request::{RequestBuffer, text, word};
use crate::error::{OsError, Result};

impl Ethtool {
    /// Every feature of this kernel by its name, e.g. `tx-udp-segmentation`, and whether the
    /// interface has it on. `None` for a kernel or device without features.
    ///
    /// # Errors
    /// The error of the kernel, except `EOPNOTSUPP`.
    pub fn features(&self) -> Result<Option<BTreeMap<String, bool>>> {
        let Some(names) = self.feature_names()? else { return Ok(None) };
        let blocks = names.len().div_ceil(32);
        let mut request =
            RequestBuffer::new(ETHTOOL_GFEATURES, HEADER + blocks * size_of::<UapiGet>());
        request.set(COUNT, blocks as u32);
        if !self.ask("ioctl ETHTOOL_GFEATURES", &mut request)? {
            return Ok(None);
        }
        let bytes = request.bytes();
        let active = |bit: usize| {
            let offset = HEADER + bit / 32 * size_of::<UapiGet>() + ACTIVE;
            word(&bytes, offset).is_some_and(|word| word & 1 << (bit % 32) != 0)
        };
        let features = names.into_iter().enumerate().filter(|(_, name)| !name.is_empty());
        Ok(Some(features.map(|(bit, name)| (name, active(bit))).collect()))
    }

    /// Switches features on or off in one step. Names that this kernel does not know are ignored.
    /// Read the result with [`Self::features`]: some features depend on others, and some are fixed.
    ///
    /// # Errors
    /// `EPERM` without CAP_NET_ADMIN, `EOPNOTSUPP` for a kernel or device without features.
    pub fn set_features(&self, changes: &[(&str, bool)]) -> Result<()> {
        const CALL: &str = "ioctl ETHTOOL_SFEATURES";
        let missing = || OsError::from_errno(CALL, self.name.as_str(), libc::EOPNOTSUPP);
        let names = self.feature_names()?.ok_or_else(missing)?;
        let blocks = names.len().div_ceil(32);
        let mut words = vec![[0_u32; 2]; blocks];
        for (name, on) in changes {
            let Some(bit) = names.iter().position(|known| known == name) else { continue };
            if let Some([valid, requested]) = words.get_mut(bit / 32) {
                *valid |= 1 << (bit % 32);
                *requested |= u32::from(*on) << (bit % 32);
            }
        }
        let mut request =
            RequestBuffer::new(ETHTOOL_SFEATURES, HEADER + blocks * size_of::<UapiSet>());
        request.set(COUNT, blocks as u32);
        for (index, word) in words.into_iter().flatten().enumerate() {
            request.set(HEADER + index * 4, word);
        }
        if self.ask(CALL, &mut request)? { Ok(()) } else { Err(missing()) }
    }

    /// The names of all features, in the order of their bits; empty for a bit without a name.
    fn feature_names(&self) -> Result<Option<Vec<String>>> {
        // struct ethtool_sset_info: command, reserved, the requested sets (64 bits), then a count
        // for each of them.
        let mut sizes = RequestBuffer::new(ETHTOOL_GSSET_INFO, 20);
        sizes.set(8, (1_u64 << ETH_SS_FEATURES) as u32);
        if !self.ask("ioctl ETHTOOL_GSSET_INFO", &mut sizes)? {
            return Ok(None);
        }
        let bytes = sizes.bytes();
        // The kernel clears the bit of an unsupported set.
        let known = word(&bytes, 8).is_some_and(|sets| sets != 0);
        let count = word(&bytes, 16).filter(|count| known && (1..=MOST).contains(count));
        let Some(count) = count else { return Ok(None) };
        // struct ethtool_gstrings: command, set, count, strings of 32 bytes.
        let mut strings =
            RequestBuffer::new(ETHTOOL_GSTRINGS, 12 + count as usize * ETH_GSTRING_LEN);
        strings.set(4, ETH_SS_FEATURES);
        strings.set(8, count);
        if !self.ask("ioctl ETHTOOL_GSTRINGS", &mut strings)? {
            return Ok(None);
        }
        let bytes = strings.bytes();
        let name = |index: usize| text(&bytes, 12 + index * ETH_GSTRING_LEN, ETH_GSTRING_LEN);
        Ok(Some((0..count as usize).map(|index| name(index).unwrap_or_default()).collect()))
    }
}

// Requests and structures of include/uapi/linux/ethtool.h.
const ETHTOOL_GSTRINGS: u32 = 0x1b;
const ETHTOOL_GSSET_INFO: u32 = 0x37;
const ETHTOOL_GFEATURES: u32 = 0x3a;
const ETHTOOL_SFEATURES: u32 = 0x3b;
const ETH_SS_FEATURES: u32 = 4;
const ETH_GSTRING_LEN: usize = 32;
/// More features than any kernel has; bounds allocations for a broken kernel.
const MOST: u32 = 1024;
/// `struct ethtool_gfeatures` and `ethtool_sfeatures` begin with the command and the number of
/// blocks of 32 features.
const HEADER: usize = 8;
const COUNT: usize = 4;
/// Offset of the active features in a block of the answer.
const ACTIVE: usize = 8;

/// `struct ethtool_get_features_block`: available, requested, active, never changed.
type UapiGet = [u32; 4];
/// `struct ethtool_set_features_block`: valid, requested.
type UapiSet = [u32; 2];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{link, netns, testing};
    use std::os::fd::AsFd;

    #[test]
    fn privileged_features_are_read_and_set_by_name() {
        testing::in_new_namespace(|| {
            let here = netns::current().unwrap();
            let end = |name, mac| link::VethEnd { name, namespace: here.as_fd(), mac };
            let ends = [end("wl-f", [2, 0, 0, 0, 0, 1]), end("wl-g", [2, 0, 0, 0, 0, 2])];
            link::create_veth(ends, 1, 1500).unwrap();
            let ethtool = Ethtool::open("wl-f").unwrap();
            let names = ["tx-tcp-segmentation", "tx-udp-segmentation", "rx-gro"];
            let now = || names.map(|name| ethtool.features().unwrap().unwrap().get(name).copied());
            let before = now();
            assert_eq!(before, [Some(true), Some(true), Some(false)]);
            ethtool
                .set_features(&[(names[0], false), (names[2], true), ("no such feature", true)])
                .unwrap();
            assert_eq!(now(), [Some(false), Some(true), Some(true)]);
            ethtool.set_features(&[(names[1], false)]).unwrap();
            assert_eq!(now(), [Some(false), Some(false), Some(true)]);
            assert_eq!(ethtool.offloads().unwrap().gro, Some(true), "the older request agrees");
            let other = Ethtool::open("wl-g").unwrap().features().unwrap().unwrap();
            assert_eq!(names.map(|name| other.get(name).copied()), before);
            let none = Ethtool::open("wl-none").unwrap();
            assert_eq!(none.features().unwrap_err().errno(), Some(libc::ENODEV));
        });
    }
}
