//! Ports: functions for any thread.
#![allow(unsafe_code)]

use std::ffi::{OsStr, c_char, c_int};
use std::os::unix::ffi::OsStrExt;

use wirelane::filter::{Filter, Program};
use wirelane::port::{self, Spec};

use crate::call::{call, put, put_sized, slice};
use crate::error::{CallFailure, ErrorValue};
use crate::handles::{OpenTx, PORTS, PortHandle, RX, RxHandle, TX, TxHandle};
use crate::mask::MaskValue;
use crate::options::{self, OptionsValue};
use crate::port::{FramesValue, InfoValue, OpenPort, RxStatsValue, TxStatsValue};

const NOWHERE: &str = "the place for the result is NULL";

/// One instruction of a classic BPF program, like `struct bpf_insn` and `struct sock_filter`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Instruction {
    /// Its operation.
    pub code: u16,
    /// Jump offset if true.
    pub jt: u8,
    /// Jump offset if false.
    pub jf: u8,
    /// Its operand.
    pub k: u32,
}

/// Opens the port that `spec` names, such as "packet:eth0@0-3" or "sim:4?count=1000". `options` may
/// be NULL for the defaults. No packet is received before wirelane_port_start().
///
/// Close it with wirelane_close().
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wirelane_open(
    spec: *const c_char,
    options: *const OptionsValue,
    port: *mut PortHandle,
    error: *mut ErrorValue,
) -> c_int {
    // SAFETY: by contract of this function.
    unsafe {
        call("wirelane_open", error, || {
            put(port, PortHandle { id: 0 }, NOWHERE)?;
            if spec.is_null() {
                return Err(CallFailure::Argument("spec is NULL"));
            }
            let spec = OsStr::from_bytes(std::ffi::CStr::from_ptr(spec).to_bytes());
            let spec = Spec::try_from(spec)?;
            let options = OptionsValue::read(options)?;
            let open = port::open(&spec, &options.to_options()?)?;
            let id = PORTS.insert(OpenPort::new(open, options.forward != 0)?)?;
            put(port, PortHandle { id }, NOWHERE)?;
            Ok(0)
        })
    }
}

/// Stops the port and closes it. Ends taken from it stay open: the receiving ones deliver the
/// packets in their rings, and then end. The program must close each.
#[unsafe(no_mangle)]
pub extern "C" fn wirelane_close(port: PortHandle) -> c_int {
    crate::call::count(|| PORTS.remove(port.id).map(drop).map(|()| 0).map_err(CallFailure::from))
}

/// Starts receiving. Call it when every thread is ready.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wirelane_port_start(port: PortHandle, error: *mut ErrorValue) -> c_int {
    // SAFETY: by contract of this function.
    unsafe {
        call("wirelane_port_start", error, || {
            PORTS.shared(port.id)?.ends().port.start()?;
            Ok(0)
        })
    }
}

/// Stops receiving. The packets in the rings can still be received; then the receiving ends have
/// ended. Do not call it in signal handlers: it takes locks.
#[unsafe(no_mangle)]
pub extern "C" fn wirelane_port_stop(port: PortHandle) -> c_int {
    crate::call::count(|| {
        PORTS.shared(port.id)?.control.stop();
        Ok(0)
    })
}

/// Returns the receiving end at `index`, from 0 to below wirelane_info.rx_ends. Each end is
/// returned once. Close it with wirelane_rx_close().
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wirelane_port_rx(
    port: PortHandle,
    index: usize,
    rx: *mut RxHandle,
    error: *mut ErrorValue,
) -> c_int {
    // SAFETY: by contract of this function.
    unsafe {
        call("wirelane_port_rx", error, || {
            put(rx, RxHandle { id: 0 }, NOWHERE)?;
            let end = PORTS.shared(port.id)?.ends().take_rx(index)?;
            let id = RX.insert(end)?;
            put(rx, RxHandle { id }, NOWHERE)?;
            Ok(0)
        })
    }
}

/// Returns the transmitting end at `index`, from 0 to below wirelane_info.tx_ends. Each end is
/// returned once. Close it with wirelane_tx_close(). The ends of a port opened for forwarding
/// segment long frames.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wirelane_port_tx(
    port: PortHandle,
    index: usize,
    tx: *mut TxHandle,
    error: *mut ErrorValue,
) -> c_int {
    // SAFETY: by contract of this function.
    unsafe {
        call("wirelane_port_tx", error, || {
            put(tx, TxHandle { id: 0 }, NOWHERE)?;
            let end = PORTS.shared(port.id)?.ends().take_tx(index)?;
            let id = TX.insert(OpenTx::new(end))?;
            put(tx, TxHandle { id }, NOWHERE)?;
            Ok(0)
        })
    }
}

