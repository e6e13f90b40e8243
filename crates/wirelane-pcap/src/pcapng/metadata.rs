//! Blocks beside packets, interfaces and counters: names, secrets, and blocks that other programs
//! define.

use super::blocks::*;
use super::options::{Of, copy, first};
use crate::losses::Losses;

/// A block that is copied as a whole, unlike packets, interfaces and sections.
///
/// Holds one whole block in the byte order of this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MetadataBlock<'a>(&'a [u8]);

/// The contents of a [`MetadataBlock`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetadataKind {
    /// Names of addresses (name resolution block).
    Names,
    /// Secrets for decryption, such as TLS session keys (decryption secrets block).
    Secrets,
    /// Other blocks: custom blocks, journal entries, and blocks of unknown types.
    Other,
}

impl<'a> MetadataBlock<'a> {
    /// Takes the bytes of a block; `None` if they are not one whole block, or if readers decode
    /// this type of block.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Option<Self> {
        let size = bytes.get(4..)?.first_chunk().map(|size| u32::from_ne_bytes(*size))?;
        let is_whole = size as usize == bytes.len()
            && bytes.len() >= BLOCK_OVERHEAD
            && bytes.len().is_multiple_of(4)
            && bytes.last_chunk() == Some(&size.to_ne_bytes());
        let metadata = Self(bytes);
        let is_other = !matches!(
            metadata.block_type(),
            SECTION_HEADER
                | INTERFACE_DESCRIPTION
                | OBSOLETE_PACKET
                | SIMPLE_PACKET
                | INTERFACE_STATISTICS
                | ENHANCED_PACKET
        );
        (is_whole && is_other).then_some(metadata)
    }

    /// All bytes of the block.
    #[must_use]
    pub fn bytes(&self) -> &'a [u8] {
        self.0
    }

    /// The contents of this block.
    #[must_use]
    pub fn kind(&self) -> MetadataKind {
        match self.block_type() {
            NAME_RESOLUTION => MetadataKind::Names,
            DECRYPTION_SECRETS => MetadataKind::Secrets,
            _ => MetadataKind::Other,
        }
    }

    fn block_type(&self) -> u32 {
        self.0.first_chunk().map_or(0, |kind| u32::from_ne_bytes(*kind))
    }
}

impl Losses {
    /// Counts a block beside packets that was not copied.
    pub fn count(&mut self, kind: MetadataKind) {
        match kind {
            MetadataKind::Names => self.names += 1,
            MetadataKind::Secrets => self.secrets += 1,
            MetadataKind::Other => self.other_blocks += 1,
        }
    }
}

/// Whether the type of a block forbids copying it into a changed file.
pub(super) fn is_private(kind: u32) -> bool {
    kind == CUSTOM_PRIVATE
}

/// Writes a block of the other byte order to `out` in the byte order of this machine; false if the
/// layout of the block is not known here, or if the block is broken. `lost` counts the parts that
/// were left out.
pub(super) fn translate(kind: u32, block: &[u8], out: &mut Vec<u8>, lost: &mut Losses) -> bool {
    out.clear();
    let Some(body) = block.get(8..).and_then(|rest| rest.split_last_chunk::<4>()) else {
        return false;
    };
    out.extend_from_slice(&kind.to_ne_bytes());
    out.extend_from_slice(&[0; 4]);
    let is_done = match kind {
        NAME_RESOLUTION => names(body.0, out, lost),
        DECRYPTION_SECRETS => secrets(body.0, out, lost).is_some(),
        // Padded text.
        SYSTEMD_JOURNAL => {
            out.extend_from_slice(body.0);
            true
        }
        _ => false,
    };
    let len = ((out.len() + 4) as u32).to_ne_bytes();
    out.extend_from_slice(&len);
    if let Some(field) = out.get_mut(4..8) {
        field.copy_from_slice(&len);
    }
    is_done
}

/// Records have the form of options; the options of the block follow them.
fn names(mut body: &[u8], out: &mut Vec<u8>, lost: &mut Losses) -> bool {
    let number = |bytes| u16::from_ne_bytes(bytes).swap_bytes();
    while let Some((kind, value, after)) = first(body, number) {
        super::options::put_option(out, kind, value);
        body = after;
    }
    out.extend_from_slice(&[0; 4]);
    let Some(options) = body.get(4..) else { return body.is_empty() };
    end_options(options, out, lost);
    true
}

fn secrets(body: &[u8], out: &mut Vec<u8>, lost: &mut Losses) -> Option<()> {
    let word = |at: usize| {
        let bytes = body.get(at..)?.first_chunk()?;
        Some(u32::from_ne_bytes(*bytes).swap_bytes())
    };
    let (kind, len) = (word(0)?, word(4)?);
    let data = body.get(8..)?.get(..len as usize)?;
    out.extend_from_slice(&kind.to_ne_bytes());
    out.extend_from_slice(&len.to_ne_bytes());
    out.extend_from_slice(data);
    out.resize(out.len().next_multiple_of(4), 0);
    end_options(body.get(8 + data.len().next_multiple_of(4)..).unwrap_or_default(), out, lost);
    Some(())
}

fn end_options(options: &[u8], out: &mut Vec<u8>, lost: &mut Losses) {
    let before = out.len();
    copy(Of::Text, true, options, out, lost, |_, _| true);
    if out.len() > before {
        out.extend_from_slice(&[0; 4]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_blocks_are_taken() {
        let block = |kind: u32, body: &[u8]| {
            let mut block = kind.to_ne_bytes().to_vec();
            let len = (12 + body.len() as u32).to_ne_bytes();
            block.extend_from_slice(&len);
            block.extend_from_slice(body);
            block.extend_from_slice(&len);
            block
        };
        let secrets = block(DECRYPTION_SECRETS, &[0; 8]);
        assert_eq!(MetadataBlock::new(&secrets).unwrap().kind(), MetadataKind::Secrets);
        assert_eq!(MetadataBlock::new(&block(0xbad, &[0; 4])).unwrap().kind(), MetadataKind::Other);
        for len in 0..secrets.len() {
            assert_eq!(MetadataBlock::new(&secrets[..len]), None);
        }
        for kind in [ENHANCED_PACKET, INTERFACE_DESCRIPTION, SECTION_HEADER] {
            assert_eq!(MetadataBlock::new(&block(kind, &[0; 32])), None);
        }
        assert_eq!(MetadataBlock::new(&block(DECRYPTION_SECRETS, &[0; 7])), None);
    }
}
