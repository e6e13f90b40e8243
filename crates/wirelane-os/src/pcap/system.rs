//! The system's libpcap: found by its file, and loaded so that its calls stay its own.
//!
//! The dynamic linker is not asked for the name: where the drop-in of `wirelane-libpcap` is used, that name
//! is its own. It is told by the symbol [`DROP_IN`].

use std::env;
use std::ffi::{CStr, CString, OsStr, OsString, c_int, c_void};
use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::sync::OnceLock;

use super::cache;

/// A symbol that the drop-in has, and no libpcap.
pub const DROP_IN: &CStr = c"wirelane_libpcap";

/// The variable that names the file of libpcap, instead of all places where it may be.
pub const VARIABLE: &str = "WIRELANE_LIBPCAP_REAL";

/// The names of the library. Debian and its descendants kept that of 0.8.
pub const NAMES: [&str; 2] = ["libpcap.so.1", "libpcap.so.0.8"];

/// The loaded library. It is never unloaded.
#[derive(Debug)]
pub struct System {
    handle: NonNull<c_void>,
    path: PathBuf,
}

// SAFETY: a handle of the dynamic linker, which any thread may look symbols up in, and which stays.
unsafe impl Send for System {}
// SAFETY: as above.
unsafe impl Sync for System {}

/// The library of this system, loaded when first asked for. What comes later (another root directory,
/// another user) does not matter to it.
///
/// # Errors
/// There is none, or none that can be loaded: why.
pub fn system() -> Result<&'static System, String> {
    static SYSTEM: OnceLock<Result<System, String>> = OnceLock::new();
    SYSTEM.get_or_init(load).as_ref().map_err(Clone::clone)
}

impl System {
    /// The address of a function.
    ///
    /// # Errors
    /// The library has none of that name.
    pub fn symbol(&self, name: &CStr) -> Result<NonNull<c_void>, String> {
        look_up(self.handle.as_ptr(), name).ok_or_else(|| {
            format!(
                "{} has no {}: it is older than 1.9",
                self.path.display(),
                name.to_string_lossy()
            )
        })
    }

    /// The file that it was loaded from.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

fn load() -> Result<System, String> {
    if let Some(path) = variable(VARIABLE) {
        let path = PathBuf::from(path);
        return match open(&path) {
            Ok(Some(system)) => Ok(system),
            Ok(None) => Err(format!("{VARIABLE}={}: no libpcap is there", path.display())),
            Err(reason) => Err(format!("{VARIABLE}={}: {reason}", path.display())),
        };
    }
    let mut refusal = None;
    for path in candidates() {
        match open(&path) {
            Ok(Some(system)) => return Ok(system),
            Ok(None) => {}
            Err(reason) => refusal = refusal.or(Some(format!("{}: {reason}", path.display()))),
        }
    }
    Err(refusal.unwrap_or_else(|| format!("no {} is where libraries are", NAMES.join(" or "))))
}

/// Where it may be, in the order of ld.so(8).
fn candidates() -> Vec<PathBuf> {
    let mut candidates = Vec::new();
    let mut directory = |path: &Path| candidates.extend(NAMES.map(|name| path.join(name)));
    if let Some(directories) = variable("LD_LIBRARY_PATH") {
        let parts = directories.as_bytes().split(|byte| matches!(byte, b':' | b';'));
        parts
            .filter(|part| part.starts_with(b"/"))
            .for_each(|part| directory(OsStr::from_bytes(part).as_ref()));
    }
    let cache = fs::read("/etc/ld.so.cache").unwrap_or_default();
    candidates.extend(NAMES.iter().flat_map(|name| cache::files(&cache, name)));
    // Without a cache, as in Alpine or in a small container.
    let triplet = format!("{}-linux-gnu", env::consts::ARCH);
    for prefix in ["/usr/local/lib", "/lib", "/usr/lib", "/lib64", "/usr/lib64"] {
        let prefix = Path::new(prefix);
        for path in [prefix.join(&triplet), prefix.to_owned()] {
            candidates.extend(NAMES.map(|name| path.join(name)));
        }
    }
    candidates
}

/// Loads the library of a file. `None` if there is no such file, or if it is the drop-in.
fn open(path: &Path) -> Result<Option<System>, String> {
    let Ok(found) = fs::metadata(path) else { return Ok(None) };
    if own_file() == Some((found.dev(), found.ino())) {
        return Ok(None);
    }
    let name = CString::new(path.as_os_str().as_bytes()).map_err(|error| error.to_string())?;
    // Its own calls, such as those of pcap_open_live() to pcap_create(), would come to the drop-in if that
    // stands before it among the symbols of the program.
    // SAFETY: the name is a string.
    let shadowed = !unsafe { libc::dlsym(libc::RTLD_DEFAULT, DROP_IN.as_ptr()) }.is_null();
    let mut kept = None;
    let name = if shadowed && is_loaded(&name) {
        // And they do, if the program brought it along: so it is loaded a second time.
        let copy =
            copy(path).map_err(|error| format!("cannot be loaded a second time: {error}"))?;
        let name = format!("/proc/self/fd/{}", copy.as_raw_fd());
        kept = Some(copy);
        CString::new(name).map_err(|error| error.to_string())?
    } else {
        name
    };
    let handle = link(&name, shadowed);
    drop(kept);
    let handle = NonNull::new(handle).ok_or_else(linker_error)?;
    if look_up(handle.as_ptr(), DROP_IN).is_some() {
        // SAFETY: the handle is not used any more.
        unsafe { libc::dlclose(handle.as_ptr()) };
        return Ok(None);
    }
    Ok(Some(System { handle, path: path.to_owned() }))
}

/// Loads a file, whose calls find its own symbols first if `shadowed`.
#[cfg(target_env = "gnu")]
fn link(name: &CStr, shadowed: bool) -> *mut c_void {
    let mut flags = libc::RTLD_NOW | libc::RTLD_LOCAL;
    if shadowed {
        flags |= libc::RTLD_DEEPBIND;
    }
    // As dlopen(3), but the sanitizers' dlopen() ends the process for RTLD_DEEPBIND: memory that crosses the
    // boundary could be of two allocators. Here none does.
    // SAFETY: the name is a string. libpcap's initialisers touch nothing of ours.
    unsafe { libc::dlmopen(libc::LM_ID_BASE, name.as_ptr(), flags) }
}

/// Other C libraries do not know that order.
#[cfg(not(target_env = "gnu"))]
fn link(name: &CStr, _shadowed: bool) -> *mut c_void {
    // SAFETY: the name is a string. libpcap's initialisers touch nothing of ours.
    unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) }
}

