//! Sends files over TCP and compares every byte that arrives.

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use wirelane_testkit::netns::Namespace;

/// A connection without progress for this time is considered stuck.
const PATIENCE: Duration = Duration::from_secs(60);
const BLOCK: usize = 64 << 10;

/// An endless sequence of file contents that is determined by a seed (SplitMix64).
struct Content(u64);

impl Content {
    fn fill(&mut self, block: &mut [u8]) {
        for word in block.chunks_mut(8) {
            self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
            word.copy_from_slice(&(mixed ^ mixed >> 31).to_be_bytes()[..word.len()]);
        }
    }
}

/// Sends `bytes` bytes from one namespace to `address` in the other. It compares every byte, so
/// that it can report the position of a difference.
///
/// # Panics
/// When a byte differs, bytes are missing, or the connection is stuck.
pub(crate) fn transfer(from: &Namespace, to: &Namespace, address: &str, bytes: u64, seed: u64) {
    let listener = to.inside(|| TcpListener::bind((address, 0)).unwrap());
    let at = listener.local_addr().unwrap();
    thread::scope(|scope| {
        scope.spawn(|| {
            let (stream, _) = listener.accept().unwrap();
            receive(stream, address, bytes, seed);
        });
        let mut stream = from.inside(|| TcpStream::connect_timeout(&at, PATIENCE).unwrap());
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        let (mut content, mut block, mut left) = (Content(seed), [0; BLOCK], bytes);
        while left > 0 {
            let length = left.min(BLOCK as u64) as usize;
            content.fill(&mut block);
            stream.write_all(&block[..length]).unwrap();
            left -= length as u64;
        }
    });
}

fn receive(mut stream: TcpStream, address: &str, bytes: u64, seed: u64) {
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let (mut content, mut expected, mut block) = (Content(seed), [0; BLOCK], vec![0; BLOCK]);
    let mut done = 0;
    while done < bytes {
        let length = (bytes - done).min(BLOCK as u64) as usize;
        if let Err(error) = stream.read_exact(&mut block[..length]) {
            panic!("{address}: after {done} of {bytes} bytes: {error}");
        }
        content.fill(&mut expected);
        let differs = block[..length].iter().zip(&expected).position(|(a, b)| a != b);
        assert_eq!(differs, None, "{address}: the first wrong byte in the block at {done}");
        done += length as u64;
    }
    let end = stream.read(&mut block);
    let is_end =
        matches!(end, Ok(0)) || end.is_err_and(|it| it.kind() == ErrorKind::ConnectionReset);
    assert!(is_end, "{address}: more than {bytes} bytes came");
}
