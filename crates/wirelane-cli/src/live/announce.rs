//! The lines that say how ports were opened.

use wirelane::QueueSet;
use wirelane::inspect::{TxBinding, TxWay};
use wirelane::port::{Attempt, Backend, PortInfo};

use crate::output::{self, printable};

/// The words in front of a port: its use by the command.
pub(crate) enum Doing<'a> {
    /// The use of all interfaces, as in `capturing on`. A file gets `reading`.
    Input(&'a str),
    /// A different use of each port.
    Each(&'a [&'a str]),
}

impl Doing<'_> {
    /// Says how the ports were opened, a line each.
    pub(crate) fn announce<'p>(&self, ports: impl Iterator<Item = &'p PortInfo>, verbose: bool) {
        for (position, port) in ports.enumerate() {
            let doing = match self {
                Self::Input(_) if port.backend == Backend::File => "reading",
                Self::Input(doing) => doing,
                Self::Each(doing) => doing.get(position).copied().unwrap_or_default(),
            };
            announce(doing, port, verbose);
        }
    }
}

/// Says how a port was opened: `doing PORT, MODE, queues`, and of a file only its name. If
/// `verbose`, also says which other ways were refused.
fn announce(doing: &str, info: &PortInfo, verbose: bool) {
    if info.backend == Backend::File {
        let name = info.spec.strip_prefix("file:").unwrap_or(&info.spec);
        let name = match (name, doing) {
            ("-", "reading" | "forwarding from") => "standard input",
            ("-", _) => "standard output",
            _ => name,
        };
        return output::line(format_args!("{doing} {}", printable(name)));
    }
    let refused = |attempt: &&Attempt| !attempt.succeeded;
    for attempt in info.negotiation.iter().filter(refused).filter(|_| verbose) {
        let cause = attempt.cause.as_deref().unwrap_or("no cause given");
        let fix = attempt.fix.as_deref().map(|fix| format!("; {fix}")).unwrap_or_default();
        let text = format!("{} refused: {cause}{fix}", attempt.way);
        output::line(format_args!("{}", printable(&text)));
    }
    let queues: QueueSet = info.queues.iter().map(|queue| usize::from(*queue)).collect();
    let hardware = info.hardware.as_deref().map(|name| format!(" ({name})")).unwrap_or_default();
    // The name of a file and its content may contain any text, even line ends.
    let text = format!("{doing} {}{hardware}, {}, queues {queues}", info.spec, info.mode);
    output::line(format_args!("{}", printable(&text)));
    tx_queues(info).iter().for_each(|text| output::line(format_args!("{text}")));
}

/// The CPUs whose packets leave through each TX queue, unless that is obvious:
/// `TX queues of eth0: 0 from CPU 0, 1 from CPU 1 (XPS)`.
fn tx_queues(info: &PortInfo) -> Option<String> {
    let name = info.interface.as_ref()?;
    let way = info.tx_queues.first()?.way;
    match way {
        TxWay::Exact | TxWay::Only => return None,
        TxWay::Program | TxWay::Flow | TxWay::Device => {
            return Some(format!("TX queues of {name}: {way}"));
        }
        _ => {}
    }
    let queue = |TxBinding { queue, cpu, kept, .. }: &TxBinding| {
        let cpu = (*cpu)?;
        Some(match kept {
            true => format!("{queue} from CPU {cpu}"),
            false => format!("{queue} not kept"),
        })
    };
    // Queues that a thread sends through.
    let queues: Vec<_> = info.tx_queues.iter().filter_map(queue).collect();
    Some(match queues.as_slice() {
        [] => format!("TX queues of {name}: those of the CPUs that send ({way})"),
        queues => format!("TX queues of {name}: {} ({way})", queues.join(", ")),
    })
}
