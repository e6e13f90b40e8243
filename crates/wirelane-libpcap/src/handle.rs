//! What a `pcap_t *` points to.
#![allow(unsafe_code)]

use std::cell::UnsafeCell;
use std::ffi::{CStr, c_char, c_int};
use std::sync::OnceLock;

use crate::abi::status;
use crate::breaker::Breaker;
use crate::device::Opening;
use crate::failure::Failure;
use crate::live::{Live, Options};
use crate::lock::Lock;
use crate::real::Real;
use crate::text::ErrorText;

/// A `pcap_t`.
///
/// ```text
///  pcap_create ─▶ Created ──pcap_activate──▶ Live          a port of ours
///       │            └─────────────────────▶ + real        what only the real library can open
///       └─ any, nflog, …; savefiles ───────▶ + real        from the start
/// ```
///
/// Programs use one from one thread at a time, but for `pcap_breakloop`, which any thread or signal
/// handler may call. Many also send or read statistics while another thread reads packets, so
/// `inner` is behind a lock, which nobody has while a callback runs or a thread waits.
pub(crate) struct Handle {
    /// What ends a loop.
    pub(crate) breaker: Breaker,
    /// Text for `pcap_geterr`, at one address.
    error: UnsafeCell<ErrorText>,
    /// Once it is there, everything is forwarded to it.
    real: OnceLock<Real>,
    inner: Lock<Inner>,
}

// SAFETY: `error` is written by the thread that uses the handle, as the contract of libpcap has it;
// the rest is atomic or locked.
unsafe impl Sync for Handle {}

/// What one thread at a time uses.
pub(crate) struct Inner {
    pub(crate) state: State,
}

/// How far a handle is.
pub(crate) enum State {
    /// It can be configured.
    Created(Options, Box<Opening>),
    /// It captures.
    Live(Box<Live>),
    /// Everything is forwarded to the real library.
    Forwarded,
}

impl Handle {
    /// One to be configured and activated.
    pub(crate) fn new(options: Options, opening: Box<Opening>) -> Box<Self> {
        Self::of(State::Created(options, opening))
    }

    /// One of the real library.
    pub(crate) fn of_real(real: Real) -> Box<Self> {
        let handle = Self::of(State::Forwarded);
        handle.become_real(real);
        handle
    }

    fn of(state: State) -> Box<Self> {
        Box::new(Self {
            breaker: Breaker::new(),
            error: UnsafeCell::new(ErrorText::new()),
            real: OnceLock::new(),
            inner: Lock::new(Inner { state }),
        })
    }

    /// From now on everything is forwarded to `real`. The first one stays.
    pub(crate) fn become_real(&self, real: Real) {
        if let Err(second) = self.real.set(real) {
            drop(second);
        }
    }

    /// What everything is to be forwarded to.
    #[inline]
    pub(crate) fn real(&self) -> Option<&Real> {
        self.real.get()
    }

    /// Runs `body` with what one thread at a time uses. `None` if this thread is in the middle of
    /// that: a signal handler has interrupted it.
    pub(crate) fn with<R>(&self, body: impl FnOnce(&mut Inner) -> R) -> Option<R> {
        self.inner.with(body)
    }

    /// Runs `body` with the capture; the error is said already if there is none.
    ///
    /// # Errors
    /// The status to return.
    pub(crate) fn with_live<R>(&self, body: impl FnOnce(&mut Live) -> R) -> Result<R, c_int> {
        let done = self.with(|inner| match &mut inner.state {
            State::Live(live) => Some(body(live)),
            State::Created(..) | State::Forwarded => None,
        });
        match done {
            Some(Some(result)) => Ok(result),
            Some(None) => Err(self.refuse(NOT_ACTIVATED, status::ERROR_NOT_ACTIVATED)),
            None => Err(self.fail(IN_USE)),
        }
    }

    /// What `body` says of the capture, or the status of a handle that is not activated, without a
    /// text.
    pub(crate) fn activated(&self, body: impl FnOnce(&mut Live) -> c_int) -> c_int {
        let number = self.with(|inner| match &mut inner.state {
            State::Live(live) => body(live),
            State::Created(..) | State::Forwarded => status::ERROR_NOT_ACTIVATED,
        });
        number.unwrap_or_else(|| self.fail(IN_USE))
    }

    /// Runs `body` with the options, if it is not activated.
    ///
    /// # Errors
    /// The status to return; the error is said already.
    pub(crate) fn with_options<R>(&self, body: impl FnOnce(&mut Options) -> R) -> Result<R, c_int> {
        let done = self.with(|inner| match &mut inner.state {
            State::Created(options, _) => Some(body(options)),
            State::Live(_) | State::Forwarded => None,
        });
        match done {
            Some(Some(result)) => Ok(result),
            _ => Err(self.refuse(ACTIVATED, status::ERROR_ACTIVATED)),
        }
    }

    /// Says why, and returns `PCAP_ERROR`.
    pub(crate) fn fail(&self, text: &str) -> c_int {
        self.refuse(text, status::ERROR)
    }

    /// Says why, and returns `status`.
    pub(crate) fn refuse(&self, text: &str, status: c_int) -> c_int {
        self.say(text);
        status
    }

    /// Says why, and returns the status of it.
    pub(crate) fn fail_with(&self, failure: &Failure) -> c_int {
        self.refuse(&failure.text, failure.status)
    }

    /// Sets the text for `pcap_geterr`, which may be in any encoding, as names of files are.
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

    /// The text for `pcap_geterr`, which stays where it is.
    pub(crate) fn error(&self) -> *mut c_char {
        if let Some(real) = self.real() {
            // SAFETY: the handle is open.
            return unsafe { (real.library.pcap_geterr)(real.as_ptr()) };
        }
        // SAFETY: as in `say`; the pointer is made from the cell and stays valid.
        unsafe { (*self.error.get()).as_mut_ptr() }
    }

    /// The bytes of that text.
    pub(crate) fn said(&self) -> Vec<u8> {
        // SAFETY: a string, of ours or of the library.
        unsafe { CStr::from_ptr(self.error()) }.to_bytes().to_vec()
    }
}

/// What libpcap says before activation.
const NOT_ACTIVATED: &str = "This handle hasn't been activated yet";
/// What we say in a signal handler.
const IN_USE: &str = "the handle is in use by what this signal has interrupted";
/// What libpcap says of options after activation.
const ACTIVATED: &str = "can't perform  operation on activated capture";
