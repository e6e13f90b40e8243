//! Error texts in C buffers.
#![allow(unsafe_code)]

use std::ffi::c_char;

use crate::abi::ERRBUF_SIZE;

/// A C string, truncated to `PCAP_ERRBUF_SIZE`.
pub(crate) struct ErrorText([c_char; ERRBUF_SIZE]);

impl ErrorText {
    /// No text.
    pub(crate) const fn new() -> Self {
        Self([0; ERRBUF_SIZE])
    }

    /// Replaces the text. Truncates at a NUL and at the size limit, between characters.
    pub(crate) fn set(&mut self, text: &str) {
        let text = text.split('\0').next().unwrap_or_default();
        let end = text.floor_char_boundary(ERRBUF_SIZE - 1);
        self.set_bytes(text.as_bytes().get(..end).unwrap_or_default());
    }

    /// Replaces it by bytes, up to a NUL or the size limit.
    pub(crate) fn set_bytes(&mut self, bytes: &[u8]) {
        self.0 = [0; ERRBUF_SIZE];
        let bytes = bytes.iter().take(ERRBUF_SIZE - 1).take_while(|byte| **byte != 0);
        for (to, from) in self.0.iter_mut().zip(bytes) {
            *to = *from as c_char;
        }
    }

    /// Copies it with its NUL to a C buffer.
    ///
    /// # Safety
    /// The buffer has `PCAP_ERRBUF_SIZE` bytes.
    pub(crate) unsafe fn copy_to(&self, buffer: *mut c_char) {
        let len = self.0.iter().take_while(|c| **c != 0).count() + 1;
        // SAFETY: by contract; the last of our bytes is 0, so `len` is within both.
        unsafe { std::ptr::copy_nonoverlapping(self.0.as_ptr(), buffer, len) }
    }

    /// For C code, which may write to it.
    pub(crate) fn as_mut_ptr(&mut self) -> *mut c_char {
        self.0.as_mut_ptr()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &ErrorText) -> String {
        let bytes = text.0.iter().take_while(|c| **c != 0).map(|c| *c as u8).collect();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn texts_are_cut_between_characters_and_end() {
        let mut text = ErrorText::new();
        text.set(&"ä".repeat(200));
        assert_eq!(read(&text), "ä".repeat(127));
        text.set("short\0hidden");
        assert_eq!(read(&text), "short");
    }
}
