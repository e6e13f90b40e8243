//! Numbers of tunnels, small enough for a key.

use std::collections::HashMap;

use crate::compact::NONE;
use crate::key::Tunnel;
use crate::packet::Outer;

/// The known tunnels.
#[derive(Default)]
pub(crate) struct Tunnels {
    /// Keys have their ends in order.
    numbers: HashMap<Outer, u16>,
    all: Vec<Outer>,
}

impl Tunnels {
    /// The number of a tunnel, and whether its ends were swapped; `None` if there are too many
    /// tunnels.
    pub(crate) fn number(&mut self, outer: Outer) -> Option<(u16, bool)> {
        let (ends, is_reversed) = outer.ends.ordered();
        let outer = Outer { ends, ..outer };
        if let Some(number) = self.numbers.get(&outer) {
            return Some((*number, is_reversed));
        }
        let number = u16::try_from(self.all.len()).ok().filter(|number| *number < NONE)?;
        self.numbers.insert(outer, number);
        self.all.push(outer);
        Some((number, is_reversed))
    }

    /// The tunnel with this number, with its ends in order.
    pub(crate) fn outer(&self, number: u16) -> Option<&Outer> {
        self.all.get(usize::from(number))
    }

    /// The tunnel with this number, with its ends swapped if `is_reversed`.
    pub(crate) fn tunnel(&self, number: u16, is_reversed: bool) -> Option<Tunnel> {
        let Outer { kind, ends, id } = *self.all.get(usize::from(number))?;
        let ends = if is_reversed { ends.swapped() } else { ends };
        let [source, destination] = ends.addresses();
        Some(Tunnel { kind, source, destination, id })
    }
}