/// Whether the program has loaded that file.
fn is_loaded(name: &CStr) -> bool {
    const FLAGS: c_int = libc::RTLD_LAZY | libc::RTLD_LOCAL | libc::RTLD_NOLOAD;
    // SAFETY: the name is a string, and the handle is not used after it is closed.
    unsafe {
        let handle = libc::dlopen(name.as_ptr(), FLAGS);
        !handle.is_null() && libc::dlclose(handle) == 0
    }
}

/// A copy in memory: to the dynamic linker it is another library.
fn copy(path: &Path) -> io::Result<File> {
    let flags = rustix::fs::MemfdFlags::CLOEXEC;
    let mut copy = File::from(rustix::fs::memfd_create("libpcap", flags)?);
    io::copy(&mut File::open(path)?, &mut copy)?;
    Ok(copy)
}

/// Device and inode of the file that holds this code.
fn own_file() -> Option<(u64, u64)> {
    let address: *const c_void = (own_file as fn() -> _) as *const c_void;
    // SAFETY: a structure of pointers, which dladdr() fills.
    let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
    // SAFETY: both live through the call; the name is a string that stays.
    let name = unsafe {
        if libc::dladdr(address, &mut info) == 0 || info.dli_fname.is_null() {
            return None;
        }
        CStr::from_ptr(info.dli_fname)
    };
    let found = fs::metadata(OsStr::from_bytes(name.to_bytes())).ok()?;
    Some((found.dev(), found.ino()))
}

/// A variable of the environment, unless the program has more privileges than its user, who could
/// otherwise have it load anything.
fn variable(name: &str) -> Option<OsString> {
    // SAFETY: takes a number.
    let privileged = unsafe { libc::getauxval(libc::AT_SECURE) } != 0;
    env::var_os(name).filter(|value| !privileged && !value.is_empty())
}

fn look_up(handle: *mut c_void, name: &CStr) -> Option<NonNull<c_void>> {
    // SAFETY: the handle is open and the name a string.
    NonNull::new(unsafe { libc::dlsym(handle, name.as_ptr()) })
}

fn linker_error() -> String {
    // SAFETY: a string of this thread, valid until its next call of the linker; or null.
    unsafe {
        let text = libc::dlerror();
        match text.is_null() {
            true => "it cannot be loaded".to_owned(),
            false => CStr::from_ptr(text).to_string_lossy().into_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_found_by_its_file() {
        let system = system().unwrap();
        assert!(system.path().is_absolute());
        assert!(system.symbol(c"pcap_compile").is_ok());
        let error = system.symbol(c"pcap_of_tomorrow").unwrap_err();
        assert!(error.contains("pcap_of_tomorrow"), "{error}");
    }

    #[test]
    fn other_files_are_refused_with_a_reason() {
        assert!(open(Path::new("/nonexistent/libpcap.so.1")).unwrap().is_none());
        let error = open(Path::new("/etc/passwd")).unwrap_err();
        assert!(error.contains("/etc/passwd"), "{error}");
    }

    #[test]
    fn a_copy_can_be_loaded_beside_the_first() {
        let system = system().unwrap();
        let copy = copy(system.path()).unwrap();
        let name = CString::new(format!("/proc/self/fd/{}", copy.as_raw_fd())).unwrap();
        let second = link(&name, true);
        let own = look_up(second, c"pcap_compile").unwrap();
        assert_ne!(own, system.symbol(c"pcap_compile").unwrap());
    }
}
