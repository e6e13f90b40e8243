//! A tunnel: connects the kernel's stacks of two hosts by Ethernet over UDP.
//!
//!     sudo target/release/examples/tap wl0 192.0.2.1:5000 192.0.2.2:5000
//!     ip address add 10.1.0.1/24 dev wl0
//!
//! Start it on both hosts, with the own address before the other one. It creates the TAP interface.
//! The frames are neither encrypted nor authenticated.

use std::net::UdpSocket;
use std::sync::Arc;
use std::thread;

use wirelane::port::{self, OpenOptions};
use wirelane::{Batch, Error, Result, pipeline};

/// The longest frame that an Ethernet header, the MTU and the UDP socket allow.
const LONGEST: usize = 1514;

fn main() -> Result<()> {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let [interface, own, other] = &arguments[..] else {
        return Err(Error::usage("arguments", "an interface and two addresses are needed"));
    };
    let options = OpenOptions::default().transmit(true);
    let mut port = port::open(&format!("tap:{interface}").parse()?, &options)?;
    let (mut rx, mut tx) = (port.rx()?, port.tx()?);
    let socket = Arc::new(UdpSocket::bind(own)?);
    socket.connect(other)?;

    // From the other host to the kernel's stack.
    let from_host = Arc::clone(&socket);
    thread::spawn(move || -> Result<()> {
        let (tx, mut batch, mut bytes) = (&mut tx[0], Batch::default(), [0; LONGEST]);
        loop {
            // An error reports that the other host does not listen yet.
            let Ok(len) = from_host.recv(&mut bytes) else { continue };
            tx.allocate(&mut batch, 1);
            if batch.last_mut().is_some_and(|frame| frame.fill(&bytes[..len])) {
                tx.transmit(&mut batch);
                tx.flush()?;
            }
            batch.clear();
        }
    });

    // From the kernel's stack to the other host.
    port.start()?;
    pipeline::run(&mut rx, |_input, batch: &mut Batch| {
        // Frames that the socket refuses are lost, as on a wire.
        batch.iter().for_each(|frame| _ = socket.send(frame.data()));
        Ok(())
    })
}
