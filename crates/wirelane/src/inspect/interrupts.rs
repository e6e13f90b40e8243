//! Which interrupt serves which queue, derived from the names of interrupts.
//!
//! Some drivers report the interrupt to the kernel (`netif_napi_set_irq`, since Linux 6.8 and in
//! few drivers), which returns it through netlink. For the others this module reads
//! `/proc/interrupts`, as `irqbalance` and tuning scripts do.

use std::collections::BTreeMap;

/// The interrupts of one device's queues.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct QueueInterrupts {
    /// Interrupt by receive queue.
    pub(super) rx: BTreeMap<u32, u32>,
    /// Interrupt by transmit queue.
    pub(super) tx: BTreeMap<u32, u32>,
}

/// Number and action name of every numbered interrupt in `/proc/interrupts`.
pub(super) fn parse(text: &str) -> Vec<(u32, String)> {
    text.lines()
        .filter_map(|line| {
            let (number, rest) = line.split_once(':')?;
            let number = number.trim().parse().ok()?;
            let name = rest.split_whitespace().next_back()?;
            // A line that ends in a count is an interrupt without a handler.
            (!name.bytes().all(|byte| byte.is_ascii_digit())).then(|| (number, name.to_owned()))
        })
        .collect()
}

/// The queues that the named interrupts of a device serve. `interface` is its name, which may also
/// end in a number.
pub(super) fn assign(interrupts: &[(u32, String)], interface: &str) -> QueueInterrupts {
    let mut queues = QueueInterrupts::default();
    let mut ambiguous = false;
    for (irq, name) in interrupts {
        let Some((role, index)) = role(name, interface) else { continue };
        if role.rx {
            ambiguous |= queues.rx.insert(index, *irq).is_some();
        }
        if role.tx {
            ambiguous |= queues.tx.insert(index, *irq).is_some();
        }
    }
    // Two interrupts for one queue mean that the names were misread: no result is better than a
    // wrong one.
    if ambiguous { QueueInterrupts::default() } else { queues }
}

/// Whether an interrupt's name contains the name of the interface or device as a separate word.
pub(super) fn names(interrupt: &str, owner: &str) -> bool {
    !owner.is_empty()
        && interrupt.match_indices(owner).any(|(start, _)| {
            let outside = |c: Option<char>| c.is_none_or(|c| !c.is_ascii_alphanumeric());
            outside(interrupt[..start].chars().next_back())
                && outside(interrupt[start + owner.len()..].chars().next())
        })
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct InterruptRole {
    rx: bool,
    tx: bool,
}

/// Parses `eth0-TxRx-3`, `ice-eth0-TxRx-3`, `mlx5_comp3@pci:0000:03:00.0`, `virtio2-input.0`,
/// `eth0-q1-rx`, `eth0-rx-3`: the directions, and the queue, which is the last number.
fn role(name: &str, interface: &str) -> Option<(InterruptRole, u32)> {
    let mut name = name.split('@').next()?.to_owned();
    if names(&name, interface) {
        name = name.replacen(interface, "", 1);
    }
    let mut role = InterruptRole::default();
    let mut index = None;
    for token in tokens(&name) {
        if let Ok(number) = token.parse() {
            index = Some(number);
            continue;
        }
        match token.to_ascii_lowercase().as_str() {
            "rx" | "input" => role.rx = true,
            "tx" | "output" => role.tx = true,
            "txrx" | "rxtx" | "comp" | "fp" => role = InterruptRole { rx: true, tx: true },
            _ => {}
        }
    }
    (role != InterruptRole::default()).then_some((role, index?))
}

/// The runs of letters and the runs of digits of a name.
fn tokens(name: &str) -> impl Iterator<Item = &str> {
    name.split(|c: char| !c.is_ascii_alphanumeric()).flat_map(|word| {
        let mut rest = word;
        std::iter::from_fn(move || {
            let digit = rest.starts_with(|c: char| c.is_ascii_digit());
            let end = rest.find(|c: char| c.is_ascii_digit() != digit).unwrap_or(rest.len());
            let (token, after) = rest.split_at(end);
            rest = after;
            (!token.is_empty()).then_some(token)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const RECORDED: &str = "           CPU0       CPU1       \n\
        \x2024:          1          0  IO-APIC   5-edge      ACPI:Ged\n\
        \x2037:          0          0 PCI-MSIX-0000:00:03.0   0-edge      virtio2-config\n\
        \x2038:          0       3165 PCI-MSIX-0000:00:03.0   1-edge      virtio2-input.0\n\
        \x2039:       2288          0 PCI-MSIX-0000:00:03.0   2-edge      virtio2-output.0\n\
        \x2040:          0          0\n\
        NMI:          0          0   Non-maskable interrupts\n\
        ERR:          0\n";

    #[test]
    fn proc_interrupts_is_read() {
        let read = parse(RECORDED);
        assert_eq!(read.len(), 4, "{read:?}");
        assert_eq!(read[2], (38, "virtio2-input.0".to_owned()));
        assert!(parse("").is_empty());
        assert!(parse("x\n1\n:\n2:\n").is_empty());
    }

    #[test]
    fn virtio_has_one_interrupt_per_direction() {
        let queues = assign(&parse(RECORDED), "eth0");
        assert_eq!(queues.rx, BTreeMap::from([(0, 38)]));
        assert_eq!(queues.tx, BTreeMap::from([(0, 39)]));
    }

    #[test]
    fn names_of_many_drivers() {
        let both = InterruptRole { rx: true, tx: true };
        let rx = InterruptRole { rx: true, tx: false };
        let tx = InterruptRole { rx: false, tx: true };
        for (name, expected) in [
            ("eth0-TxRx-3", Some((both, 3))),
            ("ice-eth0-TxRx-12", Some((both, 12))),
            ("i40e-eth0-TxRx-0", Some((both, 0))),
            ("eth0-Tx-Rx-5", Some((both, 5))),
            ("eth0-rxtx-2", Some((both, 2))),
            ("mlx5_comp7@pci:0000:03:00.0", Some((both, 7))),
            ("eth0-fp-1", Some((both, 1))),
            ("virtio2-input.1", Some((rx, 1))),
            ("virtio2-output.1", Some((tx, 1))),
            ("eth0-rx-4", Some((rx, 4))),
            ("eth0-tx-4", Some((tx, 4))),
            ("eth0-q3-rx", Some((rx, 3))),
            ("virtio2-config", None),
            ("eth0", None),
            ("eth0-rx", None),
            ("mlx5_async0@pci:0000:03:00.0", None),
            ("nvme0q1", None),
            ("", None),
            ("rx-99999999999", None),
        ] {
            assert_eq!(role(name, "eth0"), expected, "{name}");
        }
    }

    #[test]
    fn two_interrupts_for_one_queue_are_not_believed() {
        let named = [(10, "a-rx-0".to_owned()), (11, "b-rx-0".to_owned())];
        assert_eq!(assign(&named, "eth0"), QueueInterrupts::default());
    }

    #[test]
    fn owners_are_whole_words() {
        assert!(names("ice-eth1-TxRx-0", "eth1"));
        assert!(names("eth1", "eth1"));
        assert!(!names("eth10-TxRx-0", "eth1"));
        assert!(!names("veth1-rx-0", "eth1"));
        assert!(!names("eth1", ""));
    }
}
