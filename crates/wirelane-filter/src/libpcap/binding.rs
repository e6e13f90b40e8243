//! Binds calls inside a loaded library to the functions of that library.
//!
//! pcap_open_live() calls pcap_create(), and the dynamic linker binds such a call to the first
//! function of that name. If the drop-in is loaded first, that is the function of the drop-in.
//! `RTLD_DEEPBIND` would change the order for all functions, including free(3): memory from the
//! program's allocator, such as the result of strdup(3), would be passed to the allocator of the C
//! library. So this module rewrites only the slots of the library's exported functions.

use std::ffi::{c_int, c_void};
use std::ptr::NonNull;

#[cfg(not(target_env = "musl"))]
use libc::dlinfo;

// The crate `libc` does not declare it for musl, which has it.
#[cfg(target_env = "musl")]
unsafe extern "C" {
    fn dlinfo(handle: *mut c_void, request: c_int, info: *mut c_void) -> c_int;
}

/// Relocations that hold the address of a symbol: slots of calls and of data (the ELF supplements
/// of the processors).
const ADDRESSES: [u32; 3] = [R_JUMP_SLOT, R_GLOB_DAT, R_ABSOLUTE];

const IS_KNOWN: bool = cfg!(any(target_arch = "x86_64", target_arch = "aarch64"));
const R_JUMP_SLOT: u32 = if cfg!(target_arch = "x86_64") { 7 } else { 1026 };
const R_GLOB_DAT: u32 = if cfg!(target_arch = "x86_64") { 6 } else { 1025 };
const R_ABSOLUTE: u32 = if cfg!(target_arch = "x86_64") { 1 } else { 257 };

/// `struct link_map` of `link.h`.
#[repr(C)]
struct LinkMap {
    base: usize,
    name: *const libc::c_char,
    dynamic: *const Dynamic,
}

/// `Elf64_Dyn`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Dynamic {
    tag: i64,
    value: u64,
}

/// `Elf64_Rela`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Relocation {
    offset: u64,
    info: u64,
    addend: i64,
}

/// `Elf64_Sym`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Symbol {
    name: u32,
    info: u8,
    other: u8,
    section: u16,
    value: u64,
    size: u64,
}

const _: () = assert!(size_of::<Relocation>() == 24 && size_of::<Symbol>() == 24);

const DT_PLTRELSZ: i64 = 2;
const DT_SYMTAB: i64 = 6;
const DT_RELA: i64 = 7;
const DT_RELASZ: i64 = 8;
const DT_JMPREL: i64 = 23;

/// Binds the library's calls of its functions to the library.
///
/// # Errors
/// The dynamic linker does not describe the library, or its slots cannot be written.
///
/// # Safety
/// `handle` is of dlopen(3), and no thread runs a function of the library.
pub(super) unsafe fn bind_to_itself(handle: NonNull<c_void>) -> Result<(), String> {
    if !IS_KNOWN {
        return Err("its calls cannot be bound on this processor".to_owned());
    }
    let mut map: *const LinkMap = std::ptr::null();
    let place: *mut *const LinkMap = &mut map;
    // SAFETY: by contract; the call fills one pointer.
    let status = unsafe { dlinfo(handle.as_ptr(), RTLD_DI_LINKMAP, place.cast()) };
    if status != 0 || map.is_null() {
        return Err("the dynamic linker does not tell where it is".to_owned());
    }
    // SAFETY: the linker's description of a loaded library, whose dynamic section ends in a null
    // tag, and whose tables are as long as that says. Slots are within the library, at addresses of
    // pointers.
    unsafe {
        let (base, dynamic) = ((*map).base, (*map).dynamic);
        let value = |tag| {
            (0..).map(|i| *dynamic.add(i)).take_while(|it| it.tag != 0).find(|it| it.tag == tag)
        };
        // glibc adds the base to addresses of this section; other C libraries leave the addresses
        // of the file.
        let address = |tag| {
            let address = usize::try_from(value(tag)?.value).ok()?;
            Some(if address < base { base + address } else { address })
        };
        let Some(symbols) = address(DT_SYMTAB) else { return Ok(()) };
        let symbols = symbols as *const Symbol;
        for (table, size) in [(DT_JMPREL, DT_PLTRELSZ), (DT_RELA, DT_RELASZ)] {
            let (Some(table), Some(size)) = (address(table), value(size)) else { continue };
            let table = table as *const Relocation;
            for index in 0..size.value as usize / size_of::<Relocation>() {
                let relocation = *table.add(index);
                let (kind, number) = (relocation.info as u32, relocation.info >> 32);
                let symbol = *symbols.add(number as usize);
                // A symbol without a section is in another library.
                if !ADDRESSES.contains(&kind) || number == 0 || symbol.section == 0 {
                    continue;
                }
                let addend = if kind == R_JUMP_SLOT { 0 } else { relocation.addend };
                let own = base.wrapping_add(symbol.value as usize).wrapping_add(addend as usize);
                write(base.wrapping_add(relocation.offset as usize) as *mut usize, own)?;
            }
        }
    }
    Ok(())
}

const RTLD_DI_LINKMAP: c_int = 2;

/// Writes a slot, which the linker may have made read-only (`PT_GNU_RELRO`).
///
/// # Safety
/// `slot` is a slot of a loaded library.
unsafe fn write(slot: *mut usize, address: usize) -> Result<(), String> {
    // SAFETY: by contract. The page is the library's; its slots stay writable, as they are without
    // that option.
    unsafe {
        if slot.read() == address {
            return Ok(());
        }
        let page_size = libc::sysconf(libc::_SC_PAGESIZE) as usize;
        let page = (slot.addr() & !(page_size - 1)) as *mut c_void;
        if libc::mprotect(page, page_size, libc::PROT_READ | libc::PROT_WRITE) != 0 {
            return Err(format!("mprotect: {}", std::io::Error::last_os_error()));
        }
        slot.write(address);
    }
    Ok(())
}
