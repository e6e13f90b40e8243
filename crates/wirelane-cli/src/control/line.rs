//! Lines of bounded length over a socket, in bounded time.

use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// Longest request, and longest reply to most requests, in bytes. The longest useful request holds
/// a filter.
pub(super) const REQUEST: usize = 64 << 10;
/// Longest reply with statistics: thousands of queues, each with all counters.
pub(super) const REPLY: usize = 64 << 20;
/// Time limit of a conversation, whatever either side does. Other conversations do not wait for it.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);

/// A socket with a time limit for reading and writing lines.
pub(super) struct LineSocket<'a> {
    stream: &'a UnixStream,
    until: Instant,
}

impl<'a> LineSocket<'a> {
    /// Starts the time limit.
    pub(super) fn new(stream: &'a UnixStream) -> Self {
        Self::within(stream, PATIENCE)
    }

    fn within(stream: &'a UnixStream, patience: Duration) -> Self {
        Self { stream, until: Instant::now() + patience }
    }

    /// The next line, without its line break. Discards bytes after the line break.
    ///
    /// # Errors
    /// `InvalidData` if it is longer than `longest`, `UnexpectedEof` if it has no end, `TimedOut`.
    pub(super) fn read(&mut self, longest: usize) -> io::Result<Vec<u8>> {
        let (mut line, mut part) = (Vec::new(), [0; 16 << 10]);
        loop {
            self.stream.set_read_timeout(Some(self.left()?))?;
            let n = match self.stream.read(&mut part) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(n) => n,
                Err(error) => {
                    again(error)?;
                    continue;
                }
            };
            let new = part.get(..n).unwrap_or_default();
            let end = new.iter().position(|byte| *byte == b'\n');
            line.extend_from_slice(new.get(..end.unwrap_or(n)).unwrap_or_default());
            if line.len() > longest {
                let cause = format!("a line exceeds {longest} bytes");
                return Err(io::Error::new(ErrorKind::InvalidData, cause));
            }
            if end.is_some() {
                return Ok(line);
            }
        }
    }

    /// Writes a line. `text` holds no line break: JSON escapes them.
    ///
    /// # Errors
    /// The other side is gone, or does not read: `TimedOut`.
    pub(super) fn write(&mut self, mut text: Vec<u8>) -> io::Result<()> {
        text.push(b'\n');
        let mut rest = text.as_slice();
        while !rest.is_empty() {
            self.stream.set_write_timeout(Some(self.left()?))?;
            match self.stream.write(rest) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(n) => rest = rest.get(n..).unwrap_or_default(),
                Err(error) => again(error)?,
            }
        }
        Ok(())
    }

    /// The remaining time. A socket rejects a timeout of zero.
    fn left(&self) -> io::Result<Duration> {
        let left = self.until.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(ErrorKind::TimedOut.into()) } else { Ok(left) }
    }
}

/// Whether to try once more: only the remaining time ends the attempts.
fn again(error: io::Error) -> io::Result<()> {
    match error.kind() {
        ErrorKind::Interrupted | ErrorKind::WouldBlock | ErrorKind::TimedOut => Ok(()),
        _ => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    #[test]
    fn lines_of_any_length_up_to_the_limit() {
        for length in [0, 1, 5, REQUEST - 1, REQUEST] {
            let (a, b) = UnixStream::pair().unwrap();
            let writer = thread::spawn(move || LineSocket::new(&a).write(vec![b'x'; length]));
            assert_eq!(LineSocket::new(&b).read(REQUEST).unwrap(), vec![b'x'; length]);
            writer.join().unwrap().unwrap();
        }
    }

    #[test]
    fn a_line_that_is_too_long_or_has_no_end() {
        let (a, b) = UnixStream::pair().unwrap();
        // Few enough bytes that the socket holds them unread.
        (&a).write_all(&[b'x'; 101]).unwrap();
        let error = LineSocket::new(&b).read(100).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidData);
        assert_eq!(error.to_string(), "a line exceeds 100 bytes");
        (&a).write_all(b"y").unwrap();
        drop(a);
        assert_eq!(LineSocket::new(&b).read(100).unwrap_err().kind(), ErrorKind::UnexpectedEof);
    }

    #[test]
    fn whoever_dawdles_is_not_waited_for() {
        fn brief(stream: &UnixStream) -> LineSocket<'_> {
            LineSocket::within(stream, Duration::from_millis(20))
        }
        let (a, b) = UnixStream::pair().unwrap();
        // Single bytes do not extend the time limit.
        let drip = thread::spawn(move || {
            for _ in 0..1000 {
                thread::sleep(Duration::from_millis(5));
                if (&a).write_all(b"x").is_err() {
                    return;
                }
            }
        });
        assert_eq!(brief(&b).read(REQUEST).unwrap_err().kind(), ErrorKind::TimedOut);
        drop(b);
        drip.join().unwrap();
        // Writing to a peer that does not read ends at the limit, too.
        let (a, _b) = UnixStream::pair().unwrap();
        let error = brief(&a).write(vec![b'x'; 8 << 20]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut);
    }
}
