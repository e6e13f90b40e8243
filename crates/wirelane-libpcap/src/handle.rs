//! What a `pcap_t *` points to.

use std::cell::RefCell;

use crate::text::ErrorText;

/// A `pcap_t`. Programs use one from one thread at a time, but for `pcap_breakloop`, which any thread
/// or signal handler may call; and a callback may call functions with the handle that called it. So
/// what `pcap_breakloop` needs is outside of `inner`, and nobody borrows `inner` while a callback runs.
pub(crate) struct Handle {
    pub(crate) inner: RefCell<Inner>,
}

/// What one thread at a time uses.
pub(crate) struct Inner {
    pub(crate) error: ErrorText,
}
