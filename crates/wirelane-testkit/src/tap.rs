//! A multi-queue TAP device: a frame that a test writes to queue i arrives on RX queue i.

use std::io::ErrorKind;

use wirelane_os::iface;
use wirelane_os::tun::{Options, Tap};

use crate::netns::Namespace;

/// A TAP device in a namespace. It is up, and is removed when the guard is dropped.
#[derive(Debug)]
pub struct MultiQueueTap {
    tap: Tap,
}

impl MultiQueueTap {
    /// Creates the device `name` with `queues` queues inside `ns`.
    ///
    /// # Panics
    /// When it cannot be created or brought up.
    #[track_caller]
    pub fn new(ns: &Namespace, name: &str, queues: usize) -> Self {
        let _entered = ns.enter();
        let tap = Tap::open(name, queues, Options::default())
            .unwrap_or_else(|error| panic!("cannot create the TAP device {name}: {error}"));
        iface::up(name).unwrap_or_else(|error| panic!("cannot bring {name} up: {error}"));
        Self { tap }
    }

    /// The name of the interface.
    pub fn name(&self) -> &str {
        self.tap.name()
    }

    /// The number of queues.
    pub fn queues(&self) -> usize {
        self.tap.queues()
    }

    /// Makes the interface receive `frame` on its RX queue `queue`.
    ///
    /// # Panics
    /// When the device does not accept it.
    #[track_caller]
    pub fn write(&self, queue: usize, frame: &[u8]) {
        match self.tap.write(queue, frame) {
            Ok(written) => assert_eq!(written, frame.len(), "queue {queue} cut a frame"),
            Err(error) => panic!("cannot write to queue {queue} of {}: {error}", self.name()),
        }
    }

    /// Reads the next frame that the interface has sent on its TX queue `queue`; `None` when there
    /// is none yet.
    ///
    /// # Panics
    /// When reading fails for another reason.
    #[track_caller]
    pub fn read(&self, queue: usize) -> Option<Vec<u8>> {
        let mut frame = vec![0; 1 << 16];
        match self.tap.read(queue, &mut frame) {
            Ok(length) => {
                frame.truncate(length);
                Some(frame)
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => None,
            Err(error) => panic!("cannot read from queue {queue} of {}: {error}", self.name()),
        }
    }

    /// Reads all frames that the interface has sent and the test has not yet read, with their TX
    /// queues.
    ///
    /// # Panics
    /// When reading fails.
    #[track_caller]
    pub fn drain(&self) -> Vec<(usize, Vec<u8>)> {
        let mut frames = Vec::new();
        for queue in 0..self.queues() {
            while let Some(frame) = self.read(queue) {
                frames.push((queue, frame));
            }
        }
        frames
    }
}
