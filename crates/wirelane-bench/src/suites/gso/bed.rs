//! One trial: two namespaces, a path between them, and a transfer over it.
//!
//! ```text
//!   wirelane, none, stack:
//!     sender ─ stack ─ wl-tap ─ forward ─ wl-a ═══ veth ═══ wl-b ─ stack ─ receiver
//!   kernel:
//!     sender ─ stack ───────────────────── wl-a ═══ veth ═══ wl-b ─ stack ─ receiver
//!   all of vm-:
//!     sender ─ stack ─ wl-tap ─ forward ─ wl-tap-far ─────────────── stack ─ receiver
//! ```
//!
//! The offload selects the place where TCP is segmented and UDP is fragmented:
//!
//! * `kernel`: TCP is not segmented. The veth accepts frames of up to 64 KB, like hardware with
//!   TSO, and Wirelane does not take part. The kernel's stack fragments UDP.
//! * `wirelane`: `forward --gso` segments behind the TAP device, which accepts frames of up to 64
//!   KB, and whose MTU exceeds a datagram.
//! * `device`: TCP is not segmented. `packet:IF` leaves frames to the device (`vnet=auto`), and the
//!   veth accepts them as with `kernel`.
//! * `partial`: the kernel's software segments TCP behind the port, because the veth accepts no
//!   long frames (`vnet=on`).
//! * `none`: the kernel's own GSO segments TCP just before the TAP device; its stack fragments UDP.
//! * `stack`: TCP makes every segment itself, as FreeBSD does without TSO and GSO: "none" of the
//!   2014 FreeBSD GSO paper.
//!
//! The cases named `gro-` have the opposite direction. The far end sends packets of the wire's
//! size. They are merged by the kernel at `wl-a`, without a TAP device, or by Wirelane (`forward
//! --gro`), or not at all.
//!
//! The cases named `vm-` go from one TAP device to another, as between two virtual machines of a
//! host, without a wire. With `device` the other stack receives the long frames whole. With
//! `wirelane` they are segmented although the other stack would accept them, as for a guest without
//! offloads.
//!
//! Everything runs on one CPU, and under the quota. A kernel thread receives packets at the far end
//! (threaded NAPI). Otherwise the sending thread would receive each packet, and GRO would find no
//! packets to merge: the 2014 FreeBSD GSO paper has an "LRO-enabled receiver", "otherwise TSO/GSO
//! are ineffective".

use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use wirelane::session::Session;

use wirelane_os::ethtool::Ethtool;
use wirelane_os::{OsError, affinity, iface, link, netdev};

use super::case::{GsoCase, SegmentationPlace, TransferDirection, TransferProtocol, WHOLE};
use super::sample::GsoSample;
use crate::suites::gso::account::Account;
use crate::suites::gso::iperf;
use crate::suites::gso::quota::CpuQuota;
use crate::suites::gso::traffic::{DATAGRAM, Transfer, TransferEnds};
use wirelane::error::{Error, Result};
use wirelane::internal::frame::{Protocols, SinkGso};
use wirelane::internal::port::{Forwarding, ProgramOptions, Switches};
use wirelane::mask::{QueueMask, QueueSet};
use wirelane::placement::Placement;
use wirelane::port::{self, OpenOptions, Spec, Take};
use wirelane::session::forward::{Forward, ForwardConfig};
use wirelane_lab::{Lab, LabConfig, Site};

/// The case of a trial, and its duration.
pub(super) struct GsoTrial<'a> {
    pub(super) case: GsoCase,
    /// The kind of port at the veth, `packet` or `xdp`.
    pub(super) port: &'static str,
    pub(super) cpu: u32,
    pub(super) window: Duration,
    /// The path of iperf3, if iperf3 sends and receives.
    pub(super) iperf: Option<&'a Path>,
    pub(super) stop: &'a AtomicBool,
}

/// MTU of a TAP device that takes datagrams whole.
const TAP_MTU: usize = DATAGRAM + 500;
const TAP: &str = "wl-tap";
/// The TAP device of the other virtual machine.
const FAR_TAP: &str = "wl-tap-far";
/// The longest frame between virtual machines if the receiver accepts no long frames.
const WIRE: u32 = 1514;
/// A trial is extended until data has arrived, but no longer than this.
const STALL: Duration = Duration::from_secs(3);

