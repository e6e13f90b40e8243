//! `union bpf_attr` of `linux/bpf.h`, one structure per command, and the system call.
//!
//! The kernel fills up a shorter attribute with zeros, and accepts a longer one if the rest is zero
//! (`bpf_check_uarg_tail_zero`). So each structure ends with the last field used here, and all of
//! its padding is in named fields.

use std::io;
use std::mem::offset_of;
use std::os::fd::{FromRawFd, OwnedFd};

/// `BPF_OBJ_NAME_LEN`, including the terminating zero.
pub(super) const NAME_LEN: usize = 16;

// enum bpf_cmd
pub(super) const BPF_MAP_CREATE: i32 = 0;
pub(super) const BPF_MAP_LOOKUP_ELEM: i32 = 1;
pub(super) const BPF_MAP_UPDATE_ELEM: i32 = 2;
pub(super) const BPF_MAP_DELETE_ELEM: i32 = 3;
pub(super) const BPF_PROG_LOAD: i32 = 5;
pub(super) const BPF_PROG_TEST_RUN: i32 = 10; // Linux 4.12
pub(super) const BPF_PROG_GET_FD_BY_ID: i32 = 13; // Linux 4.13
pub(super) const BPF_OBJ_GET_INFO_BY_FD: i32 = 15; // Linux 4.13
pub(super) const BPF_LINK_CREATE: i32 = 28; // Linux 5.7, for XDP 5.9
pub(super) const BPF_LINK_UPDATE: i32 = 29; // Linux 5.7, for XDP 5.9
pub(super) const BPF_LINK_GET_FD_BY_ID: i32 = 30; // Linux 5.8
pub(super) const BPF_LINK_GET_NEXT_ID: i32 = 31; // Linux 5.8
pub(super) const BPF_LINK_DETACH: i32 = 34; // Linux 5.9

/// `BPF_XDP` of `enum bpf_attach_type`, Linux 5.9.
pub(super) const BPF_XDP: u32 = 37;
/// `BPF_TCX_EGRESS` of `enum bpf_attach_type`, Linux 6.6.
pub(super) const BPF_TCX_EGRESS: u32 = 47;
/// `BPF_LINK_TYPE_XDP` of `enum bpf_link_type`, Linux 5.9.
pub(super) const BPF_LINK_TYPE_XDP: u32 = 6;
/// The program supports packets of several buffers; Linux 5.18.
pub(super) const BPF_F_XDP_HAS_FRAGS: u32 = 1 << 5;
/// The program is bound to one interface, and may read the packet metadata of its driver; Linux
/// 6.3.
pub(super) const BPF_F_XDP_DEV_BOUND_ONLY: u32 = 1 << 6;
/// The frames of a test run are sent and received; Linux 5.18.
pub(super) const BPF_F_TEST_XDP_LIVE_FRAMES: u32 = 1 << 1;

/// The values of an array can be mapped; Linux 5.5.
pub(super) const BPF_F_MMAPABLE: u32 = 1 << 10;

#[derive(Default)]
#[repr(C)]
pub(super) struct MapCreate {
    pub map_type: u32,
    pub key_size: u32,
    pub value_size: u32,
    pub max_entries: u32,
    pub map_flags: u32,
    pub inner_map_fd: u32,
    pub numa_node: u32,
    pub map_name: [u8; NAME_LEN],
}

const _: () = {
    assert!(size_of::<MapCreate>() == 44);
    assert!(offset_of!(MapCreate, map_flags) == 16);
    assert!(offset_of!(MapCreate, map_name) == 28);
};

#[derive(Default)]
#[repr(C)]
pub(super) struct MapElement {
    pub map_fd: u32,
    pub reserved: u32,
    pub key: u64,
    pub value: u64,
    pub flags: u64,
}

const _: () = {
    assert!(size_of::<MapElement>() == 32);
    assert!(offset_of!(MapElement, key) == 8);
    assert!(offset_of!(MapElement, value) == 16);
    assert!(offset_of!(MapElement, flags) == 24);
};

#[derive(Default)]
#[repr(C)]
pub(super) struct ProgramLoad {
    pub prog_type: u32,
    pub insn_cnt: u32,
    pub insns: u64,
    pub license: u64,
    pub log_level: u32,
    pub log_size: u32,
    pub log_buf: u64,
    pub kern_version: u32,
    pub prog_flags: u32,
    pub prog_name: [u8; NAME_LEN],
    pub prog_ifindex: u32,
    pub expected_attach_type: u32,
}

const _: () = {
    assert!(size_of::<ProgramLoad>() == 72);
    assert!(offset_of!(ProgramLoad, insns) == 8);
    assert!(offset_of!(ProgramLoad, license) == 16);
    assert!(offset_of!(ProgramLoad, log_buf) == 32);
    assert!(offset_of!(ProgramLoad, prog_flags) == 44);
    assert!(offset_of!(ProgramLoad, prog_name) == 48);
    assert!(offset_of!(ProgramLoad, expected_attach_type) == 68);
};

#[derive(Default)]
#[repr(C)]
pub(super) struct TestRun {
    pub prog_fd: u32,
    pub retval: u32,
    pub data_size_in: u32,
    pub data_size_out: u32,
    pub data_in: u64,
    pub data_out: u64,
    pub repeat: u32,
    pub duration: u32,
    pub ctx_size_in: u32,
    pub ctx_size_out: u32,
    pub ctx_in: u64,
    pub ctx_out: u64,
    pub flags: u32,
    pub cpu: u32,
    pub batch_size: u32, // Linux 5.18
    pub reserved: u32,
}

