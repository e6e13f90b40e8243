//! A request in the kernel's layout, and the fields of its answer.

/// The buffer of a request. Words have the alignment of every structure of this interface.
pub(super) struct RequestBuffer {
    pub(super) words: Vec<u32>,
}

impl RequestBuffer {
    /// A request of `bytes` bytes: the command, and zeroes. A partial word at the end is rounded
    /// up.
    pub(super) fn new(command: u32, bytes: usize) -> RequestBuffer {
        let mut words = vec![0; bytes.div_ceil(4).max(1)];
        words[0] = command;
        RequestBuffer { words }
    }

    pub(super) fn set(&mut self, offset: usize, value: u32) {
        if let Some(word) = self.words.get_mut(offset / 4) {
            *word = value;
        }
    }

    pub(super) fn set_byte(&mut self, offset: usize, value: u8) {
        if let Some(word) = self.words.get_mut(offset / 4) {
            let mut bytes = word.to_ne_bytes();
            bytes[offset % 4] = value;
            *word = u32::from_ne_bytes(bytes);
        }
    }

    pub(super) fn bytes(&self) -> Vec<u8> {
        self.words.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }
}

pub(super) fn word(bytes: &[u8], offset: usize) -> Option<u32> {
    bytes.get(offset..)?.first_chunk().map(|word| u32::from_ne_bytes(*word))
}

pub(super) fn words(bytes: &[u8]) -> Vec<u32> {
    bytes.as_chunks().0.iter().map(|word| u32::from_ne_bytes(*word)).collect()
}

/// The text before the first zero byte of a fixed array.
pub(super) fn text(bytes: &[u8], offset: usize, length: usize) -> Option<String> {
    let field = bytes.get(offset..)?.get(..length)?;
    let field = field.split(|byte| *byte == 0).next().unwrap_or_default();
    Some(String::from_utf8_lossy(field).trim().to_owned())
}