/// Both ends of the path through the TAP device.
struct PathAddresses {
    near: IpAddr,
    far: IpAddr,
    prefix: u8,
}

impl PathAddresses {
    fn of(v6: bool) -> Self {
        if v6 {
            let host = |host| Ipv6Addr::new(0xfd57, 0x4c00, 0, 0, 0, 0, 0, host).into();
            Self { near: host(1), far: host(2), prefix: 64 }
        } else {
            let host = |host| Ipv4Addr::new(10, 88, 0, host).into();
            Self { near: host(1), far: host(2), prefix: 24 }
        }
    }
}

impl GsoTrial<'_> {
    /// Measures once, with all threads on one CPU and under the quota. `None` if it was stopped.
    ///
    /// # Errors
    /// The namespaces, the ports, the quota or the connection cannot be set up, or the trial fails.
    pub(super) fn run(&self) -> Result<Option<GsoSample>> {
        // Threads inherit the quota of the thread that starts them. The calling thread has no
        // quota.
        let quota = (self.case.cpu < WHOLE).then(|| CpuQuota::new(self.case.cpu)).transpose()?;
        std::thread::scope(|scope| {
            let host = || {
                if let Some(quota) = &quota {
                    quota.join()?;
                }
                affinity::pin(self.cpu)
                    .map_err(|error| Error::os(format!("CPU {}", self.cpu), error))?;
                self.measure(quota.as_ref())
            };
            let panicked = |_| Err(Error::failed("a trial", "panicked: a defect"));
            scope.spawn(host).join().unwrap_or_else(panicked)
        })
    }

    fn measure(&self, quota: Option<&CpuQuota>) -> Result<Option<GsoSample>> {
        let lab = Lab::new(LabConfig::default())?;
        let addresses = PathAddresses::of(self.case.v6);
        let receiving = self.prepare(&lab, &addresses)?;
        for thread in &receiving {
            affinity::pin_thread(*thread, self.cpu).map_err(failed)?;
            // If it cannot be limited, it is at least counted.
            let _ = quota.map(|quota| quota.add(*thread));
        }
        let forward = match self.case.offloading {
            SegmentationPlace::Kernel => {
                join(&lab.near, lab.near.interface(), addresses.near, &addresses, lab.far.mac)?;
                join(&lab.far, lab.far.interface(), addresses.far, &addresses, lab.near.mac)?;
                None
            }
            _ => Some(self.forward(&lab, &addresses)?),
        };
        let ends = match self.case.way {
            TransferDirection::Out | TransferDirection::Between => TransferEnds {
                from: &lab.near,
                to: &lab.far,
                address: SocketAddr::new(addresses.far, 0),
            },
            TransferDirection::In => TransferEnds {
                from: &lab.far,
                to: &lab.near,
                address: SocketAddr::new(addresses.near, 0),
            },
        };
        let sample = match self.iperf {
            Some(path) => Some(iperf::transfer(path, &ends, self.case.flows, self.cpu, self.stop)?),
            None => {
                let transfer = Transfer::start(self.case.protocol, &ends, self.case.flows)?;
                let sample = self.count(&transfer, forward.as_ref(), &receiving)?;
                transfer.finish()?;
                sample
            }
        };
        let Some(forward) = forward else { return Ok(sample) };
        let outcome = forward.join();
        match outcome.errors.into_iter().next() {
            Some(error) => Err(error),
            None if outcome.frames.held() > 0 => {
                let cause = format!("{} frames were not given back", outcome.frames.held());
                Err(Error::failed("forward", cause))
            }
            None => Ok(sample),
        }
    }

    /// Sets up both namespaces for the case. Returns the receiving kernel threads.
    fn prepare(&self, lab: &Lab, addresses: &PathAddresses) -> Result<Vec<u32>> {
        for site in [&lab.near, &lab.far] {
            site.inside(|| self.tune(site.interface(), addresses))?;
        }
        // Packets from a wire have the wire's size and complete checksums.
        let is_whole = self.case.offloading == SegmentationPlace::Kernel
            && self.case.way != TransferDirection::In;
        let mut receiving = Vec::new();
        for site in [&lab.near, &lab.far] {
            let name = site.interface();
            let is_far = std::ptr::eq(site, &lab.far);
            let takes_long =
                is_whole || self.case.offloading == SegmentationPlace::Device && !is_far;
            site.inside(|| set(name, |ethtool| ethtool.set_tx_offload(takes_long)))??;
            let is_end = is_far && self.case.way != TransferDirection::Between
                || self.case.offloading == SegmentationPlace::Kernel;
            if is_end {
                receiving.extend(site.inside(|| merge_in_a_thread(name))??);
            }
        }
        Ok(receiving)
    }

    /// Kernel settings of a namespace. Errors are ignored: a setting that the kernel lacks is not
    /// needed.
    fn tune(&self, interface: &str, addresses: &PathAddresses) {
        // Fragmentation needs packets without DF: path MTU discovery is turned off.
        let _ = fs::write("/proc/sys/net/ipv4/ip_no_pmtu_disc", "1");
        if addresses.near.is_ipv6() {
            for name in ["default", interface] {
                let _ =
                    fs::write(format!("/proc/sys/net/ipv6/conf/{name}/router_solicitations"), "0");
                let _ = fs::write(format!("/proc/sys/net/ipv6/conf/{name}/disable_ipv6"), "0");
            }
        }
    }

    /// Opens the TAP device and the near end of the cable, and forwards between them.
    fn forward(&self, lab: &Lab, addresses: &PathAddresses) -> Result<Session<Forward>> {
        let is_handed_on = self.case.offloading.is_handed_on();
        let is_ours = self.case.offloading == SegmentationPlace::Wirelane || is_handed_on;
        let inbound = self.case.way == TransferDirection::In;
        let between = self.case.way == TransferDirection::Between;
        let (cuts, merges) = (is_ours && !inbound, is_ours && inbound);
        let whole_datagrams = cuts && self.case.protocol == TransferProtocol::Udp;
        let mtu = if whole_datagrams { TAP_MTU } else { 1500 };
        let query = match self.case.offloading {
            SegmentationPlace::Partial => "?vnet=on",
            SegmentationPlace::Device => "?vnet=auto",
            _ if self.port == "packet" => "?vnet=off",
            _ => "",
        };
        let outer = format!("{}:{}{query}", self.port, lab.near.interface());
        let specs = match between {
            false => [(&lab.near, format!("tap:{TAP}?mtu={mtu}")), (&lab.near, outer)],
            true => [
                (&lab.near, format!("tap:{TAP}?mtu=1500")),
                (&lab.far, format!("tap:{FAR_TAP}?mtu=1500")),
            ],
        };
        let placement = Placement::of(&[self.cpu])?;
        let options = options(cuts, &placement);
        let open = |(site, spec): &(&Site, String)| {
            site.inside(|| port::open(&spec.parse::<Spec>()?, &options))?
        };
        let ports = specs.iter().map(open).collect::<Result<_>>()?;
        let on = |is_on: bool| is_on.then_some(Protocols::ALL);
        let switches = || Arc::new(Switches::new(on(cuts).unwrap_or_default(), on(merges)));
        let switches = is_ours.then(switches);
        if let Some(switches) = switches.as_ref().filter(|_| between) {
            let is_cut = self.case.offloading == SegmentationPlace::Wirelane;
            switches.set_max_burst(if is_cut { WIRE } else { u32::MAX });
        }
        let config = ForwardConfig::default().placement(placement).switches(vec![switches; 2]);
        let forward = Forward::start(ports, &config)?;
        let tap = lab.near.inside(|| iface::mac(TAP))?.map_err(failed)?;
        if self.case.offloading == SegmentationPlace::Stack {
            lab.near.inside(|| link::set_gso_max_segments(TAP, 1))?.map_err(failed)?;
        }
        let (far, far_mac) = match between {
            false => (lab.far.interface(), lab.far.mac),
            true => (FAR_TAP, lab.far.inside(|| iface::mac(FAR_TAP))?.map_err(failed)?),
        };
        join(&lab.near, TAP, addresses.near, addresses, far_mac)?;
        join(&lab.far, far, addresses.far, addresses, tap)?;
        Ok(forward)
    }

    /// Counts for the window, after a time to warm up. `None` if it was stopped.
    fn count(
        &self,
        transfer: &Transfer,
        forward: Option<&Session<Forward>>,
        receiving: &[u32],
    ) -> Result<Option<GsoSample>> {
        let until = |end: Instant| {
            loop {
                let left = end.saturating_duration_since(Instant::now());
                let is_over = transfer.has_ended()
                    || forward.is_some_and(|forward| forward.wait(Duration::ZERO));
                if left.is_zero() || is_over || self.stop.load(Ordering::Relaxed) {
                    return left.is_zero();
                }
                std::thread::sleep(left.min(Duration::from_millis(50)));
            }
        };
        let warm = until(Instant::now() + self.window / 2);
        let (begin, bytes, lost) = (Instant::now(), transfer.received(), transfer.lost());
        let before = Account::read(self.cpu, receiving);
        let mut counted = warm && until(begin + self.window);
        // On a busy machine the path may have had no CPU time, and zero bytes give no rate.
        while counted && transfer.received() == bytes {
            if begin.elapsed() > self.window + STALL {
                let cause =
                    format!("nothing has arrived in {:.1} s", begin.elapsed().as_secs_f64());
                return Err(Error::failed("transfer", cause));
            }
            counted = until(Instant::now() + Duration::from_millis(10));
        }
        let (elapsed, after) = (begin.elapsed(), Account::read(self.cpu, receiving));
        Ok(counted.then(|| GsoSample {
            bytes: transfer.received() - bytes,
            elapsed,
            account: after.zip(before).map(|(after, before)| after.since(before)),
            lost: transfer.lost() - lost,
        }))
    }
}

