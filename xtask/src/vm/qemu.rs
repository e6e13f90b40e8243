//! The emulated machine: two igb on one cable, two virtio_net on another.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use wirelane_os::child::end_with_thread;
use wirelane_testkit::netns::Namespace;

use super::packages::{Kernel, Qemu};
use super::plan::CPUS;

/// The TAP devices of the virtio_net, which can have several queues.
const TAPS: [&str; 2] = ["tap0", "tap1"];

/// The parts of a guest to boot.
pub(crate) struct Guest<'a> {
    pub(crate) kernel: &'a Kernel,
    pub(crate) initramfs: &'a Path,
    pub(crate) share: Share,
    /// Queue pairs of each virtio_net.
    pub(crate) virtio_queues: u16,
}

/// The files of this machine that the guest can see.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Share {
    Nothing,
    /// All files, read-only.
    Files,
}

/// Boots `guest`, passes each line of the second serial port to `line`, and returns when it has
/// powered off, after `limit` at the latest.
///
/// The kernel's messages are written to the file `console`.
pub(crate) fn boot(
    qemu: &Qemu,
    guest: &Guest<'_>,
    console: &Path,
    limit: Duration,
    mut line: impl FnMut(&str),
) -> Result<(), String> {
    let namespace = cable(guest.virtio_queues);
    let mut command = qemu.command();
    machine(&mut command, guest.share);
    igb(&mut command);
    virtio(&mut command, guest.virtio_queues);
    command
        .arg("-kernel")
        .arg(&guest.kernel.image)
        .arg("-initrd")
        .arg(guest.initramfs)
        .args(["-append", "console=ttyS0 panic=-1"])
        .args(["-serial", &format!("file:{}", console.display()), "-serial", "stdio"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped());
    // A child starts in the namespace of the calling thread.
    let child = namespace.inside(|| end_with_thread(&mut command).spawn());
    let mut child = child.map_err(|error| format!("cannot start QEMU: {error}"))?;

    let deadline = Instant::now() + limit;
    let ending = follow(&mut child, deadline, &mut line).and_then(|()| end(&mut child, deadline));
    if ending.is_err() {
        let _ = child.kill();
        let _ = child.wait();
    }
    ending
}

/// A bridge between two TAP devices, in a separate namespace. It learns no addresses: every frame
/// that enters at one end leaves at the other.
fn cable(queues: u16) -> Namespace {
    let namespace = Namespace::new();
    let ip = |arguments: &str| namespace.run("ip", arguments.split(' '));
    let several = if queues > 1 { "multi_queue " } else { "" };
    ip("link add cable type bridge ageing_time 0 mcast_snooping 0");
    for tap in TAPS {
        ip(&format!("tuntap add mode tap {several}name {tap}"));
        ip(&format!("link set {tap} master cable up"));
    }
    ip("link set cable up");
    namespace
}

fn machine(command: &mut Command, share: Share) {
    command.args(["-M", "q35", "-accel", "tcg,thread=multi", "-cpu", "max"]);
    command.args(["-smp", &CPUS.to_string()]);
    command.args(["-nodefaults", "-no-reboot", "-display", "none", "-monitor", "none"]);
    match share {
        Share::Nothing => command.args(["-m", "1024"]),
        Share::Files => command.args(["-m", "2048"]).args(FILES),
    };
}

/// The file system of this machine through 9p, with a tag that `guest-init` uses.
const FILES: [&str; 4] = [
    "-fsdev",
    "local,id=host,path=/,security_model=none,readonly=on,multidevs=remap",
    "-device",
    "virtio-9p-pci,fsdev=host,mount_tag=host",
];

/// Each igb needs a separate root port: its virtual functions take further slots of the bus.
fn igb(command: &mut Command) {
    for number in 0..2 {
        let port = format!("pcie-root-port,id=port{number},chassis={number}");
        let device = format!("igb,netdev=hub{number},bus=port{number},mac={}", mac(0x10, number));
        command
            .args(["-netdev", &format!("hubport,hubid=0,id=hub{number}")])
            .args(["-device", &port, "-device", &device]);
    }
}

/// AF_XDP needs a virtio_net without the offloads that let frames exceed the MTU (virtnet_xdp_set).
/// Zero copy also needs the kernel's DMA interface, which `iommu_platform` selects
/// (virtnet_xsk_pool_enable). With `rss`, the guest determines how flows are spread over its
/// queues, like the driver of a network card; without it the TAP device does.
fn virtio(command: &mut Command, queues: u16) {
    let several = if queues > 1 { "on" } else { "off" };
    for (number, tap) in (0..).zip(TAPS) {
        let netdev = format!(
            "tap,id=virtio{number},ifname={tap},queues={queues},vhost=off,script=no,downscript=no"
        );
        let vectors = 2 * queues + 2;
        let device = format!(
            "virtio-net-pci,netdev=virtio{number},mac={},mq={several},rss={several},\
             vectors={vectors},romfile=,disable-legacy=on,iommu_platform=on,\
             guest_tso4=off,guest_tso6=off,guest_ufo=off,guest_ecn=off,guest_uso4=off,guest_uso6=off",
            mac(0x20, number)
        );
        command.args(["-netdev", &netdev, "-device", &device]);
    }
}

fn mac(kind: u8, number: u8) -> String {
    format!("02:57:4c:00:{kind:02x}:{number:02x}")
}

/// Passes on the guest's output until its end or the time limit.
fn follow(child: &mut Child, deadline: Instant, line: &mut impl FnMut(&str)) -> Result<(), String> {
    let stdout = child.stdout.take().ok_or("QEMU has no output")?;
    let (sender, lines) = channel();
    // The thread ends with QEMU, at the end of its output.
    thread::spawn(move || {
        let mut reader = BufReader::new(stdout);
        let mut bytes = Vec::new();
        while matches!(reader.read_until(b'\n', &mut bytes), Ok(1..)) {
            if sender.send(String::from_utf8_lossy(&bytes).into_owned()).is_err() {
                break;
            }
            bytes.clear();
        }
    });
    loop {
        match lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(text) => line(text.trim_end()),
            Err(RecvTimeoutError::Disconnected) => return Ok(()),
            Err(RecvTimeoutError::Timeout) => return Err(TOO_LONG.to_owned()),
        }
    }
}

/// Waits for QEMU, which has closed its output.
fn end(child: &mut Child, deadline: Instant) -> Result<(), String> {
    loop {
        match child.try_wait() {
            Ok(Some(status)) if status.success() => return Ok(()),
            Ok(Some(status)) => return Err(format!("QEMU ended with {status}")),
            Ok(None) if Instant::now() < deadline => thread::sleep(Duration::from_millis(10)),
            Ok(None) => return Err(TOO_LONG.to_owned()),
            Err(error) => return Err(format!("cannot wait for QEMU: {error}")),
        }
    }
}

const TOO_LONG: &str = "the guest ran for too long and was stopped";
