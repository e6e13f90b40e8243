//! Reads the kernel's BPF Type Format, as far as needed to call one of its functions.
//!
//! ```text
//!   header │ types: 12 bytes each, and by kind some more │ strings, each ended by a zero
//! ```
//!
//! A program calls a kernel function by its BTF type ID, which differs between builds
//! (`Documentation/bpf/btf.rst`, `Documentation/bpf/kfuncs.rst`).

use crate::error::{OsError, Result};

/// The type ID of the kernel function `name`; `None` if the kernel's BTF does not contain it.
///
/// # Errors
/// The BTF cannot be read, or has an unknown form (`EBADMSG`). It does not exist (`ENOENT`) on a
/// kernel without `CONFIG_DEBUG_INFO_BTF`, and where no sysfs is mounted.
pub fn kernel_function(name: &str) -> Result<Option<u32>> {
    let bytes = std::fs::read(KERNEL).map_err(|error| OsError::new("read", KERNEL, error))?;
    find(&bytes, name).ok_or_else(|| OsError::from_errno("read", KERNEL, libc::EBADMSG))
}

/// Finds a function; `None` if `bytes` are malformed.
fn find(bytes: &[u8], name: &str) -> Option<Option<u32>> {
    let word = |at: usize| Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?));
    let place = |at: usize| usize::try_from(word(at)?).ok();
    // struct btf_header: magic, version, flags; length of the header; offsets and lengths of types
    // and strings, relative to the end of the header.
    if u16::from_ne_bytes(*bytes.first_chunk()?) != MAGIC || *bytes.get(2)? != 1 {
        return None;
    }
    let header = place(4)?;
    let part = |at: usize| {
        let start = header.checked_add(place(at)?)?;
        bytes.get(start..start.checked_add(place(at + 4)?)?)
    };
    let (mut types, strings) = (part(8)?, part(16)?);
    // Type 0 is `void`, which is not in the list.
    let mut number = 1;
    while let Some((kind, rest)) = types.split_first_chunk::<12>() {
        let info = u32::from_ne_bytes(*kind[4..].first_chunk()?);
        let (kind_of, count) = (info >> 24 & 0x1f, (info & 0xffff) as usize);
        let label = u32::from_ne_bytes(*kind.first_chunk()?) as usize;
        if kind_of == FUNC && is_called(strings, label, name) {
            return Some(Some(number));
        }
        types = rest.get(extra(kind_of, count)?..)?;
        number += 1;
    }
    types.is_empty().then_some(None)
}

/// Whether the string at offset `label` is `name`.
fn is_called(strings: &[u8], label: usize, name: &str) -> bool {
    let rest = strings.get(label..).and_then(|rest| rest.strip_prefix(name.as_bytes()));
    rest.is_some_and(|rest| rest.first() == Some(&0))
}

/// Bytes that follow the first 12 of a type; `None` for an unknown kind.
fn extra(kind: u32, count: usize) -> Option<usize> {
    Some(match kind {
        // BTF_KIND_INT, VAR, DECL_TAG
        1 | 14 | 17 => 4,
        // ARRAY
        3 => 12,
        // STRUCT, UNION, DATASEC, ENUM64
        4 | 5 | 15 | 19 => 12 * count,
        // ENUM, FUNC_PROTO
        6 | 13 => 8 * count,
        // PTR, FWD, TYPEDEF, VOLATILE, CONST, RESTRICT, FUNC, FLOAT, TYPE_TAG
        2 | 7..=12 | 16 | 18 => 0,
        _ => return None,
    })
}

/// The kernel's BTF; Linux 5.4.
const KERNEL: &str = "/sys/kernel/btf/vmlinux";
const MAGIC: u16 = 0xeb9f;
const FUNC: u32 = 12;

#[cfg(test)]
mod tests {
    use super::*;

    /// BTF with these types: name offset, kind, count, and the words that follow.
    fn describe(types: &[(u32, u32, u32, &[u32])], strings: &[u8]) -> Vec<u8> {
        let mut list = Vec::new();
        for (label, kind, count, more) in types {
            let words = [*label, kind << 24 | count, 0];
            list.extend(words.iter().chain(*more).flat_map(|word| word.to_ne_bytes()));
        }
        let mut bytes = MAGIC.to_ne_bytes().to_vec();
        bytes.extend([1, 0]);
        let words = [24, 0, list.len() as u32, list.len() as u32, strings.len() as u32];
        bytes.extend(words.iter().flat_map(|word| word.to_ne_bytes()));
        bytes.extend(list);
        bytes.extend(strings);
        bytes
    }

    #[test]
    fn a_function_among_types_of_every_length() {
        let types: &[(u32, u32, u32, &[u32])] = &[
            (1, 1, 0, &[32]),
            (1, 4, 2, &[0; 6]),
            (5, 13, 1, &[0; 2]),
            // A type of this name that is no function.
            (5, 8, 0, &[]),
            (9, FUNC, 1, &[]),
            (5, FUNC, 1, &[]),
        ];
        let bytes = describe(types, b"\0int\0run\0runs\0");
        assert_eq!(find(&bytes, "run"), Some(Some(6)));
        assert_eq!(find(&bytes, "runs"), Some(Some(5)));
        assert_eq!(find(&bytes, "ru"), Some(None));
    }

    #[test]
    fn what_is_no_description_is_refused() {
        let whole = describe(&[(1, FUNC, 0, &[]), (1, 4, 1, &[0; 3])], b"\0a\0");
        for len in 0..whole.len() {
            assert_eq!(find(&whole[..len], "b"), None, "{len}");
        }
        assert_eq!(find(&describe(&[(1, 31, 0, &[])], b"\0a\0"), "b"), None);
        assert_eq!(find(&describe(&[(99, FUNC, 0, &[])], b"\0a\0"), "a"), Some(None));
    }

    #[test]
    fn this_kernel_describes_itself_or_not() {
        // If the kernel has BTF, it contains this function.
        if !std::path::Path::new(KERNEL).exists() {
            assert_eq!(kernel_function("bpf_prog_put").unwrap_err().errno(), Some(libc::ENOENT));
            return;
        }
        assert!(kernel_function("bpf_prog_put").unwrap().is_some());
        assert_eq!(kernel_function("no_such_function").unwrap(), None);
    }
}
