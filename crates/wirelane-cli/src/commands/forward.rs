//! `wirelane forward`: between two ports, or back through one with swapped addresses.

use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use clap::{ArgAction, Args};
use wirelane::internal::frame::{Protocols, SinkGso};
use wirelane::internal::port::{
    Forwarding, OffloadOptions, ProgramOptions, Switches, shared_memory,
};
use wirelane::placement::Placement;
use wirelane::port::{Backend, OpenOptions, Port, Spec};
use wirelane::qdisc::{QdiscSpec, QueueSelection};
use wirelane::session::forward::{Forward, ForwardConfig, ForwardOutcome};
use wirelane::stats::TxStats;
use wirelane::{Error, QueueMask, QueueSet, Result};

use crate::habits::InterfaceArgs;
use crate::live::{
    Doing, LiveScreen, OpenedSession, SessionArgs, StartedCommand, VerboseArgs, run_live,
};
use crate::output::summary::Summary;
use crate::steering::{self, Diversion, Purpose, SteeringArgs};
use crate::{args, overwrite, ssh};

/// Forward packets between two ports, or back through one with swapped MAC addresses.
///
/// Packets from RX queue i of one port leave through TX queue i of the other, in both directions,
/// with a thread per queue and direction. A file can be the first port (its packets are sent) or
/// the second (it is written); then packets flow one way. Two interfaces are in promiscuous mode
/// while packets flow between them. A bare name such as eth0 means packet:, and the host still
/// receives its packets; with --all it means xdp: where the interface supports that, which takes
/// them away from the host.
///
/// Forwarding ends with a summary when every finite source is exhausted, or on ^C. SIGUSR1 prints
/// the counters so far. With -c, exactly N packets are forwarded. The threads of the queues share
/// N, so these are not always the N oldest: to find those, packets would have to wait for others.
///
/// Without --gso and --gro, packets pass unchanged, with two exceptions. A checksum that the sender
/// left to its hardware is completed. A frame in which the kernel has merged several packets (GRO,
/// or a local sender's segmentation offload) is cut back into them. Any other packet longer than
/// the MTU of its output port cannot be sent and counts as an error.
#[derive(Args, Clone, Debug)]
pub(crate) struct ForwardArgs {
    /// The first port, such as eth0, packet:eth0@0-3, sim:4 or file:trace.pcapng
    #[arg(value_name = "PORT", required_unless_present = "interfaces")]
    first: Option<OsString>,
    /// The second port; without it, packets return through the first one with their MAC addresses
    /// swapped
    #[arg(value_name = "PORT")]
    second: Option<OsString>,
    #[command(flatten)]
    interface: InterfaceArgs,
    /// RX queues to forward from: all, none, or a list such as 0,2-3
    #[arg(long, value_name = "QUEUES", default_value = "all")]
    rx_queues: QueueSet,
    /// Forward received packets that are tied to no queue
    #[arg(long, value_name = "on|off", value_parser = args::switch, default_value = "on", action = ArgAction::Set)]
    other: bool,
    /// Forward from the first port to the second only
    #[arg(long)]
    one_way: bool,
    /// Swap source and destination MAC address; drops packets to multicast and broadcast addresses
    /// as filtered
    #[arg(long)]
    swap: bool,
    /// Put a queueing discipline in front of every TX queue: noqueue[:N], fifo, bulk[:N],
    /// pfifo_fast[:N] or lockless[:nobypass]. Append as needed: ,limit=1000 (packets) ,limit=256k
    /// (bytes) ,bql=on ,tsq=128k ,enqueue=batch
    #[arg(long, value_name = "SPEC")]
    qdisc: Option<QdiscSpec>,
    /// How to choose a packet's TX queue: explicit (the number of its RX queue), flow (a hash of
    /// addresses and ports) or cpu
    #[arg(long, value_name = "HOW", value_parser = choice, default_value = "explicit", requires = "qdisc")]
    tx_choice: QueueSelection,
    /// Segment frames longer than the output port's MTU, just before its TX ring: tcp, udp or both
    /// (on). Lets the stack behind a TAP device send frames of up to 64 KB. For one port only:
    /// PORT?gso=PROTOCOLS&gso_max=BYTES
    #[arg(long, value_name = "PROTOCOLS", num_args = 0..=1, default_missing_value = "on",
          require_equals = true)]
    gso: Option<Protocols>,
    /// Merge consecutive packets of a flow on receipt: tcp, udp or both (on). A TAP device gets
    /// frames of up to 64 KB; ports that cannot send such frames get packets again. For one port
    /// only: PORT?gro=PROTOCOLS
    #[arg(long, value_name = "PROTOCOLS", num_args = 0..=1, default_missing_value = "on",
          require_equals = true)]
    gro: Option<Protocols>,
    /// Size of the receive ring of each queue, in bytes
    #[arg(long, value_name = "SIZE", value_parser = args::memory, help_heading = "Machine")]
    ring: Option<u64>,
    /// Send the packets of a file or a simulation even through an interface that your own SSH
    /// connection uses
    #[arg(long, help_heading = "Machine")]
    yes: bool,
    #[command(flatten)]
    steering: SteeringArgs,
    #[command(flatten)]
    verbose: VerboseArgs,
    #[command(flatten)]
    session: SessionArgs,
}

