//! A table for each kind of key.

use std::cmp::Reverse;
use std::hash::Hash;
use std::sync::Arc;

use super::by::By;
use super::decode::{Front, Reason, decode};
use super::key::{self, Key, PackedFlow, PackedHost};
use super::sum::{Load, Sum};
use super::table::{Room, Table};

/// The tables of one thread, or of all together.
pub(super) struct Tables {
    tables: Vec<One>,
    /// At least one table needs decoded packets.
    decodes: bool,
    /// The innermost IP header counts instead of the outermost.
    inner: bool,
}

impl Tables {
    /// Empty tables, each with room for `keys` keys. The tables of [`Tables::next`] share the room.
    pub(super) fn new(by: &[By], keys: usize, inner: bool) -> Self {
        let tables =
            by.iter().filter_map(|by| Some(One::new(TableKind::new(*by, &Room::new(keys))?)));
        let tables: Vec<_> = tables.collect();
        Self { decodes: !tables.is_empty(), inner, tables }
    }

    /// Empty tables in the same room.
    pub(super) fn next(&self) -> Self {
        let tables = self.tables.iter().map(|one| One::new(one.kind.next())).collect();
        Self { tables, decodes: self.decodes, inner: self.inner }
    }

    /// Counts a packet of a LINKTYPE_ value.
    #[inline]
    pub(super) fn count(&mut self, link_type: u16, data: &[u8], bytes: u32, time: u64) {
        if !self.decodes {
            return;
        }
        let front = decode(link_type, data, self.inner);
        for one in &mut self.tables {
            if let Err(reason) = one.kind.count(&front, bytes, time)
                && let Some(load) = one.without.get_mut(reason as usize)
            {
                *load += Load { packets: 1, bytes: bytes.into() };
            }
        }
    }

    /// Adds all of `others`, which must have the same kinds.
    pub(super) fn join(&mut self, others: Self) {
        for (one, other) in self.tables.iter_mut().zip(others.tables) {
            one.kind.join(other.kind);
            for (sum, load) in one.without.iter_mut().zip(other.without) {
                *sum += load;
            }
        }
    }

    /// The counts of this kind of key.
    pub(super) fn counts(&self, by: By) -> Option<Counts> {
        let one = self.tables.iter().find(|one| one.kind.by() == by)?;
        let without = Reason::ALL.into_iter().zip(one.without);
        let (rows, unplaced) = one.kind.rows();
        Some(Counts {
            by,
            rows,
            without: without.filter(|(_, load)| load.packets > 0).collect(),
            unplaced,
        })
    }
}

/// The counts of one kind of key.
#[derive(Clone, Debug)]
pub struct Counts {
    /// The kind of key.
    pub by: By,
    /// The rows, unordered.
    pub rows: Vec<Row>,
    /// Packets without a key, by reason.
    #[doc(hidden)]
    pub without: Vec<(Reason, Load)>,
    /// Packets whose key found no room.
    pub unplaced: Sum,
}

/// The counters of one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The key.
    pub key: Key,
    /// The packets.
    pub sum: Sum,
}

impl Row {
    /// Packets and bytes, both directions together.
    pub fn all(&self) -> Load {
        self.sum.all()
    }
}

impl Counts {
    /// Moves the `most` largest rows to the front, by bytes or by packets, and sorts them. The
    /// others remain unordered.
    pub fn sort(&mut self, by_bytes: bool, most: usize) {
        let size = |row: &Row| {
            let Load { packets, bytes } = row.all();
            Reverse(if by_bytes { (bytes, packets) } else { (packets, bytes) })
        };
        let order = |a: &Row, b: &Row| size(a).cmp(&size(b)).then_with(|| a.key.cmp(&b.key));
        let most = most.min(self.rows.len());
        if most < self.rows.len() {
            self.rows.select_nth_unstable_by(most, order);
        }
        self.rows.get_mut(..most).unwrap_or_default().sort_unstable_by(order);
    }
}

struct One {
    kind: TableKind,
    /// Packets without a key, by reason.
    without: [Load; Reason::ALL.len()],
}

impl One {
    fn new(kind: TableKind) -> Self {
        Self { kind, without: Default::default() }
    }
}

enum TableKind {
    Proto(Table<u64>),
    Host(Table<PackedHost>),
    Port(Table<u64>),
    Vlan(Table<u64>),
    Flow(Table<PackedFlow>),
}

impl TableKind {
    /// `None` for queues, which the ports count.
    fn new(by: By, room: &Arc<Room>) -> Option<Self> {
        Some(match by {
            By::Proto => Self::Proto(Table::new(room)),
            By::Host => Self::Host(Table::new(room)),
            By::Port => Self::Port(Table::new(room)),
            By::Vlan => Self::Vlan(Table::new(room)),
            By::Flow => Self::Flow(Table::new(room)),
            By::Queue => return None,
        })
    }