/// The options of both ports. With `cuts`, Wirelane segments frames between them.
fn options(cuts: bool, placement: &Placement) -> OpenOptions {
    let offload = match cuts {
        true => SinkGso { tcp4: true, tcp6: true, udp: true, udp_fragment: false },
        false => SinkGso::default(),
    };
    let forwarding = Forwarding::default().segments(cuts).offload(offload);
    OpenOptions::default()
        .mask(QueueMask { enabled: true, rx: QueueSet::All, tx: QueueSet::NONE, other: true })
        .transmit(true)
        .promiscuous(true)
        .latency(Duration::from_millis(1))
        .placement(placement.clone())
        .take(Take::AllAndManagement)
        .internal(ProgramOptions::default().outgoing(false).forwarding(forwarding))
}

/// Turns on GRO for an interface, in separate kernel threads, and returns these threads.
fn merge_in_a_thread(name: &str) -> Result<Vec<u32>> {
    set(name, |ethtool| ethtool.set_gro(true))?;
    let index = iface::index(name).map_err(failed)?;
    let napis = || netdev::napis(index).map(Option::unwrap_or_default).map_err(failed);
    for napi in napis()? {
        // Before Linux 6.17 this fails: the sending thread also receives, and little is merged.
        let _ = netdev::set_napi_threaded(napi.id);
    }
    Ok(napis()?.iter().filter_map(|napi| napi.thread).collect())
}

/// Gives an interface an address of the path, and a static neighbor entry for the other end.
fn join(
    site: &Site,
    name: &str,
    own: IpAddr,
    addresses: &PathAddresses,
    peer: [u8; 6],
) -> Result<()> {
    let other = if own == addresses.near { addresses.far } else { addresses.near };
    let act = || {
        link::add_address(name, own, addresses.prefix)?;
        link::add_neighbour(name, other, peer)
    };
    site.inside(act)?.map_err(failed)
}

fn set(name: &str, change: impl FnOnce(&Ethtool) -> Result<(), OsError>) -> Result<()> {
    Ethtool::open(name).and_then(|ethtool| change(&ethtool)).map_err(failed)
}

fn failed(error: OsError) -> Error {
    Error::os("bed of the segmentation benchmark", error)
}
