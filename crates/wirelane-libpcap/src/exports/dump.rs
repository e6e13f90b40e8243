//! Writes savefiles. A dumper is a `FILE *`, as in libpcap; the error texts are libpcap's.
//!
//! This code does not call the real library, so captures can be written on systems without one.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_char, c_int, c_long};
use std::io;
use std::mem::MaybeUninit;
use std::ptr::{self, NonNull};

use libc::FILE;
use wirelane_filter::links::link_type;

use super::facts::HandleProperties;
use super::guard;
use crate::abi::{Dumper, PacketHeader, status, timestamp};
use crate::handle::PcapHandle;

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn pcap_dump_open(
    handle: *mut PcapHandle,
    path: *const c_char,
) -> *mut Dumper {
    // SAFETY: the contract of pcap_dump_open(3): a handle, and a string.
    unsafe {
        dumper(handle, |handle| {
            if HandleProperties::of(handle).is_none() {
                let name = name(path).unwrap_or_else(|| b"(null)".to_vec());
                return Err(text(&name, "not-yet-activated pcap_t passed to pcap_dump_open"));
            }
            let header = FileHeader::of(handle, &name(path).unwrap_or_default())?;
            let path = given(path)?;
            if is_standard_output(path) {
                return header.write(stdout, b"standard output");
            }
            let file = open(path, c"wb")?;
            header.write(file, path.to_bytes()).inspect_err(|_| close(file))
        })
    }
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn pcap_dump_fopen(
    handle: *mut PcapHandle,
    file: *mut FILE,
) -> *mut Dumper {
    // SAFETY: the contract of pcap_dump_open(3): a handle, and a stream, which stays the caller's
    // if this fails because of the handle.
    unsafe {
        dumper(handle, |handle| {
            let header = FileHeader::of(handle, b"stream")?;
            header.write(file, b"stream").inspect_err(|_| close(file))
        })
    }
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn pcap_dump_open_append(
    handle: *mut PcapHandle,
    path: *const c_char,
) -> *mut Dumper {
    // SAFETY: as in `pcap_dump_open`.
    unsafe {
        dumper(handle, |handle| {
            let header = FileHeader::of(handle, &name(path).unwrap_or_default())?;
            let path = given(path)?;
            if is_standard_output(path) {
                return header.write(stdout, b"standard output");
            }
            let file = open(path, c"ab+")?;
            header.append(file, path.to_bytes()).inspect_err(|_| close(file))
        })
    }
}

/// The hot function: one record, its header and bytes, under one lock of the stream.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn pcap_dump(
    dumper: *mut u8,
    header: *const PacketHeader,
    packet: *const u8,
) {
    let file: *mut FILE = dumper.cast();
    // SAFETY: an open dumper, a header and as many bytes as it says, by the contract of
    // pcap_dump(3).
    unsafe {
        let (false, Some(header)) = (file.is_null(), header.as_ref()) else { return };
        let record = RecordHeader {
            // Times after 2038 do not fit the format.
            seconds: header.time.tv_sec as u32,
            fraction: header.time.tv_usec as u32,
            captured: header.captured,
            original: header.original,
        };
        let record: *const RecordHeader = &record;
        let captured = header.captured as usize;
        if captured <= SMALL {
            // In one piece: a call and a lock cost as much as the copy.
            let mut whole = [MaybeUninit::<u8>::uninit(); size_of::<RecordHeader>() + SMALL];
            let start = whole.as_mut_ptr().cast::<u8>();
            start.copy_from_nonoverlapping(record.cast(), size_of::<RecordHeader>());
            start.add(size_of::<RecordHeader>()).copy_from_nonoverlapping(packet, captured);
            if ferror_unlocked(file) == 0 {
                libc::fwrite(start.cast(), size_of::<RecordHeader>() + captured, 1, file);
            }
            return;
        }
        flockfile(file);
        // After an error the file may end in half a record, so nothing follows it.
        if ferror_unlocked(file) == 0
            && fwrite_unlocked(record.cast(), size_of::<RecordHeader>(), 1, file) == 1
        {
            fwrite_unlocked(packet, captured, 1, file);
        }
        funlockfile(file);
    }
}

/// Up to this size a packet is copied once more, which costs less than another call.
const SMALL: usize = 512;

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn pcap_dump_file(dumper: *mut Dumper) -> *mut FILE {
    dumper.cast()
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn pcap_dump_ftell(dumper: *mut Dumper) -> c_long {
    if dumper.is_null() {
        return -1;
    }
    // SAFETY: an open dumper, by the contract of pcap_dump_ftell(3).
    unsafe { libc::ftell(dumper.cast()) }
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn pcap_dump_ftell64(dumper: *mut Dumper) -> i64 {
    if dumper.is_null() {
        return -1;
    }
    // SAFETY: an open dumper, by the contract of pcap_dump_ftell64(3).
    unsafe { libc::ftello(dumper.cast()) }
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn pcap_dump_flush(dumper: *mut Dumper) -> c_int {
    if dumper.is_null() {
        return status::ERROR;
    }
    // SAFETY: an open dumper, by the contract of pcap_dump_flush(3).
    if unsafe { libc::fflush(dumper.cast()) } == 0 { 0 } else { status::ERROR }
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn pcap_dump_close(dumper: *mut Dumper) {
    if !dumper.is_null() {
        // SAFETY: an open dumper, which is not used any more, by the contract of
        // pcap_dump_close(3).
        unsafe { close(dumper.cast()) }
    }
}

unsafe extern "C" {
    /// The stream of the program.
    static mut stdout: *mut FILE;
    fn flockfile(file: *mut FILE);
    fn funlockfile(file: *mut FILE);
    fn ferror_unlocked(file: *mut FILE) -> c_int;
    fn fwrite_unlocked(bytes: *const u8, size: usize, count: usize, file: *mut FILE) -> usize;
}

/// Opens a dumper; on failure the handle has the reason.
///
/// # Safety
/// The handle is null or open.
unsafe fn dumper(
    handle: *mut PcapHandle,
    open: impl FnOnce(&PcapHandle) -> Result<NonNull<FILE>, Vec<u8>>,
) -> *mut Dumper {
    let open = |handle: &PcapHandle| match open(handle) {
        Ok(file) => file.as_ptr().cast(),
        Err(reason) => {
            handle.say_bytes(&reason);
            ptr::null_mut()
        }
    };
    // SAFETY: by contract.
    unsafe { guard::with(handle, ptr::null_mut(), open) }
}

/// # Safety
/// Null or a string.
unsafe fn name(path: *const c_char) -> Option<Vec<u8>> {
    // SAFETY: by contract.
    (!path.is_null()).then(|| unsafe { CStr::from_ptr(path) }.to_bytes().to_vec())
}

/// # Safety
/// Null or a string.
unsafe fn given<'a>(path: *const c_char) -> Result<&'a CStr, Vec<u8>> {
    if path.is_null() {
        return Err(b"A null pointer was supplied as the file name".to_vec());
    }
    // SAFETY: by contract.
    Ok(unsafe { CStr::from_ptr(path) })
}

fn is_standard_output(path: &CStr) -> bool {
    path.to_bytes() == b"-"
}

fn open(path: &CStr, mode: &CStr) -> Result<*mut FILE, Vec<u8>> {
    // SAFETY: strings.
    let file = unsafe { libc::fopen(path.as_ptr(), mode.as_ptr()) };
    if file.is_null() { Err(with_errno(path.to_bytes())) } else { Ok(file) }
}

/// # Safety
/// The stream is open, and not used any more.
unsafe fn close(file: *mut FILE) {
    // SAFETY: the stream of the program is not ours to close; by contract for others.
    unsafe {
        if file != stdout {
            libc::fclose(file);
        }
    }
}

/// `NAME: WHAT`.
fn text(name: &[u8], what: &str) -> Vec<u8> {
    [name, b": ", what.as_bytes()].concat()
}

/// `WHAT: the last error of the system`.
fn with_errno(what: &[u8]) -> Vec<u8> {
    let number = io::Error::last_os_error().raw_os_error().unwrap_or(0);
    // SAFETY: a string that stays until the next call.
    let reason = unsafe { CStr::from_ptr(libc::strerror(number)) };
    [what, b": ", reason.to_bytes()].concat()
}

/// `struct pcap_sf_pkthdr`.
#[repr(C)]
struct RecordHeader {
    seconds: u32,
    fraction: u32,
    captured: u32,
    original: u32,
}

/// `struct pcap_file_header`.
#[repr(C)]
#[derive(Clone, Copy)]
struct FileHeader {
    magic: u32,
    major: u16,
    minor: u16,
    zone: u32,
    accuracy: u32,
    snaplen: u32,
    link: u32,
}

const MICROSECONDS: u32 = 0xa1b2_c3d4;
const NANOSECONDS: u32 = 0xa1b2_3c4d;
/// Magic numbers of related formats, to which libpcap does not append.
const KUZNETZOV: u32 = 0xa1b2_cd34;
const NAVTEL: u32 = 0xa12b_3c4d;

impl FileHeader {
    /// The file header for packets of `handle`. A handle that is not activated has link type 0.
    fn of(handle: &PcapHandle, name: &[u8]) -> Result<Self, Vec<u8>> {
        let facts =
            HandleProperties::of(handle).unwrap_or_else(|| HandleProperties::not_activated(handle));
        let link = link_type(facts.link).ok_or_else(|| {
            let link = facts.link;
            text(name, &format!("link-layer type {link} isn't supported in savefiles"))
        })?;
        let nanoseconds = facts.precision == timestamp::PRECISION_NANO;
        Ok(Self {
            magic: if nanoseconds { NANOSECONDS } else { MICROSECONDS },
            major: 2,
            minor: 4,
            zone: 0,
            accuracy: 0,
            snaplen: facts.snaplen.cast_unsigned(),
            link: (link | facts.link_extension).cast_unsigned(),
        })
    }

    /// Writes it to a new file.
    ///
    /// # Safety
    /// The stream is open.
    unsafe fn write(&self, file: *mut FILE, name: &[u8]) -> Result<NonNull<FILE>, Vec<u8>> {
        let file = NonNull::new(file).ok_or_else(|| text(name, "a null stream"))?;
        let header: *const Self = self;
        // SAFETY: by contract; the header has no padding.
        let written = unsafe { libc::fwrite(header.cast(), size_of::<Self>(), 1, file.as_ptr()) };
        if written == 1 {
            return Ok(file);
        }
        Err(with_errno(&[b"Can't write to ", name].concat()))
    }

    /// Seeks to the end of a file that starts with this header, or starts an empty file.
    ///
    /// # Safety
    /// The stream is open for reading and appending.
    unsafe fn append(&self, file: *mut FILE, name: &[u8]) -> Result<NonNull<FILE>, Vec<u8>> {
        let mut found = *self;
        let place: *mut Self = &mut found;
        // SAFETY: by contract; any bytes are a header.
        unsafe {
            if libc::fseek(file, 0, libc::SEEK_SET) != 0 {
                return Err(with_errno(&[b"Can't seek to the beginning of ", name].concat()));
            }
            match libc::fread(place.cast(), 1, size_of::<Self>(), file) {
                len if len == size_of::<Self>() => {
                    self.check(&found).map_err(|what| text(name, &what))?;
                }
                _ if libc::ferror(file) != 0 => return Err(with_errno(name)),
                0 => drop(self.write(file, name)?),
                _ => return Err(text(name, "truncated pcap file header")),
            }
            if libc::fseek(file, 0, libc::SEEK_END) != 0 {
                return Err(with_errno(&[b"Can't seek to the end of ", name].concat()));
            }
        }
        NonNull::new(file).ok_or_else(|| text(name, "a null stream"))
    }

    /// Whether this capture's packets can be appended to a file with the header `found`.
    fn check(&self, found: &Self) -> Result<(), String> {
        const OTHER_ORDER: [u32; 2] = [MICROSECONDS.swap_bytes(), NANOSECONDS.swap_bytes()];
        const RELATED: [u32; 4] = [KUZNETZOV, KUZNETZOV.swap_bytes(), NAVTEL, NAVTEL.swap_bytes()];
        let what = match found.magic {
            magic if OTHER_ORDER.contains(&magic) => "different byte order, cannot append to file",
            magic if RELATED.contains(&magic) => "not a pcap file to which we can append",
            MICROSECONDS | NANOSECONDS if found.magic != self.magic => {
                "different time stamp precision, cannot append to file"
            }
            MICROSECONDS | NANOSECONDS => {
                if (found.major, found.minor) != (self.major, self.minor) {
                    let (major, minor) = (found.major, found.minor);
                    return Err(format!("version is {major}.{minor}, cannot append to file"));
                }
                if found.link != self.link {
                    "different linktype, cannot append to file"
                } else if found.snaplen != self.snaplen {
                    "different snaplen, cannot append to file"
                } else {
                    return Ok(());
                }
            }
            _ => "not a pcap file",
        };
        Err(what.to_owned())
    }
}

const _: () = assert!(size_of::<FileHeader>() == 24 && size_of::<RecordHeader>() == 16);

#[cfg(test)]
mod tests {
    use std::mem::transmute;

    use wirelane_filter::libpcap::system::system;

    use super::*;
    use crate::real::{self, Pcap, Real};

    /// The last bytes of the header that libpcap writes.
    fn link_of_libpcap(link: c_int) -> Option<c_int> {
        let library = real::library().unwrap();
        let mut header = [0_u8; 24];
        // SAFETY: the handle and the stream are ours; libpcap leaves the stream open unless it
        // fails to write.
        unsafe {
            let pcap = (library.pcap_open_dead_with_tstamp_precision)(link, 96, 0);
            let dead = Real::from_raw(library, pcap).unwrap();
            let file = libc::fmemopen(header.as_mut_ptr().cast(), header.len(), c"w".as_ptr());
            let open = system().unwrap().symbol(c"pcap_dump_fopen").unwrap();
            let open: unsafe extern "C" fn(*mut Pcap, *mut FILE) -> *mut Dumper = transmute(open);
            let dumper = open(dead.as_ptr(), file);
            libc::fclose(file);
            (!dumper.is_null()).then(|| c_int::from_ne_bytes(header[20..].try_into().unwrap()))
        }
    }

    #[test]
    fn link_types_have_the_numbers_of_files() {
        for link in -1..400 {
            assert_eq!(link_type(link), link_of_libpcap(link), "{link}");
        }
    }
}
