use super::*;
use crate::disk::testing::Scratch;
use crate::disk::{NewFile, create};
use std::path::Path;

const SIZE: usize = 64 * 1024;

/// A ring with registered memory, and one write after the other.
fn writers(buffers: &Buffers) -> [DirectWriter; 2] {
    let ring = DirectWriter::new(4, buffers);
    assert!(matches!(ring.mode(), Mode::Registered), "{:?}", ring.mode());
    [ring, DirectWriter::blocking()]
}

fn file(scratch: &Scratch, size: usize) -> Arc<File> {
    let NewFile { file, .. } =
        create(scratch.directory(), Path::new("file"), 0o600, size as u64).unwrap();
    Arc::new(file)
}

fn drain(writer: &mut DirectWriter) -> Vec<Done> {
    std::iter::from_fn(|| writer.done(Duration::MAX)).collect()
}

#[test]
#[cfg_attr(miri, ignore = "Miri has no io_uring")]
fn what_was_written_is_in_the_file() {
    for scratch in [Scratch::on_disk(), Scratch::in_memory()] {
        let buffers = Buffers::new(6, SIZE).unwrap();
        for mut writer in writers(&buffers) {
            let file = file(&scratch, 32 * SIZE);
            let mut tokens = Vec::new();
            for number in 0..32 {
                let mut buffer = loop {
                    if let Some(buffer) = buffers.take() {
                        break buffer;
                    }
                    tokens.push(writer.done(Duration::MAX).unwrap().token);
                };
                buffer.fill(number as u8 + 1);
                writer.write(&file, buffer, SIZE, number * SIZE as u64, number);
            }
            for done in drain(&mut writer) {
                done.result.unwrap();
                tokens.push(done.token);
            }
            assert_eq!(writer.pending(), 0);
            tokens.sort_unstable();
            assert!(tokens.into_iter().eq(0..32));
            let bytes = std::fs::read(scratch.path().join("file")).unwrap();
            for (number, bytes) in bytes.chunks(SIZE).enumerate() {
                assert!(bytes.iter().all(|byte| *byte == number as u8 + 1), "{number}");
            }
            std::fs::remove_file(scratch.path().join("file")).unwrap();
        }
        assert_eq!(std::iter::from_fn(|| buffers.take()).collect::<Vec<_>>().len(), 6);
    }
}