/// How long a packet may wait in a ring for others: each way through adds it once.
const LATENCY: Duration = Duration::from_millis(1);

/// Runs the command.
///
/// # Errors
/// Forwarding cannot start, or an error ended it early.
pub(crate) fn run(args: &ForwardArgs) -> Result<()> {
    let mut start = StartedCommand::in_namespace("forward", &args.session, args.verbose.verbose)?;
    let plan = ForwardPlan::new(args)?;
    let placement = args.session.placement()?;
    let (ports, diversions) = plan.open(args, &placement, &mut start)?;
    let config = ForwardConfig::default()
        .one_way(plan.one_way)
        .swap(args.swap)
        .qdisc(args.qdisc.clone())
        .choice(args.tx_choice)
        .packets(args.session.count)
        .placement(placement)
        .switches(plan.switches(args));
    let forward = start.explained(Forward::start(ports, &config))?;
    let doing = Doing::Each(match (plan.specs.len(), plan.one_way) {
        (1, _) => &["sending back on"],
        (_, true) => &["forwarding from", "to"],
        (_, false) => &["forwarding between", "and"],
    });
    let opened = OpenedSession { doing, diversions, filter: args.steering.filter() };
    run_live(start, forward, opened, &mut LiveScreen::Figures(None), |mut outcome, started| {
        outcome.errors.extend(nothing_sent(&outcome));
        Ok((Summary::of_forward(&outcome, started), outcome.errors))
    })
}

/// The reason why no packet was sent, if there were packets and no other error.
fn nothing_sent(outcome: &ForwardOutcome) -> Option<Error> {
    let sum = |of: fn(&TxStats) -> u64| outcome.tx.iter().map(of).sum::<u64>();
    let unsent = sum(|tx| tx.wrong_length + tx.refused + tx.unfinished);
    if !outcome.errors.is_empty() || unsent == 0 || sum(|tx| tx.packets) > 0 {
        return None;
    }
    let (object, help) = ("forward", "the notes above say why, and what to do");
    let cause = format!("none of the {unsent} packets to send could be sent");
    Some(Error::failed(object, cause).help(help))
}

impl ForwardArgs {
    /// Offloads of ports whose specs name none.
    fn offloads(&self) -> OffloadOptions {
        OffloadOptions { gso: self.gso, gro: self.gro, gso_max: None }
    }
}

/// The ports, and whether packets flow one way only.
struct ForwardPlan {
    specs: Vec<Spec>,
    one_way: bool,
}

