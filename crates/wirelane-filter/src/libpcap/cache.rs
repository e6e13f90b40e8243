//! The cache of the dynamic linker, `/etc/ld.so.cache`: maps names of libraries to files.
//!
//! This is the format of glibc since 2.2 (`elf/dl-cache.h`, `struct cache_file_new`). Other C
//! libraries have no cache.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// The files for `name` in `cache`, in its order.
///
/// The result includes files for other machines, and excludes files for better CPUs only
/// (`glibc-hwcaps`). For a damaged cache, it contains the readable entries.
pub(super) fn files(cache: &[u8], name: &str) -> Vec<PathBuf> {
    // Before glibc 2.32, the older format precedes this one.
    let start = cache.windows(MAGIC.len()).position(|window| window == MAGIC);
    let Some(cache) = start.and_then(|start| cache.get(start..)) else { return Vec::new() };
    let count = number(cache, MAGIC.len()).unwrap_or(0);
    let entries = cache.get(HEADER..).unwrap_or_default().chunks_exact(ENTRY).take(count);
    let files = entries.filter_map(|entry| {
        let for_any_cpu = entry.get(16..24).is_some_and(|hwcap| hwcap == [0; 8]);
        let found = string(cache, number(entry, 4)?)? == name.as_bytes() && for_any_cpu;
        found.then_some(PathBuf::from(OsStr::from_bytes(string(cache, number(entry, 8)?)?)))
    });
    files.collect()
}

const MAGIC: &[u8] = b"glibc-ld.so.cache1.1";

/// The magic, the number of entries, the length of the strings, flags, the offset of extensions,
/// and three unused words.
const HEADER: usize = 48;

/// Flags, the offsets of name and file, an OS version, and the required CPU features.
const ENTRY: usize = 24;

fn number(bytes: &[u8], at: usize) -> Option<usize> {
    let bytes = bytes.get(at..at.checked_add(4)?)?;
    usize::try_from(u32::from_ne_bytes(bytes.try_into().ok()?)).ok()
}

fn string(bytes: &[u8], at: usize) -> Option<&[u8]> {
    bytes.get(at..)?.split(|byte| *byte == 0).next()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A cache with these entries: name, file, required CPU features.
    fn cache(entries: &[(&str, &str, u64)]) -> Vec<u8> {
        let mut strings = Vec::new();
        let mut table = Vec::new();
        let start = HEADER + entries.len() * ENTRY;
        for (name, file, hwcap) in entries {
            let mut push = |text: &str| {
                let at = u32::try_from(start + strings.len()).unwrap();
                strings.extend_from_slice(text.as_bytes());
                strings.push(0);
                at
            };
            let (name, file) = (push(name), push(file));
            for word in [0x0303, name, file, 0] {
                table.extend_from_slice(&u32::to_ne_bytes(word));
            }
            table.extend_from_slice(&hwcap.to_ne_bytes());
        }
        let count = u32::try_from(entries.len()).unwrap();
        let mut cache = [MAGIC, &count.to_ne_bytes()].concat();
        cache.resize(HEADER, 0);
        [cache, table, strings].concat()
    }

    #[test]
    fn files_are_found_by_name() {
        let entries = [
            ("libpcap.so.0.8", "/a/libpcap.so.0.8", 0),
            ("libpcap.so.1", "/fast/libpcap.so.1", 1 << 62),
            ("libpcap.so.1", "/b/libpcap.so.1", 0),
            ("libpcap.so.1", "/c/libpcap.so.1", 0),
        ];
        let cache = cache(&entries);
        let old = [b"ld.so-1.7.0\0\x01\0\0\0".as_slice(), &cache].concat();
        for cache in [cache, old] {
            assert_eq!(
                files(&cache, "libpcap.so.1"),
                ["/b/libpcap.so.1", "/c/libpcap.so.1"].map(PathBuf::from)
            );
            assert!(files(&cache, "libpcap.so").is_empty());
        }
    }

    #[test]
    fn a_damaged_cache_gives_what_is_there() {
        let whole = cache(&[("libpcap.so.1", "/b/libpcap.so.1", 0)]);
        for end in 0..whole.len() {
            let found = files(&whole[..end], "libpcap.so.1");
            assert!(found.len() <= 1, "{end}");
        }
        let mut lying = whole;
        lying[MAGIC.len()..MAGIC.len() + 4].fill(0xff);
        lying[HEADER + 8..HEADER + 12].fill(0xff);
        assert!(files(&lying, "libpcap.so.1").is_empty());
    }
}
