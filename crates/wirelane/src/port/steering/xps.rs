//! Chooses the CPUs of sending threads, so that their packets leave by the intended TX queue.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::inspect::{CpuList, TxBinding, TxWay};
use crate::mask::QueueSet;
use crate::placement::Placement;
use crate::port::info::PortInfo;
use crate::port::port::Port;
use crate::port::steering::xps_binding::XpsBinding;
use crate::port::steering::xps_watch::{WatchedBinding, XpsWatch};

/// Chooses the CPUs of sending threads, one after the other.
///
/// If the sending CPU determines the TX queue ([`PortInfo::tx_queues`](crate::port::PortInfo)), a
/// thread gets the least used CPU of its queue. CPUs that the user named do not change.
pub struct XpsBindings {
    placement: Placement,
    cpus: Vec<Option<u32>>,
    used: BTreeMap<u32, usize>,
    watched: Vec<WatchedBinding>,
}

impl XpsBindings {
    /// Starts with `placement`, which applies where the CPU does not determine the TX queue.
    #[must_use]
    pub fn new(placement: &Placement) -> Self {
        Self {
            placement: placement.clone(),
            cpus: Vec::new(),
            used: BTreeMap::new(),
            watched: Vec::new(),
        }
    }

    /// Places the next thread, which sends through TX queue `queue` of `port`. Returns the argument
    /// for [`Tx::bind`](crate::port::Tx::bind), if the CPU matters.
    pub fn next(&mut self, port: &mut Port, queue: u16) -> Option<XpsBinding> {
        let place = self.next_of_several(port, queue)?;
        self.watch_end(port, queue, &place);
        Some(place)
    }

    /// The binding of TX queue `queue` of `port` for an end that several threads share, if the CPU
    /// matters.
    pub(crate) fn shared_end(&mut self, port: &Port, queue: u16) -> Option<XpsBinding> {
        let mut bindings = port.info.tx_queues.iter();
        let binding = bindings.find(|binding| binding.queue == queue)?;
        let place = XpsBinding::new(binding.cpus.clone(), None);
        (!binding.cpus.is_empty()).then(|| {
            self.watch_end(port, queue, &place);
            place
        })
    }

    /// Places the next of several threads that send through TX queue `queue` of `port`.
    pub(crate) fn next_of_several(&mut self, port: &mut Port, queue: u16) -> Option<XpsBinding> {
        let usual = self.placement.cpu(self.cpus.len());
        let binding = port.info.tx_queues.iter_mut().find(|binding| binding.queue == queue);
        let Some(binding) = binding.filter(|binding| !binding.kept || binding.cpu.is_some()) else {
            self.take(usual);
            return None;
        };
        let cpu = match self.placement.is_explicit() || self.placement.is_nowhere() {
            true => usual,
            false => self.least_used(&binding.cpus).or(usual),
        };
        let own = cpu.filter(|cpu| binding.cpus.contains(*cpu));
        // If several threads send, each must be on one of the queue's CPUs.
        let is_first = binding.cpu.is_none();
        binding.kept = own.is_some() && (is_first || binding.kept);
        binding.cpu = cpu;
        let cpus = binding.cpus.clone();
        self.take(cpu);
        (!cpus.is_empty()).then(|| XpsBinding::new(cpus, own))
    }

    /// Watches `place` for changes.
    fn watch_end(&mut self, port: &Port, queue: u16, place: &XpsBinding) {
        let mut bindings = port.info.tx_queues.iter();
        let binding = bindings.find(|binding| binding.queue == queue);
        let (Some(steering), Some(binding)) = (&port.steering, binding) else { return };
        self.watched.push(WatchedBinding {
            steering: Arc::clone(steering),
            binding: binding.clone(),
            own: place.own,
            moves: place.own.is_some()
                && !self.placement.is_explicit()
                && !self.placement.is_nowhere(),
            place: place.clone(),
            changes: 0,
        });
    }

    /// Places the next thread, which shares all queues of a port with other threads.
    pub fn next_of_all(&mut self, port: &mut Port) {
        self.take(self.placement.cpu(self.cpus.len()));
        port.info.tx_queues.iter_mut().for_each(release);
    }

    /// Watches the steering while these threads send.
    #[must_use]
    pub fn watch(&mut self) -> XpsWatch {
        XpsWatch::new(std::mem::take(&mut self.watched))
    }

    /// The placement of all these threads.
    #[must_use]
    pub fn placement(self) -> Placement {
        self.placement.with_own(self.cpus)
    }

    fn take(&mut self, cpu: Option<u32>) {
        cpu.into_iter().for_each(|cpu| *self.used.entry(cpu).or_default() += 1);
        self.cpus.push(cpu);
    }

