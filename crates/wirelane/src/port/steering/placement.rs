//! Which CPU serves which queue, so that a queue's memory is on the NUMA node of its thread.

use wirelane_os::affinity;

use crate::error::{Error, Result};
use crate::remedy::Remedy;

/// CPUs for queues, in turn: the open queue at position `i` belongs to CPU `i mod number of CPUs`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    cpus: Vec<u32>,
    /// The user named the CPUs, so threads are pinned even if the scheduler could place them as
    /// well.
    explicit: bool,
    /// CPUs of single positions; they override `cpus`.
    own: Vec<Option<u32>>,
}

impl Placement {
    /// Places queues on these CPUs.
    ///
    /// # Errors
    /// The list is empty, or contains a CPU that this process may not use.
    pub fn of(cpus: &[u32]) -> Result<Self> {
        let allowed = allowed();
        if cpus.is_empty() {
            return Err(
                Error::usage("CPUs", "the list of CPUs is empty").help("write a list such as 0-3")
            );
        }
        if let Some(cpu) = cpus.iter().find(|cpu| !allowed.contains(cpu)) {
            let list: Vec<_> = allowed.iter().map(u32::to_string).collect();
            return Err(Error::usage(format!("CPU {cpu}"), "this process may not use it")
                .help(format!("it may use {}", list.join(","))));
        }
        Ok(Self { cpus: cpus.to_vec(), explicit: true, own: Vec::new() })
    }

    /// Leaves every thread to the scheduler.
    #[must_use]
    pub fn nowhere() -> Self {
        Self { cpus: Vec::new(), explicit: false, own: Vec::new() }
    }

    /// The same placement with every queue on the first CPU.
    #[must_use]
    pub fn on_one(mut self) -> Self {
        self.cpus.truncate(1);
        self
    }

    /// The same placement with separate CPUs for some positions.
    #[must_use]
    pub(crate) fn with_own(self, own: Vec<Option<u32>>) -> Self {
        Self { own, ..self }
    }

    /// Whether the user named the CPUs.
    pub(crate) fn is_explicit(&self) -> bool {
        self.explicit
    }

    /// Whether all threads are left to the scheduler.
    pub(crate) fn is_nowhere(&self) -> bool {
        self.cpus.is_empty()
    }

    /// The CPU of the queue at `position`; `None` leaves it to the scheduler.
    pub fn cpu(&self, position: usize) -> Option<u32> {
        if let Some(own) = self.own.get(position).copied().flatten() {
            return Some(own);
        }
        let alone = self.cpus.len() < 2 && !self.explicit;
        self.cpus.get(position % self.cpus.len().max(1)).copied().filter(|_| !alone)
    }

    /// The NUMA node of that CPU, if the machine reports it.
    pub fn numa_node(&self, position: usize) -> Option<u32> {
        self.cpu(position).and_then(affinity::numa_node_of_cpu)
    }

    /// Runs `f` on the CPU of the queue at `position`, so that the kernel allocates memory on its
    /// node. Does so only on machines with several NUMA nodes.
    pub fn beside<T>(&self, position: usize, f: impl FnOnce() -> T) -> T {
        let several = || {
            let nodes = self.cpus.iter().map(|cpu| affinity::numa_node_of_cpu(*cpu));
            nodes.collect::<std::collections::BTreeSet<_>>().len() > 1
        };
        let moves = affinity::has_several_nodes() && several();
        let Some(cpu) = self.cpu(position).filter(|_| moves) else { return f() };
        let before = allowed();
        // Remote memory is slower, but no reason to fail.
        let moved = affinity::pin(cpu).is_ok();
        let result = f();
        if moved {
            let _ = affinity::pin_to(&before);
        }
        result
    }

    /// Pins the calling thread to the CPU of the queue at `position`.
    ///
    /// # Errors
    /// The CPU is no longer available.
    pub fn pin(&self, position: usize) -> Result<()> {
        let Some(cpu) = self.cpu(position) else { return Ok(()) };
        affinity::pin(cpu)
            .map_err(|error| Error::os(format!("CPU {cpu}"), error).remedy(Remedy::Cpus))
    }
}

/// All CPUs that the process may use.
impl Default for Placement {
    fn default() -> Self {
        Self { cpus: allowed(), explicit: false, own: Vec::new() }
    }
}

/// Empty if the system does not report them: then threads are left to the scheduler.
fn allowed() -> Vec<u32> {
    affinity::allowed_cpus().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queues_take_turns() {
        let placement = Placement { cpus: vec![4, 6], explicit: false, own: Vec::new() };
        assert_eq!(
            (placement.cpu(0), placement.cpu(1), placement.cpu(2)),
            (Some(4), Some(6), Some(4))
        );
        let own = placement.clone().with_own(vec![None, Some(9)]);
        assert_eq!((own.cpu(0), own.cpu(1), own.cpu(3)), (Some(4), Some(9), Some(6)));
        assert_eq!(placement.on_one().cpu(0), None);
    }

    #[test]
    fn work_beside_a_queue_leaves_the_thread_where_it_was() {
        let before = allowed();
        assert_eq!(Placement::default().beside(1, || 7), 7);
        assert_eq!(allowed(), before);
    }

    #[test]
    fn cpus_that_cannot_be_used_are_named() {
        let first = allowed()[0];
        assert_eq!(Placement::of(&[first]).unwrap().cpu(7), Some(first));
        let error = Placement::of(&[first, 99_999]).unwrap_err();
        assert!(error.to_string().contains("CPU 99999"), "{error}");
        assert!(Placement::of(&[]).is_err());
    }
}