impl ForwardPlan {
    /// Parses the ports of `args`.
    ///
    /// # Errors
    /// A usage error for ports that cannot be joined. Packets of a file or a simulation would leave
    /// through an interface of the user's own SSH connection.
    fn new(args: &ForwardArgs) -> Result<Self> {
        let texts = args.interface.before(args.first.iter().chain(&args.second));
        let specs: Vec<Spec> =
            texts.iter().map(|text| Spec::try_from(text.as_os_str())).collect::<Result<_>>()?;
        let is_file = |spec: &Spec| spec.backend == Some(Backend::File);
        let one_way = args.one_way || specs.iter().any(is_file);
        match specs.as_slice() {
            [port] if is_file(port) => {
                return Err(Error::usage(format!("port '{port}'"), "a file cannot send back")
                    .help("name a second port to send its packets to"));
            }
            [_] if args.one_way => {
                return Err(
                    Error::usage("--one-way", "there is only one port").help("name a second one")
                );
            }
            [first, second] => {
                if is_file(second) && second.name == "-" && args.session.json {
                    return Err(Error::usage("--json", "standard output already takes packets")
                        .help("write the packets to a file"));
                }
                let on_interface = |spec: &Spec| {
                    matches!(spec.backend, None | Some(Backend::Packet | Backend::Xdp))
                };
                if is_file(second) {
                    overwrite::refuse_ports(Path::new(&second.name), std::slice::from_ref(first))?;
                }
                if on_interface(first) && on_interface(second) && first.name == second.name {
                    return Err(same_port(first.name_text()));
                }
                let ways = [(first, second), (second, first)];
                for (source, sink) in ways.into_iter().take(if one_way { 1 } else { 2 }) {
                    // Packets of a file or a simulation would be extra traffic.
                    if matches!(source.backend, Some(Backend::File | Backend::Sim)) {
                        ssh::refuse_to_send(sink, args.yes)?;
                    }
                }
            }
            [_] => {}
            specs => {
                let cause = format!("there are {}, and packets flow between two", specs.len());
                return Err(Error::usage("ports", cause).help("name one or two"));
            }
        }
        Ok(Self { specs, one_way })
    }

    /// The switches of each port. All are `None` if no option and no spec names an offload.
    fn switches(&self, args: &ForwardArgs) -> Vec<Option<Arc<Switches>>> {
        let others = args.offloads();
        let silent = others.is_empty() && self.specs.iter().all(|spec| spec.offloads.is_empty());
        let of = |spec: &Spec| (!silent).then(|| Arc::new(Switches::of(&spec.offloads, &others)));
        self.specs.iter().map(of).collect()
    }

    /// The protocols that the sink of the source at `position` segments; `None` if neither its spec
    /// nor an option says so.
    fn cut_later(&self, args: &ForwardArgs, position: usize) -> Option<Protocols> {
        let sink = self.specs.get(self.specs.len() - 1 - position);
        let said = sink.and_then(|spec| spec.offloads.gso);
        said.or(args.gso)
    }

    /// Whether frames that leave through the port at `position` are segmented.
    fn cuts(&self, args: &ForwardArgs, position: usize) -> bool {
        let said = self.specs.get(position).and_then(|spec| spec.offloads.gso);
        said.or(args.gso).is_some_and(|cut| cut != Protocols::NONE)
    }

    /// The longest frames that the source at `position` may leave unsegmented, if one of the ports
    /// limits them.
    fn max_burst(&self, position: usize) -> Option<u32> {
        let sink = self.specs.get(self.specs.len() - 1 - position);
        let ports = self.specs.get(position).into_iter().chain(sink);
        ports.filter_map(|spec| spec.offloads.gso_max).min()
    }

    /// The use of the packets that the port at `position` receives.
    fn purpose(&self, position: usize) -> Purpose {
        let sink = self.specs.get(self.specs.len() - 1 - position);
        let passes_on = |spec: &Spec| !matches!(spec.backend, Some(Backend::File | Backend::Sim));
        match sink.filter(|_| self.specs.len() > 1) {
            Some(sink) if passes_on(sink) => Purpose::PassOn,
            _ => Purpose::Consume,
        }
    }