    fn by(&self) -> By {
        match self {
            Self::Proto(_) => By::Proto,
            Self::Host(_) => By::Host,
            Self::Port(_) => By::Port,
            Self::Vlan(_) => By::Vlan,
            Self::Flow(_) => By::Flow,
        }
    }

    fn next(&self) -> Self {
        match self {
            Self::Proto(table) => Self::Proto(table.next()),
            Self::Host(table) => Self::Host(table.next()),
            Self::Port(table) => Self::Port(table.next()),
            Self::Vlan(table) => Self::Vlan(table.next()),
            Self::Flow(table) => Self::Flow(table.next()),
        }
    }

    #[inline]
    fn count(
        &mut self,
        front: &Result<Front, Reason>,
        bytes: u32,
        time: u64,
    ) -> Result<(), Reason> {
        let front = front.as_ref().map_err(|reason| *reason)?;
        let sent = Sum::one(bytes, time, false);
        match self {
            Self::Proto(table) => {
                let protocol = match &front.internet {
                    Ok(internet) => Some(internet.protocol),
                    Err(Reason::NotIp) => None,
                    Err(reason) => return Err(*reason),
                };
                table.add(key::pack_proto(front.ethertype, protocol), sent);
            }
            Self::Host(table) => {
                let [source, destination] = key::pack_hosts(&front.internet?.addresses);
                table.add(source, sent);
                table.add(destination, sent.reversed());
            }
            Self::Port(table) => {
                let internet = front.internet?;
                let (ports, protocol) = (internet.ports?, internet.protocol);
                table.add(key::pack_port(ports.source, protocol), sent);
                table.add(key::pack_port(ports.destination, protocol), sent.reversed());
            }
            Self::Vlan(table) => table.add(key::pack_vlan(front.vlans), sent),
            Self::Flow(table) => {
                let internet = front.internet?;
                let ports = match internet.ports {
                    Ok(ports) => Some(ports),
                    Err(Reason::NoPorts) => None,
                    Err(reason) => return Err(reason),
                };
                let hosts = key::pack_hosts(&internet.addresses);
                let (flow, is_reply) = key::pack_flow(&hosts, internet.protocol, ports);
                table.add(flow, Sum::one(bytes, time, is_reply));
            }
        }
        Ok(())
    }

    fn join(&mut self, other: Self) {
        match (self, other) {
            (Self::Proto(one), Self::Proto(other)) => one.join(other),
            (Self::Host(one), Self::Host(other)) => one.join(other),
            (Self::Port(one), Self::Port(other)) => one.join(other),
            (Self::Vlan(one), Self::Vlan(other)) => one.join(other),
            (Self::Flow(one), Self::Flow(other)) => one.join(other),
            // All tables are created in one order.
            _ => {}
        }
    }

    /// The rows, and the packets whose key found no room.
    fn rows(&self) -> (Vec<Row>, Sum) {
        match self {
            Self::Proto(table) => rows(table, |key, sum| (key::unpack_proto(key), sum)),
            Self::Host(table) => rows(table, |key, sum| (key::unpack_host(key), sum)),
            Self::Port(table) => rows(table, |key, sum| (key::unpack_port(key), sum)),
            Self::Vlan(table) => rows(table, |key, sum| (key::unpack_vlan(key), sum)),
            Self::Flow(table) => rows(table, |key, sum| {
                let seen = if sum.is_reply { sum.reversed() } else { sum };
                (key::unpack_flow(key, sum.is_reply), seen)
            }),
        }
    }
}

fn rows<K: Hash + Eq + Copy>(
    table: &Table<K>,
    unpack: impl Fn(K, Sum) -> (Key, Sum),
) -> (Vec<Row>, Sum) {
    let row = |(key, sum): (&K, &Sum)| {
        let (key, sum) = unpack(*key, *sum);
        Row { key, sum }
    };
    let mut rows = Vec::with_capacity(table.len());
    rows.extend(table.iter().map(row));
    (rows, table.unplaced)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_rows_come_first() {
        let row = |port: u16| {
            let packets = u64::from(port) * 7 % 100;
            let sent = Load { packets, bytes: packets * packets % 101 };
            let key = Key::Port(port, crate::wire::Protocol::TCP);
            Row { key, sum: Sum { sent, ..Sum::default() } }
        };
        let rows: Vec<_> = (0..100).map(row).collect();
        for by_bytes in [false, true] {
            let mut all = Counts {
                by: By::Port,
                rows: rows.clone(),
                without: Vec::new(),
                unplaced: Sum::default(),
            };
            all.sort(by_bytes, usize::MAX);
            let size = |row: &Row| if by_bytes { row.all().bytes } else { row.all().packets };
            assert!(all.rows.is_sorted_by_key(|row| Reverse(size(row))));
            for most in [0, 1, 20, 99, 100] {
                let mut some = Counts { rows: rows.clone(), ..all.clone() };
                some.sort(by_bytes, most);
                assert_eq!(some.rows[..most], all.rows[..most]);
                assert_eq!(some.rows.len(), 100);
            }
        }
    }
}
