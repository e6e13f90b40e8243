//! Decompresses arbitrary bytes as frames of lz4 and zstd without a panic. Compressed bytes
//! decompress to the same bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wirelane_pcap::{Compression, CompressionOptions, FrameCompressor, FrameDecompressor};

fuzz_target!(|bytes: &[u8]| {
    for compression in [Compression::Lz4, Compression::Zstd] {
        let mut decompressor = FrameDecompressor::new(compression).unwrap();
        // The first two bytes give the length of the content.
        if let Some((len, frame)) = bytes.split_first_chunk::<2>() {
            let mut out = vec![0; u16::from_le_bytes(*len).into()];
            let _ = decompressor.decompress(frame, &mut out);
        }
        let mut compressor =
            FrameCompressor::new(CompressionOptions::fastest(compression)).unwrap();
        let mut frame = vec![0; compressor.bound(bytes.len())];
        let len = compressor.compress(bytes, &mut frame).unwrap();
        let mut out = vec![1; bytes.len()];
        decompressor.decompress(&frame[..len], &mut out).unwrap();
        assert!(out == bytes, "{compression:?}");
    }
});