/// Describes the port. `size` is sizeof(wirelane_info).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wirelane_port_info(
    port: PortHandle,
    info: *mut InfoValue,
    size: usize,
    error: *mut ErrorValue,
) -> c_int {
    // SAFETY: by contract of this function.
    unsafe {
        call("wirelane_port_info", error, || {
            put_sized(info, size, PORTS.shared(port.id)?.info(), NOWHERE).map(|()| 0)
        })
    }
}

/// The current masks.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wirelane_port_mask(
    port: PortHandle,
    mask: *mut MaskValue,
    error: *mut ErrorValue,
) -> c_int {
    // SAFETY: by contract of this function.
    unsafe {
        call("wirelane_port_mask", error, || {
            put(mask, MaskValue::of(&PORTS.shared(port.id)?.control.mask()), NOWHERE).map(|()| 0)
        })
    }
}

/// Replaces the masks while packets flow. Packets of queues that stay selected are neither lost nor
/// duplicated.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wirelane_port_set_mask(
    port: PortHandle,
    mask: *const MaskValue,
    error: *mut ErrorValue,
) -> c_int {
    // SAFETY: by contract of this function.
    unsafe {
        call("wirelane_port_set_mask", error, || {
            let mask = mask.as_ref().ok_or(CallFailure::Argument("mask is NULL"))?;
            PORTS.shared(port.id)?.control.set_mask(mask.to_mask())?;
            Ok(0)
        })
    }
}

/// Replaces the filter while packets flow. It is an expression of pcap-filter(7), or the output of
/// `tcpdump -ddd`; NULL accepts all packets that the masks select. Packets already in the rings
/// passed the old filter.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wirelane_port_set_filter(
    port: PortHandle,
    filter: *const c_char,
    error: *mut ErrorValue,
) -> c_int {
    // SAFETY: by contract of this function.
    unsafe {
        call("wirelane_port_set_filter", error, || {
            let port = PORTS.shared(port.id)?;
            port.control.set_filter(options::filter(filter)?.as_ref())?;
            Ok(0)
        })
    }
}

/// Like wirelane_port_set_filter(), with a compiled program.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wirelane_port_set_program(
    port: PortHandle,
    instructions: *const Instruction,
    count: usize,
    error: *mut ErrorValue,
) -> c_int {
    // SAFETY: by contract of this function.
    unsafe {
        call("wirelane_port_set_program", error, || {
            let port = PORTS.shared(port.id)?;
            let instructions = slice(instructions, count, "instructions is NULL")?;
            // The format of `tcpdump -ddd`: the number of instructions, then the instructions.
            let mut text = count.to_string();
            for Instruction { code, jt, jf, k } in instructions {
                text += &format!(",{code} {jt} {jf} {k}");
            }
            let program = Program::parse(port.link_type(), &text).map_err(wirelane::Error::from)?;
            port.control.set_filter(Some(&Filter::from(program)))?;
            Ok(0)
        })
    }
}

/// The counters of the receiving end at `index`, which may be closed. `size` is
/// sizeof(wirelane_rx_stats).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wirelane_port_rx_stats(
    port: PortHandle,
    index: usize,
    stats: *mut RxStatsValue,
    size: usize,
    error: *mut ErrorValue,
) -> c_int {
    // SAFETY: by contract of this function.
    unsafe {
        call("wirelane_port_rx_stats", error, || {
            put_sized(stats, size, PORTS.shared(port.id)?.rx_stats(index)?, NOWHERE).map(|()| 0)
        })
    }
}

/// The counters of the transmitting end at `index`, which may be closed. `size` is
/// sizeof(wirelane_tx_stats).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wirelane_port_tx_stats(
    port: PortHandle,
    index: usize,
    stats: *mut TxStatsValue,
    size: usize,
    error: *mut ErrorValue,
) -> c_int {
    // SAFETY: by contract of this function.
    unsafe {
        call("wirelane_port_tx_stats", error, || {
            put_sized(stats, size, PORTS.shared(port.id)?.tx_stats(index)?, NOWHERE).map(|()| 0)
        })
    }
}

/// The location of the port's frames. `size` is sizeof(wirelane_frames).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wirelane_port_frames(
    port: PortHandle,
    frames: *mut FramesValue,
    size: usize,
    error: *mut ErrorValue,
) -> c_int {
    // SAFETY: by contract of this function.
    unsafe {
        call("wirelane_port_frames", error, || {
            put_sized(frames, size, PORTS.shared(port.id)?.frames(), NOWHERE).map(|()| 0)
        })
    }
}