const _: () = {
    assert!(size_of::<TestRun>() == 80);
    assert!(offset_of!(TestRun, data_in) == 16);
    assert!(offset_of!(TestRun, repeat) == 32);
    assert!(offset_of!(TestRun, ctx_in) == 48);
    assert!(offset_of!(TestRun, flags) == 64);
    assert!(offset_of!(TestRun, batch_size) == 72);
};

/// The context of an XDP program.
#[derive(Default)]
#[repr(C)]
pub(super) struct XdpMd {
    pub data: u32,
    pub data_end: u32,
    pub data_meta: u32,
    pub ingress_ifindex: u32,
    pub rx_queue_index: u32,
    pub egress_ifindex: u32,
}

const _: () = {
    assert!(size_of::<XdpMd>() == 24);
    assert!(offset_of!(XdpMd, data_end) == 4);
    assert!(offset_of!(XdpMd, ingress_ifindex) == 12);
    assert!(offset_of!(XdpMd, rx_queue_index) == 16);
};

#[derive(Default)]
#[repr(C)]
pub(super) struct LinkCreate {
    pub prog_fd: u32,
    pub target_ifindex: u32,
    pub attach_type: u32,
    pub flags: u32,
}

#[derive(Default)]
#[repr(C)]
pub(super) struct LinkUpdate {
    pub link_fd: u32,
    pub new_prog_fd: u32,
    pub flags: u32,
    pub old_prog_fd: u32,
}

#[derive(Default)]
#[repr(C)]
pub(super) struct LinkDetach {
    pub link_fd: u32,
}

#[derive(Default)]
#[repr(C)]
pub(super) struct ById {
    pub id: u32,
    pub next_id: u32,
    pub open_flags: u32,
}

#[derive(Default)]
#[repr(C)]
pub(super) struct InfoByFd {
    pub bpf_fd: u32,
    pub info_len: u32,
    pub info: u64,
}

const _: () = {
    assert!(size_of::<LinkCreate>() == 16);
    assert!(size_of::<LinkUpdate>() == 16);
    assert!(size_of::<LinkDetach>() == 4);
    assert!(size_of::<ById>() == 12);
    assert!(size_of::<InfoByFd>() == 16);
    assert!(offset_of!(InfoByFd, info) == 8);
};

/// The first fields of `struct bpf_prog_info`.
#[derive(Default)]
#[repr(C)]
pub(super) struct ProgramInfo {
    pub kind: u32,
    pub id: u32,
    pub tag: [u8; 8],
    pub jited_prog_len: u32,
    pub xlated_prog_len: u32,
    pub jited_prog_insns: u64,
    pub xlated_prog_insns: u64,
    pub load_time: u64,
    pub created_by_uid: u32,
    pub nr_map_ids: u32,
    pub map_ids: u64,
    pub name: [u8; NAME_LEN],
}

const _: () = {
    assert!(size_of::<ProgramInfo>() == 80);
    assert!(offset_of!(ProgramInfo, load_time) == 40);
    assert!(offset_of!(ProgramInfo, name) == 64);
};

/// The first fields of `struct bpf_link_info`, with the fields of XDP links.
#[derive(Default)]
#[repr(C)]
pub(super) struct LinkInfo {
    pub kind: u32,
    pub id: u32,
    pub prog_id: u32,
    pub reserved: u32,
    pub ifindex: u32,
    pub reserved2: u32,
}

const _: () = {
    assert!(size_of::<LinkInfo>() == 24);
    assert!(offset_of!(LinkInfo, ifindex) == 16);
};

/// Calls bpf(2).
///
/// # Safety
/// `attr` is the structure of `command`, and every address in it is valid for the accesses of the
/// command during the call.
pub(super) unsafe fn bpf<T>(command: i32, attr: &mut T) -> io::Result<i32> {
    // Loading a large program is interrupted by a pending signal (EAGAIN from bpf_check).
    const ATTEMPTS: u32 = 8;
    let mut attempt = 0;
    loop {
        attempt += 1;
        // SAFETY: the caller vouches for the attribute, whose size is that of its type.
        let result = unsafe {
            libc::syscall(libc::SYS_bpf, command, std::ptr::from_mut(attr), size_of::<T>())
        };
        if result >= 0 {
            return Ok(result as i32);
        }
        let error = io::Error::last_os_error();
        if error.raw_os_error() != Some(libc::EAGAIN) || attempt == ATTEMPTS {
            return Err(error);
        }
    }
}

/// Calls bpf(2) with a command that returns a descriptor.
///
/// # Safety
/// As [`bpf`], and the command returns a new descriptor.
pub(super) unsafe fn bpf_fd<T>(command: i32, attr: &mut T) -> io::Result<OwnedFd> {
    // SAFETY: the caller vouches for the attribute.
    let fd = unsafe { bpf(command, attr)? };
    // SAFETY: the descriptor is new, so nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// A name in the kernel's format: letters, digits, `_` and `.`, truncated to 15 bytes
/// (`bpf_obj_name_cpy`).
pub(super) fn object_name(name: &str) -> [u8; NAME_LEN] {
    let mut bytes = [0; NAME_LEN];
    for (to, from) in bytes.iter_mut().take(NAME_LEN - 1).zip(name.bytes()) {
        let allowed = from.is_ascii_alphanumeric() || matches!(from, b'_' | b'.');
        *to = if allowed { from } else { b'_' };
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_made_to_fit() {
        assert_eq!(object_name("wl_xdp"), *b"wl_xdp\0\0\0\0\0\0\0\0\0\0");
        assert_eq!(object_name("a b/sixteen-bytes"), *b"a_b_sixteen_byt\0");
    }
}