    /// Opens the ports, prints which packets they take from the host, and drops privileges before a
    /// file is created.
    ///
    /// # Errors
    /// A port cannot be opened, or both are one interface.
    fn open(
        &self,
        args: &ForwardArgs,
        placement: &Placement,
        start: &mut StartedCommand<'_>,
    ) -> Result<(Vec<Port>, Vec<Option<Diversion>>)> {
        let StartedCommand { privileges, halt, .. } = start;
        let ring_bytes = args::address_space("--ring", args.ring)?;
        let (mut wanted, mut diversions) = (Vec::new(), Vec::new());
        for (position, spec) in self.specs.iter().enumerate() {
            let receive = position == 0 || !self.one_way;
            let transmit = position == 1 || self.specs.len() == 1 || !self.one_way;
            let rx = if receive { args.rx_queues.clone() } else { QueueSet::All };
            // Packets that a file records as sent are forwarded, too.
            let is_file = spec.backend == Some(Backend::File);
            let tx = if is_file && rx == QueueSet::All { QueueSet::All } else { QueueSet::NONE };
            let cut_later = self.cut_later(args, position);
            let forwarding = Forwarding::default()
                .intact(true)
                .offload(SinkGso::leaving(cut_later.unwrap_or_default()))
                .segments(transmit && self.cuts(args, position))
                .prepare_offload(cut_later.is_some())
                .heeds_offloads(true);
            let mut options = OpenOptions::default()
                .mask(QueueMask { enabled: true, rx, tx, other: args.other })
                .receive(receive)
                .transmit(transmit)
                .halt(halt.clone())
                .promiscuous(receive && self.specs.len() > 1)
                .ring_bytes(ring_bytes)
                .latency(LATENCY)
                .placement(placement.clone())
                // The kernel delivers the packets that the host sends.
                .internal(ProgramOptions::default().outgoing(false).forwarding(forwarding));
            args.steering.apply(spec, self.purpose(position), &mut options)?;
            diversions.push(args.steering.diversion(spec, &options)?);
            wanted.push((spec, options));
        }
        let pairs: Vec<_> = wanted.iter().map(|(spec, options)| (*spec, options)).collect();
        let memory = shared_memory(&pairs)?;
        let mut ports: Vec<Port> = Vec::new();
        for (((spec, mut options), share), diversion) in
            wanted.into_iter().zip(memory).zip(&diversions)
        {
            options.internal.inputs = ports.iter().flat_map(|port| port.inputs()).collect();
            options.internal.file_metadata = ports.first().and_then(Port::file_metadata).cloned();
            options.internal.memory = share;
            if spec.backend == Some(Backend::File) && options.transmit {
                privileges.give_away(&ports)?;
            }
            let port = steering::open(spec, &options, diversion.as_ref(), args.session.quiet);
            let port = port.map_err(|error| privileges.explain(error))?;
            if let Some(bytes) = self.max_burst(ports.len()).filter(|_| options.receive) {
                port.control().set_max_burst(bytes)?;
            }
            ports.push(port);
        }
        privileges.give_away(&ports)?;
        // An interface may have several names.
        if let [first, second] = ports.as_slice()
            && let (Some(name), Some(other)) = (&first.info().interface, &second.info().interface)
            && name == other
            && [first, second].iter().all(|port| port.info().backend != Backend::File)
        {
            return Err(same_port(name));
        }
        Ok((ports, diversions))
    }
}

fn same_port(name: &str) -> Error {
    Error::usage(format!("interface {name}"), "it cannot be both ports")
        .help("name it once: packets go back with swapped addresses")
}

fn choice(text: &str) -> Result<QueueSelection, String> {
    match text {
        "explicit" => Ok(QueueSelection::Explicit),
        "flow" => Ok(QueueSelection::FlowHash),
        "cpu" => Ok(QueueSelection::Cpu),
        _ => Err("write explicit, flow or cpu".into()),
    }
}
