use super::*;
use crate::disk::testing::Scratch;
use crate::disk::{NewFile, create};
use std::io::Read;
use std::os::fd::{AsRawFd, OwnedFd};
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

#[test]
fn dropping_waits_for_what_is_being_written() {
    const LEN: usize = 1 << 20;
    let scratch = Scratch::on_disk();
    let buffers = Buffers::new(8, LEN).unwrap();
    let file = file(&scratch, 8 * LEN);
    let mut writer = DirectWriter::new(8, &buffers);
    for number in 0..8_u8 {
        let mut buffer = buffers.take().unwrap();
        buffer.fill(number + 1);
        writer.write(&file, buffer, LEN, u64::from(number) * LEN as u64, 0);
    }
    drop((writer, file));
    // Their next holders do not change what was written.
    let mut taken: Vec<Buffer> = std::iter::from_fn(|| buffers.take()).collect();
    assert_eq!(taken.len(), 8);
    taken.iter_mut().for_each(|buffer| buffer.fill(99));
    let bytes = std::fs::read(scratch.path().join("file")).unwrap();
    for (number, bytes) in bytes.chunks(LEN).enumerate() {
        assert!(bytes.iter().all(|byte| *byte == number as u8 + 1), "{number}");
    }
}

#[test]
fn memory_is_kept_after_its_buffers_are_gone() {
    let scratch = Scratch::on_disk();
    let buffers = Buffers::new(1, SIZE).unwrap();
    let other = Buffers::new(1, SIZE).unwrap();
    let file = file(&scratch, 2 * SIZE);
    let mut writer = DirectWriter::new(2, &buffers);
    for (number, mut buffer) in [buffers.take(), other.take()].into_iter().flatten().enumerate() {
        buffer.fill(number as u8 + 1);
        // The second one is not registered.
        writer.write(&file, buffer, SIZE, (number * SIZE) as u64, 0);
    }
    drop((buffers, other, file));
    for done in drain(&mut writer) {
        done.result.unwrap();
    }
    let bytes = std::fs::read(scratch.path().join("file")).unwrap();
    assert!(bytes[..SIZE].iter().all(|byte| *byte == 1));
    assert!(bytes[SIZE..].iter().all(|byte| *byte == 2));
}

#[test]
fn a_full_disk_is_told_and_the_buffer_comes_back() {
    let buffers = Buffers::new(1, SIZE).unwrap();
    let full = Arc::new(File::options().write(true).open("/dev/full").unwrap());
    for mut writer in writers(&buffers) {
        for token in 0..3 {
            writer.write(&full, buffers.take().unwrap(), SIZE, 8192, token);
            let done = writer.done(Duration::MAX).unwrap();
            let error = done.result.unwrap_err();
            assert_eq!((done.token, error.errno()), (token, Some(libc::ENOSPC)));
            assert!(error.to_string().starts_with("write(65536 bytes at 8192): "), "{error}");
        }
        assert!(writer.done(Duration::MAX).is_none());
    }
}

#[test]
fn what_cannot_be_written_is_told() {
    let scratch = Scratch::on_disk();
    let buffers = Buffers::new(1, SIZE).unwrap();
    let file = file(&scratch, SIZE);
    let read_only = Arc::new(File::open(scratch.path().join("file")).unwrap());
    for mut writer in writers(&buffers) {
        for (file, len, errno) in [
            (&file, 0, None),
            (&file, SIZE + 1, Some(libc::EINVAL)),
            (&read_only, SIZE, Some(libc::EBADF)),
        ] {
            writer.write(file, buffers.take().unwrap(), len, 0, 0);
            let done = writer.done(Duration::MAX).unwrap();
            assert_eq!(done.result.err().and_then(|error| error.errno()), errno);
        }
    }
}

/// A pipe that holds this many pages.
fn pipe(pages: usize) -> (std::io::PipeReader, Arc<File>) {
    let (reader, writer) = std::io::pipe().unwrap();
    let writer = OwnedFd::from(writer);
    let size = (pages * ALIGNMENT) as libc::c_int;
    // SAFETY: the call takes numbers.
    let set = unsafe { libc::fcntl(writer.as_raw_fd(), libc::F_SETPIPE_SZ, size) };
    assert_eq!(set, size);
    (reader, Arc::new(File::from(writer)))
}

#[test]
fn a_write_cut_short_goes_on() {
    let buffers = Buffers::new(1, SIZE).unwrap();
    let mut writer = DirectWriter::new(1, &buffers);
    // It takes a few pages at a time, and offsets mean nothing to it.
    let (mut reader, pipe) = pipe(4);
    let mut buffer = buffers.take().unwrap();
    let content: Vec<u8> = (0..SIZE).map(|at| (at / 7) as u8).collect();
    buffer.copy_from_slice(&content);
    writer.write(&pipe, buffer, SIZE, 0, 5);
    drop(pipe);
    thread::scope(|scope| {
        let reading = scope.spawn(move || {
            let mut bytes = vec![0; SIZE];
            bytes.chunks_mut(ALIGNMENT).for_each(|page| reader.read_exact(page).unwrap());
            bytes
        });
        let done = writer.done(Duration::MAX).unwrap();
        done.result.unwrap();
        assert!(reading.join().unwrap() == content);
    });
}

