//! The object behind a `pcap_t *`.
#![allow(unsafe_code)]

use std::cell::UnsafeCell;
use std::ffi::{CStr, c_char, c_int};
use std::sync::OnceLock;

use crate::abi::status;
use crate::breaker::Breaker;
use crate::device::PortOpening;
use crate::failure::PcapFailure;
use crate::live::{HandleOptions, LiveHandle};
use crate::lock::Lock;
use crate::real::Real;
use crate::text::ErrorText;

/// A `pcap_t`.
///
/// ```text
///  pcap_create ─▶ Created ──pcap_activate──▶ Live          a port of Wirelane
///       │            └─────────────────────▶ + real        what only the real library can open
///       └─ any, nflog, …; savefiles ───────▶ + real        from the start
/// ```
///
/// Except for `pcap_breakloop`, which any thread or signal handler may call, programs use a handle
/// from one thread at a time. Many also send or read statistics while another thread reads packets,
/// so a lock guards `inner`. No thread holds it while a callback runs or a thread waits.
pub(crate) struct PcapHandle {
    /// Ends a loop.
    pub(crate) breaker: Breaker,
    /// Text for `pcap_geterr`, at one address.
    error: UnsafeCell<ErrorText>,
    /// Once set, every call is forwarded to it.
    real: OnceLock<Real>,
    inner: Lock<HandleContents>,
}

// SAFETY: `error` is written by the thread that uses the handle, as the contract of libpcap has it;
// the rest is atomic or locked.
unsafe impl Sync for PcapHandle {}

/// The state that one thread at a time uses.
pub(crate) struct HandleContents {
    pub(crate) state: HandleState,
}

pub(crate) enum HandleState {
    /// The program can still configure it.
    Created(HandleOptions, Box<PortOpening>),
    /// It captures.
    Live(Box<LiveHandle>),
    /// Every call is forwarded to the real library.
    Forwarded,
}

impl PcapHandle {
    /// A handle to configure and activate.
    pub(crate) fn new(options: HandleOptions, opening: Box<PortOpening>) -> Box<Self> {
        Self::of(HandleState::Created(options, opening))
    }

    /// A handle of the real library.
    pub(crate) fn of_real(real: Real) -> Box<Self> {
        let handle = Self::of(HandleState::Forwarded);
        handle.become_real(real);
        handle
    }

    fn of(state: HandleState) -> Box<Self> {
        Box::new(Self {
            breaker: Breaker::new(),
            error: UnsafeCell::new(ErrorText::new()),
            real: OnceLock::new(),
            inner: Lock::new(HandleContents { state }),
        })
    }

    /// Forwards every later call to `real`. If one is set already, it remains.
    pub(crate) fn become_real(&self, real: Real) {
        if let Err(second) = self.real.set(real) {
            drop(second);
        }
    }

    /// The handle that calls are forwarded to.
    #[inline]
    pub(crate) fn real(&self) -> Option<&Real> {
        self.real.get()
    }

    /// Runs `body` on the state. Returns `None` if this thread already holds the lock, which
    /// happens in a signal handler that interrupted the holder.
    pub(crate) fn with<R>(&self, body: impl FnOnce(&mut HandleContents) -> R) -> Option<R> {
        self.inner.with(body)
    }

    /// Runs `body` on the capture. If there is none, the error text is set.
    ///
    /// # Errors
    /// The status to return.
    pub(crate) fn with_live<R>(&self, body: impl FnOnce(&mut LiveHandle) -> R) -> Result<R, c_int> {
        let done = self.with(|inner| match &mut inner.state {
            HandleState::Live(live) => Some(body(live)),
            HandleState::Created(..) | HandleState::Forwarded => None,
        });
        match done {
            Some(Some(result)) => Ok(result),
            Some(None) => Err(self.refuse(NOT_ACTIVATED, status::ERROR_NOT_ACTIVATED)),
            None => Err(self.fail(IN_USE)),
        }
    }

    /// The result of `body`, or the status of a handle that is not activated, without a text.
    pub(crate) fn activated(&self, body: impl FnOnce(&mut LiveHandle) -> c_int) -> c_int {
        let number = self.with(|inner| match &mut inner.state {
            HandleState::Live(live) => body(live),
            HandleState::Created(..) | HandleState::Forwarded => status::ERROR_NOT_ACTIVATED,
        });
        number.unwrap_or_else(|| self.fail(IN_USE))
    }

    /// Runs `body` on the options of a handle that is not activated.
    ///
    /// # Errors
    /// The status to return; the error text is set.
    pub(crate) fn with_options<R>(
        &self,
        body: impl FnOnce(&mut HandleOptions) -> R,
    ) -> Result<R, c_int> {
        let done = self.with(|inner| match &mut inner.state {
            HandleState::Created(options, _) => Some(body(options)),
            HandleState::Live(_) | HandleState::Forwarded => None,
        });
        match done {
            Some(Some(result)) => Ok(result),
            _ => Err(self.refuse(ACTIVATED, status::ERROR_ACTIVATED)),
        }
    }

    /// Sets the error text, and returns `PCAP_ERROR`.
    pub(crate) fn fail(&self, text: &str) -> c_int {
        self.refuse(text, status::ERROR)
    }

    /// Sets the error text, and returns `status`.
    pub(crate) fn refuse(&self, text: &str, status: c_int) -> c_int {
        self.say(text);
        status
    }

    /// Sets the failure's text, and returns its status.
    pub(crate) fn fail_with(&self, failure: &PcapFailure) -> c_int {
        self.refuse(&failure.text, failure.status)
    }

    /// Sets the text for `pcap_geterr`, in any encoding, because file names may have any.
    pub(crate) fn say_bytes(&self, text: &[u8]) {
        let mut error = ErrorText::new();
        error.set_bytes(text);
        // SAFETY: the buffer that programs read, of us or of the library, has `PCAP_ERRBUF_SIZE`
        // bytes.
        unsafe { error.copy_to(self.error()) }
    }

    /// Sets the text for `pcap_geterr`.
    pub(crate) fn say(&self, text: &str) {
        // SAFETY: the thread that uses the handle has no other reference, as none leaves this file.
        unsafe { (*self.error.get()).set(text) }
    }

    /// The text for `pcap_geterr`, at a fixed address.
    pub(crate) fn error(&self) -> *mut c_char {
        if let Some(real) = self.real() {
            // SAFETY: the handle is open.
            return unsafe { (real.library.pcap_geterr)(real.as_ptr()) };
        }
        // SAFETY: as in `say`; the pointer is made from the cell and stays valid.
        unsafe { (*self.error.get()).as_mut_ptr() }
    }

    /// The bytes of the error text.
    pub(crate) fn said(&self) -> Vec<u8> {
        // SAFETY: a string, of ours or of the library.
        unsafe { CStr::from_ptr(self.error()) }.to_bytes().to_vec()
    }
}

/// libpcap's text before activation.
const NOT_ACTIVATED: &str = "This handle hasn't been activated yet";
/// The error in a signal handler.
const IN_USE: &str = "the signal interrupted a call that uses this handle";
/// libpcap's text for options set after activation.
const ACTIVATED: &str = "can't perform  operation on activated capture";
