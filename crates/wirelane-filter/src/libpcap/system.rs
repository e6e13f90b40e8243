//! The system's libpcap: found by its file, and loaded so that its calls stay inside it.
//!
//! The dynamic linker cannot search by name: with the drop-in of `wirelane-libpcap`, that name
//! leads to the drop-in. The symbol [`DROP_IN`] identifies the drop-in.

use std::env;
use std::ffi::{CStr, CString, OsStr, OsString, c_void};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::sync::OnceLock;

use super::{binding, cache};

/// A symbol that only the drop-in has.
pub const DROP_IN: &CStr = c"wirelane_libpcap";

/// The variable with the file of libpcap, which replaces the search.
pub const VARIABLE: &str = "WIRELANE_LIBPCAP_REAL";

/// The names of the library. Debian and its descendants kept the name of version 0.8.
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

/// The library of this system, loaded by the first call. Later changes of the process (another root
/// directory, another user) do not affect it.
///
/// # Errors
/// There is no libpcap, or it cannot be loaded; the reason.
pub fn system() -> Result<&'static System, String> {
    static SYSTEM: OnceLock<Result<System, String>> = OnceLock::new();
    SYSTEM.get_or_init(load).as_ref().map_err(Clone::clone)
}

impl System {
    /// The address of a function.
    ///
    /// # Errors
    /// The library has no function of this name.
    pub fn symbol(&self, name: &CStr) -> Result<NonNull<c_void>, String> {
        look_up(self.handle.as_ptr(), name).ok_or_else(|| {
            format!(
                "{} has no {}: it is older than 1.9",
                self.path.display(),
                name.to_string_lossy()
            )
        })
    }

    /// The file of the library.
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

/// The possible files, in the order of ld.so(8).
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
    // Systems without a cache, such as Alpine or a small container.
    let triplet = format!("{}-linux-gnu", env::consts::ARCH);
    for prefix in ["/usr/local/lib", "/lib", "/usr/lib", "/lib64", "/usr/lib64"] {
        let prefix = Path::new(prefix);
        for path in [prefix.join(&triplet), prefix.to_owned()] {
            candidates.extend(NAMES.map(|name| path.join(name)));
        }
    }
    candidates
}

/// Loads the library from a file. `None` if there is no such file, or if it is the drop-in.
fn open(path: &Path) -> Result<Option<System>, String> {
    let Ok(found) = fs::metadata(path) else { return Ok(None) };
    if own_file() == Some((found.dev(), found.ino())) {
        return Ok(None);
    }
    let name = CString::new(path.as_os_str().as_bytes()).map_err(|error| error.to_string())?;
    // SAFETY: the name is a string. libpcap's initialisers touch nothing of ours.
    let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    let handle = NonNull::new(handle).ok_or_else(linker_error)?;
    if look_up(handle.as_ptr(), DROP_IN).is_some() {
        // SAFETY: the handle is not used any more.
        unsafe { libc::dlclose(handle.as_ptr()) };
        return Ok(None);
    }
    // SAFETY: the name is a string.
    let is_shadowed = !unsafe { libc::dlsym(libc::RTLD_DEFAULT, DROP_IN.as_ptr()) }.is_null();
    if is_shadowed {
        // SAFETY: the handle is open. Nobody has called the library: whoever asks for its names
        // gets the drop-in.
        unsafe { binding::bind_to_itself(handle)? };
    }
    Ok(Some(System { handle, path: path.to_owned() }))
}

/// Device and inode of the file that contains this code.
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

/// A variable of the environment. Ignored if the program has more privileges than its user: the
/// user could otherwise make it load any library.
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

    /// Without the drop-in, each slot already has that address.
    #[test]
    fn a_library_bound_to_itself_works() {
        let system = system().unwrap();
        // SAFETY: the handle is open, and the slots are not changed.
        unsafe { binding::bind_to_itself(system.handle) }.unwrap();
        assert!(
            crate::libpcap::library()
                .unwrap()
                .compile(c"tcp port 80", (1, crate::libpcap::View::Bytes), 96, true)
                .is_ok()
        );
    }
}