#[test]
fn waiting_ends() {
    let buffers = Buffers::new(1, SIZE).unwrap();
    let mut writer = DirectWriter::new(1, &buffers);
    for wait in [Duration::ZERO, Duration::MAX] {
        assert!(writer.done(wait).is_none(), "nothing is being written");
    }
    let (mut reader, pipe) = pipe(1);
    writer.write(&pipe, buffers.take().unwrap(), SIZE, 0, 5);
    drop(pipe);
    for wait in [Duration::ZERO, Duration::from_millis(5)] {
        assert!(writer.done(wait).is_none(), "nobody reads");
        assert_eq!((writer.pending(), writer.has_room()), (1, false));
    }
    let reading = thread::spawn(move || reader.read_to_end(&mut Vec::new()).unwrap());
    assert_eq!(writer.done(Duration::MAX).unwrap().token, 5);
    drop(writer);
    assert_eq!(reading.join().unwrap(), SIZE);
}

#[test]
fn without_io_uring_it_writes_one_after_the_other() {
    let run = || {
        forbid_io_uring();
        let scratch = Scratch::on_disk();
        let buffers = Buffers::new(2, SIZE).unwrap();
        let file = file(&scratch, 2 * SIZE);
        let mut writer = DirectWriter::new(8, &buffers);
        let Mode::Blocking(Some(error)) = writer.mode() else { panic!("{:?}", writer.mode()) };
        assert_eq!(
            error.to_string(),
            "io_uring_setup(seccomp filter): Operation not permitted (EPERM)"
        );
        for number in 0..2_u8 {
            let mut buffer = buffers.take().unwrap();
            buffer.fill(number + 1);
            writer.write(&file, buffer, SIZE, u64::from(number) * SIZE as u64, number.into());
        }
        let tokens = drain(&mut writer).into_iter().map(|done| done.result.map(|()| done.token));
        assert_eq!(tokens.collect::<Result<Vec<_>>>().unwrap(), [0, 1]);
        let bytes = std::fs::read(scratch.path().join("file")).unwrap();
        assert!(bytes[..SIZE].iter().all(|byte| *byte == 1));
        assert!(bytes[SIZE..].iter().all(|byte| *byte == 2));
    };
    thread::spawn(run).join().unwrap();
}

/// Has the kernel refuse io_uring_setup(2) to this thread.
fn forbid_io_uring() {
    let operation = |code: u32, jt, jf, k| libc::sock_filter { code: code as u16, jt, jf, k };
    let mut program = [
        // The number of the call, the first word of struct seccomp_data.
        operation(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
        operation(
            libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K,
            0,
            1,
            libc::SYS_io_uring_setup as u32,
        ),
        operation(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32),
        operation(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    // SAFETY: the kernel copies the program, which lives as long as the call.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        assert_eq!(
            libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program),
            0
        );
    }
}

#[test]
fn answers_of_the_kernel() {
    let buffers = Buffers::new(1, SIZE).unwrap();
    let file = Arc::new(File::open("/dev/null").unwrap());
    let buffer = buffers.take().unwrap();
    let (len, offset, token, attempts) = (3 * ALIGNMENT, 1 << 40, 0, 0);
    let mut flight = Flight { file, buffer, len, offset, token, written: 0, attempts };
    // Whole blocks count.
    assert!(matches!(flight.advance(ALIGNMENT as i32 + 100), WriteProgress::Again));
    assert_eq!((flight.written, flight.position()), (ALIGNMENT, (1 << 40) + ALIGNMENT as u64));
    // A write of less than a block is continued at its last byte, so that the next attempt returns
    // the cause.
    assert!(matches!(flight.advance(100), WriteProgress::Again));
    assert_eq!(flight.written, ALIGNMENT + 100);
    assert!(matches!(flight.advance(0), WriteProgress::Failed(libc::EIO)));
    assert!(matches!(flight.advance(-libc::EFBIG), WriteProgress::Failed(libc::EFBIG)));
    assert_eq!(
        flight.error(libc::EFBIG).to_string(),
        "write(8092 bytes at 1099511631972): File too large (EFBIG)"
    );
    assert!(matches!(flight.advance(2 * ALIGNMENT as i32 - 100), WriteProgress::Whole));
    // What passes is tried again, but not for ever.
    for _ in 0..ATTEMPTS {
        assert!(matches!(flight.advance(-libc::EINTR), WriteProgress::Again));
    }
    assert!(matches!(flight.advance(-libc::EAGAIN), WriteProgress::Failed(libc::EAGAIN)));
}

#[test]
fn a_ring_that_was_prepared_is_taken_once() {
    let buffers = Buffers::new(4, ALIGNMENT).unwrap();
    let rings = Rings::prepare(1, 2);
    // Elsewhere io_uring may be forbidden, and then there is none.
    let is_there = format!("{rings:?}") == "Rings(1)";
    let too_deep = DirectWriter::with_rings(64, &buffers, &rings);
    assert_eq!(format!("{rings:?}") == "Rings(1)", is_there);
    let writer = DirectWriter::with_rings(2, &buffers, &rings);
    assert_eq!(format!("{rings:?}"), "Rings(0)");
    assert_eq!((writer.pending(), too_deep.pending()), (0, 0));
}

/// The lock of a recorder that was killed ends with what its ring was writing.
#[test]
fn a_file_is_kept_open_as_long_as_the_writer() {
    let buffers = Buffers::new(1, SIZE).unwrap();
    for writer in writers(&buffers) {
        let scratch = Scratch::in_memory();
        let path = scratch.path().join("lock");
        let (held, other) = (File::create(&path).unwrap(), File::create(&path).unwrap());
        held.lock().unwrap();
        writer.keep_open(&held).unwrap();
        drop(held);
        let has_ring = matches!(writer.mode(), Mode::Registered);
        assert_eq!(other.try_lock().is_err(), has_ring);
        drop(writer);
        other.try_lock().unwrap();
    }
}