    fn least_used(&self, cpus: &CpuList) -> Option<u32> {
        cpus.iter().min_by_key(|cpu| self.used.get(cpu).copied().unwrap_or(0))
    }
}

/// Notes for the user about packets that may have left by the wrong queue. `strayed` has the queue
/// of each end and its number of such packets.
#[must_use]
pub fn tx_queue_notes(info: &PortInfo, strayed: impl Iterator<Item = (u16, u64)>) -> Vec<String> {
    let name = info.interface.as_ref().unwrap_or(&info.spec);
    let lost = |one: &&TxBinding| !one.kept && !one.cpus.is_empty() && one.cpu.is_some();
    let mut notes = Vec::new();
    let elsewhere = info.tx_queues.iter().filter(lost);
    let elsewhere: Vec<_> = elsewhere.map(|binding| usize::from(binding.queue)).collect();
    let (mut packets, mut queues) = (0, Vec::new());
    for (queue, strayed) in strayed.filter(|(_, strayed)| *strayed > 0) {
        packets += strayed;
        queues.push(usize::from(queue));
    }
    if !elsewhere.is_empty() {
        let elsewhere: QueueSet = elsewhere.into_iter().collect();
        notes.push(format!(
            "what is sent through TX queue {elsewhere} of {name} leaves by the queues of the CPUs \
             that send it: the threads are not on the CPUs of their queues"
        ));
    } else if packets > 0 {
        let queues: QueueSet = queues.into_iter().collect();
        notes.push(format!(
            "up to {packets} packets of TX queue {queues} of {name} left by another queue: \
             something moved the sending thread to another CPU, or changed which CPUs send by the \
             queue"
        ));
    }
    notes
}

/// Marks the queue as used by any thread.
fn release(binding: &mut TxBinding) {
    if matches!(binding.way, TxWay::Xps | TxWay::Bypass) {
        (binding.cpu, binding.kept) = (None, false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::port::{OpenOptions, sim};

    /// A port with a TX queue for the CPUs of each list.
    fn port(cpus: &[&[u32]]) -> Port {
        let mut port = sim::open(&"sim:1".parse().unwrap(), &OpenOptions::default()).unwrap();
        let binding = |(queue, cpus): (u16, &&[u32])| TxBinding {
            cpus: cpus.iter().copied().collect(),
            ..TxBinding::new(queue, TxWay::Xps)
        };
        port.info.tx_queues = (0..).zip(cpus).map(binding).collect();
        port
    }

    fn kept(port: &Port) -> Vec<(Option<u32>, bool)> {
        port.info.tx_queues.iter().map(|binding| (binding.cpu, binding.kept)).collect()
    }

    #[test]
    fn threads_are_spread_over_the_cpus_of_their_queue() {
        let (mut there, mut back) = (port(&[&[4, 6], &[5, 7]]), port(&[&[4, 6], &[5, 7]]));
        let mut places = XpsBindings::new(&Placement::default());
        for port in [&mut there, &mut back] {
            assert!((0..2).all(|queue| places.next(port, queue).unwrap().own.is_some()));
        }
        assert_eq!(kept(&there), [(Some(4), true), (Some(5), true)]);
        assert_eq!(kept(&back), [(Some(6), true), (Some(7), true)]);
        let placement = places.placement();
        assert_eq!([0, 1, 2, 3].map(|at| placement.cpu(at)), [4, 5, 6, 7].map(Some));
    }

    #[test]
    fn cpus_of_the_user_stay_and_what_they_do_is_told() {
        let cpu = wirelane_os::affinity::allowed_cpus().unwrap()[0];
        let mut port = port(&[&[cpu], &[cpu + 1]]);
        let mut places = XpsBindings::new(&Placement::of(&[cpu]).unwrap());
        assert_eq!(places.next(&mut port, 0).unwrap().own, Some(cpu));
        assert_eq!(places.next(&mut port, 1).unwrap().own, None);
        assert_eq!(kept(&port), [(Some(cpu), true), (Some(cpu), false)]);
        assert_eq!(places.placement().cpu(1), Some(cpu));
    }

    #[test]
    fn several_threads_of_a_queue_keep_it_if_each_does() {
        let mut port = port(&[&[4, 6], &[]]);
        let mut places = XpsBindings::new(&Placement::default());
        for queue in [0, 0, 1] {
            places.next(&mut port, queue);
        }
        assert_eq!((kept(&port)[0].1, kept(&port)[1].1), (true, false));
        places.next_of_all(&mut port);
        assert_eq!(kept(&port), [(None, false), (None, false)]);
    }
}
