//! Which CPU serves which queue, so that memory and threads of a queue are next to each other.

use wirelane_os::affinity;

use crate::error::{Error, Result};

/// CPUs for queues, in turn: the queue at position `i` of those opened belongs to CPU
/// `i mod number of CPUs`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    cpus: Vec<u32>,
    /// The user named them, so they are kept to even where the scheduler could do as well.
    explicit: bool,
    /// CPUs of some positions that go before those.
    own: Vec<Option<u32>>,
}

impl Placement {
    /// These CPUs.
    ///
    /// # Errors
    /// There are none, or one that this process may not use.
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

    /// The same with everything on the first CPU.
    #[must_use]
    pub fn on_one(mut self) -> Self {
        self.cpus.truncate(1);
        self
    }

    /// The same with CPUs of their own for some positions.
    #[must_use]
    pub(crate) fn with_own(self, own: Vec<Option<u32>>) -> Self {
        Self { own, ..self }
    }

    /// Whether the user named the CPUs.
    pub(crate) fn is_explicit(&self) -> bool {
        self.explicit
    }

    /// Whether nothing is placed.
    pub(crate) fn is_nowhere(&self) -> bool {
        self.cpus.is_empty()
    }

    /// The CPU of the queue at `position`; `None` if it is better left to the scheduler.
    pub fn cpu(&self, position: usize) -> Option<u32> {
        if let Some(own) = self.own.get(position).copied().flatten() {
            return Some(own);
        }
        let alone = self.cpus.len() < 2 && !self.explicit;
        self.cpus.get(position % self.cpus.len().max(1)).copied().filter(|_| !alone)
    }

    /// The NUMA node of that CPU, if the machine tells.
    pub fn numa_node(&self, position: usize) -> Option<u32> {
        self.cpu(position).and_then(affinity::numa_node_of_cpu)
    }

    /// Runs `f` on the CPU of the queue at `position` where that makes a difference to memory that
    /// the kernel allocates meanwhile: on machines with several NUMA nodes.
    pub fn beside<T>(&self, position: usize, f: impl FnOnce() -> T) -> T {
        let several = || {
            let nodes = self.cpus.iter().map(|cpu| affinity::numa_node_of_cpu(*cpu));
            nodes.collect::<std::collections::BTreeSet<_>>().len() > 1
        };
        let moves = affinity::has_several_nodes() && several();
        let Some(cpu) = self.cpu(position).filter(|_| moves) else { return f() };
        let before = allowed();
        // Memory elsewhere is slower and no reason to fail.
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
    /// The CPU went away.
    pub fn pin(&self, position: usize) -> Result<()> {
        let Some(cpu) = self.cpu(position) else { return Ok(()) };
        affinity::pin(cpu)
            .map_err(|error| Error::os(format!("CPU {cpu}"), error).help("choose other CPUs"))
    }
}

/// All CPUs that the process may use.
impl Default for Placement {
    fn default() -> Self {
        Self { cpus: allowed(), explicit: false, own: Vec::new() }
    }
}

/// None if the system does not say: then nothing is placed.
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
