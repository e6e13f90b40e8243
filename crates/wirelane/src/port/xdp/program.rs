//! The XDP program of a port: gives packets to the port's sockets or to the host.
//!
//! ```text
//!  packet ─▶ socket of queue? ─▶ tag put back ─▶ management? ─▶ filter ─▶ hints ─▶ XSKMAP[queue]
//!               │ no                                 │ yes, or    │ no
//!               ▼                                    ▼ unclear    ▼
//!             host ◀───────────────────────── tag taken out ◀─────┘
//! ```
//!
//! The program contains only the steps that its [`Verdicts`], [`tags`](super::tags) and
//! [`hints`](super::hints) need. It is attached by a link, so the kernel detaches it whenever and
//! however the process ends.
//!
//! The program is built from instructions (`wirelane_os::bpf`), without a C library or a compiler.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::io::Errno;
use wirelane_filter::{self as filter, Buffers, Ending, translate};
use wirelane_os::OsError;
use wirelane_os::bpf::{
    self, Alu, Assembler, Cond, Insn, Link, Load, Map, MapKind, Program, ProgramType, Reg, Size,
    XdpAction, XdpMode,
};
use wirelane_os::{netns, privilege};

use super::hints::HintRequest;
use super::management::{self, FieldReading};
use super::negotiate;
use super::tags::Tags;
use crate::error::{Error, Result};

/// Which packets of the selected queues the sockets receive; the others continue to the host.
#[derive(Clone, Debug, Default)]
pub(super) struct Verdicts {
    /// Leave to the host the packets that keep it reachable: ARP, neighbour discovery, SSH, DNS and
    /// DHCP, and packets that may be one of them. See [`management`] for the exact rule.
    pub keep_management: bool,
    /// Take only packets that this filter accepts; `None` takes all.
    pub filter: Option<Arc<filter::Program>>,
}

/// Where to attach a program.
#[derive(Clone, Copy, Debug)]
pub(super) struct Target<'a> {
    /// Name of the interface, for errors.
    pub interface: &'a str,
    /// Its index in the calling thread's network namespace.
    pub ifindex: u32,
    /// The largest possible number of receive queues.
    pub queues: u32,
    /// Where the program runs.
    pub mode: XdpMode,
    /// The sockets accept packets of several buffers (`XDP_USE_SG`). The program then sees only the
    /// first buffer. Linux 5.18.
    pub multi_buffer: bool,
    /// Restores VLAN tags that the driver strips. Not in [`XdpMode::Generic`].
    pub tags: Option<Tags>,
    /// Metadata to request from the driver for each packet for a socket. Empty in
    /// [`XdpMode::Generic`].
    pub hints: HintRequest,
}

impl Target<'_> {
    /// Whether the program requests metadata from the driver.
    pub(super) fn asks(&self) -> bool {
        self.tags.is_some() || self.hints.any()
    }
}

/// The program of a port on its interface; detached when dropped.
#[derive(Debug)]
pub(super) struct Attachment {
    link: Link,
    sockets: Map,
    interface: String,
    recipe: ProgramProperties,
    /// The namespace of the interface, for programs that are bound to it.
    namespace: Option<OwnedFd>,
}

/// Properties that all programs of a port have.
#[derive(Clone, Copy, Debug, Default)]
struct ProgramProperties {
    multi_buffer: bool,
    tags: Option<Tags>,
    hints: HintRequest,
    /// The interface that provides the metadata, if any.
    asked: Option<u32>,
    reading: FieldReading,
}

impl Attachment {
    /// Attaches a program that applies `verdicts`. It has no sockets yet, so every packet continues
    /// to the host.
    ///
    /// # Errors
    /// The interface has a program already, which is named and not changed; capabilities are
    /// missing, which are named; the driver does not support the mode; or the kernel refuses. See
    /// [`Error::errno`].
    pub(super) fn new(target: &Target<'_>, verdicts: &Verdicts) -> Result<Attachment> {
        let sockets = Map::create(MapKind::Xsk, "wl_sockets", 4, target.queues.max(1))
            .map_err(|error| refused(target.interface, error))?;
        let Target { multi_buffer, tags, hints, .. } = *target;
        let asked = target.asks().then_some(target.ifindex);
        let recipe = ProgramProperties {
            multi_buffer,
            tags,
            hints,
            asked,
            reading: FieldReading::default(),
        };
        let program = load(target.interface, &sockets, verdicts, recipe)?;
        let namespace = asked.map(|_| netns::current()).transpose();
        let namespace = namespace.map_err(|error| Error::os(target.interface, error))?;
        let link = Link::attach(target.ifindex, &program, target.mode)
            .map_err(|error| not_attached(target, error))?;
        Ok(Attachment { link, sockets, interface: target.interface.to_owned(), recipe, namespace })
    }

    /// Gives the packets of a receive queue to `socket`, beginning with the next packet.
    ///
    /// # Errors
    /// `socket` is not an AF_XDP socket, or the interface cannot have such a queue.
    pub(super) fn set_socket(&self, queue: u32, socket: BorrowedFd<'_>) -> Result<()> {
        self.sockets.set_socket(queue, socket).map_err(|error| self.failed(error))
    }

    /// Gives the packets of a receive queue to the host, beginning with the next packet.
    ///
    /// # Errors
    /// The interface cannot have such a queue.
    pub(super) fn clear(&self, queue: u32) -> Result<()> {
        self.sockets.delete(queue).map_err(|error| self.failed(error))
    }

    /// Applies other verdicts: each packet meets the old or the new ones. After an error the old
    /// ones apply.
    ///
    /// # Errors
    /// The errors of [`Attachment::new`], or the interface was removed.
    pub(super) fn replace(&self, verdicts: &Verdicts) -> Result<()> {
        let program =
            self.at_home(|| load(&self.interface, &self.sockets, verdicts, self.recipe))?;
        self.link.update(&program).map_err(|error| match errno(&error) {
            Some(Errno::NOLINK) => {
                Error::failed(self.interface.as_str(), "the interface is gone").caused_by(error)
            }
            _ => self.failed(error),
        })
    }

    /// Whether it restores VLAN tags that the driver strips.
    pub(super) fn restores_tags(&self) -> bool {
        self.recipe.tags.is_some()
    }

    /// The metadata that it requests for each packet for a socket.
    pub(super) fn hints(&self) -> HintRequest {
        self.recipe.hints
    }

    /// Whether the program is still attached: false after [`Attachment::detach`] and after the
    /// interface was removed.
    ///
    /// # Errors
    /// The kernel refuses the query.
    pub(super) fn is_attached(&self) -> Result<bool> {
        self.link.is_attached().map_err(|error| self.failed(error))
    }

    /// Detaches the program now; packets on their way to a socket still arrive. Further calls do
    /// nothing, and a removed interface is not an error.
    ///
    /// # Errors
    /// The kernel refuses.
    pub(super) fn detach(&self) -> Result<()> {
        self.link.detach().map_err(|error| self.failed(error))
    }

    /// Runs `what` in the namespace in which the interface's index is valid.
    fn at_home<T: Send>(&self, what: impl FnOnce() -> Result<T> + Send) -> Result<T> {
        let away = |home: &&OwnedFd| match netns::current() {
            Ok(here) => !netns::same(&here, home).unwrap_or(true),
            Err(_) => false,
        };
        let Some(home) = self.namespace.as_ref().filter(away) else { return what() };
        // A separate thread, so that the calling thread cannot remain in the wrong namespace.
        let run = || netns::set(home).map_err(|error| self.failed(error)).and_then(|()| what());
        std::thread::scope(|scope| scope.spawn(run).join())
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }

    fn failed(&self, error: OsError) -> Error {
        Error::os(self.interface.as_str(), error)
    }
}

/// Assembles and loads the program that applies `verdicts`. If the kernel lacks a helper for a part
/// (`EINVAL`), loads a program without that helper.
fn load(
    interface: &str,
    sockets: &Map,
    verdicts: &Verdicts,
    recipe: ProgramProperties,
) -> Result<Program> {
    let loaded = load_as(interface, sockets, verdicts, recipe);
    let is_unknown = |error: &Error| error.errno() == Some(Errno::INVAL.raw_os_error());
    match loaded {
        Err(error) if is_unknown(&error) && verdicts.keep_management && !recipe.multi_buffer => {
            let older = ProgramProperties { reading: FieldReading::Pointer, ..recipe };
            load_as(interface, sockets, verdicts, older).map_err(|_| error)
        }
        loaded => loaded,
    }
}

fn load_as(
    interface: &str,
    sockets: &Map,
    verdicts: &Verdicts,
    recipe: ProgramProperties,
) -> Result<Program> {
    let insns = assemble(interface, sockets.as_fd().as_raw_fd(), verdicts, recipe)?;
    let mut load = Load::new(ProgramType::Xdp, NAME, &insns);
    load.frags = recipe.multi_buffer;
    if let Some(interface) = recipe.asked {
        load.interface = Some(interface);
        // Kernel functions require a program with a GPL-compatible licence (`add_kfunc_call`), such
        // as MIT.
        load.license = c"Dual MIT/GPL";
    }
    Program::load(&load).map_err(|error| match error.into() {
        error if recipe.multi_buffer && errno(&error) == Some(Errno::INVAL) => {
            negotiate::lacks_pieces(interface).caused_by(error)
        }
        error => refused(interface, error),
    })
}

fn assemble(
    interface: &str,
    sockets: i32,
    verdicts: &Verdicts,
    recipe: ProgramProperties,
) -> Result<Vec<Insn>> {
    let mut asm = Assembler::new();
    let (host, pass) = (asm.label(), asm.label());
    let ProgramProperties { tags, hints, .. } = recipe;
    let selective =
        verdicts.keep_management || verdicts.filter.is_some() || tags.is_some() || hints.any();
    asm.emit(Insn::mov_reg(CONTEXT, Reg::R1));
    if selective {
        // Packets of a queue without a socket continue to the host at once.
        asm.emit(Insn::load(Size::Word, Reg::R1, CONTEXT, XDP_MD_RX_QUEUE_INDEX));
        asm.emit(Insn::store(Size::Word, Reg::R10, -4, Reg::R1));
        asm.extend(Insn::load_map(Reg::R1, sockets));
        asm.emit(Insn::mov_reg(Reg::R2, Reg::R10));
        asm.emit(Insn::alu64(Alu::Add, Reg::R2, -4));
        asm.emit(Insn::call(MAP_LOOKUP_ELEM));
        asm.jump_if(Cond::Eq, Reg::R0, 0, pass);
    }
    if let Some(tags) = tags {
        tags.restore(&mut asm, CONTEXT, host);
    }
    if verdicts.keep_management {
        management::keep(&mut asm, host, recipe.reading);
    }
    if let Some(filter) = &verdicts.filter {
        let buffers = if recipe.multi_buffer { Buffers::Several } else { Buffers::One };
        asm.extend(translate(filter, buffers, Ending::FallThrough)?);
        asm.jump_if(Cond::Eq, Reg::R0, 0, host);
    }
    if hints.any() {
        hints.hand_on(&mut asm, CONTEXT);
    }
    // For a queue without a socket, the last argument is the action; Linux 5.3
    // (bpf_xdp_redirect_map).
    asm.extend(Insn::load_map(Reg::R1, sockets));
    asm.emit(Insn::load(Size::Word, Reg::R2, CONTEXT, XDP_MD_RX_QUEUE_INDEX));
    asm.emit(Insn::mov(Reg::R3, XdpAction::Pass as i32));
    asm.emit(Insn::call(REDIRECT_MAP));
    asm.emit(Insn::exit());
    if selective {
        // Only if it is reachable: the verifier refuses unreachable code.
        asm.place(host);
        if let Some(tags) = tags {
            tags.undo(&mut asm, CONTEXT);
        }
        asm.place(pass);
        asm.emit(Insn::mov(Reg::R0, XdpAction::Pass as i32));
        asm.emit(Insn::exit());
    }
    asm.finish().map_err(|error| {
        Error::usage(interface, format!("the filter is too long for an XDP program: {error}"))
    })
}

/// The error of a failure to create the map or to load the program.
fn refused(interface: &str, error: OsError) -> Error {
    if errno(&error) != Some(Errno::PERM) {
        return Error::os(interface, error);
    }
    if privilege::is_in_initial_user_namespace() == Some(false) {
        // bpf_capable() and bpf_net_capable() check the initial namespace, unless a BPF token is
        // used.
        let cause = "an XDP program needs the system's CAP_BPF and CAP_NET_ADMIN; root in a \
         user namespace (a rootless container, `unshare -U`) has only those of its namespace";
        return Error::failed(interface, cause)
            .help(format!(
                "run as root outside of it, or use packet:{interface}, which works inside"
            ))
            .caused_by(error);
    }
    let missing = bpf::missing_capabilities();
    if missing.is_empty() {
        let help = "the process has the capabilities; a seccomp profile, a security module or \
         the limit of locked memory may forbid it";
        return Error::os(interface, error).help(help);
    }
    let names =
        missing.iter().map(|capability| capability.name()).collect::<Vec<_>>().join(" and ");
    Error::failed(interface, format!("an XDP program needs {names}"))
        .help("run as root or `setcap cap_net_raw,cap_net_admin,cap_bpf+ep` the program")
        .caused_by(error)
}

/// The error of a failure to attach. The kernel does not replace a program that another owner
/// attached (`dev_xdp_attach`), so nothing has changed.
fn not_attached(target: &Target<'_>, error: OsError) -> Error {
    let Ok(Some(there)) = bpf::attached(target.ifindex) else {
        return Error::os(target.interface, error);
    };
    if !matches!(errno(&error), Some(Errno::BUSY | Errno::EXIST)) {
        return Error::os(target.interface, error);
    }
    let mode = match there.mode {
        XdpMode::Native => "native",
        XdpMode::Generic => "generic",
        XdpMode::Offloaded => "offloaded",
    };
    let help = match there.link {
        Some(link) => format!("stop the process that holds its BPF link {link}"),
        None => format!(
            "stop its owner, or remove it with `ip link set dev {} xdp off`",
            target.interface
        ),
    };
    Error::failed(
        target.interface,
        format!("it already has the XDP {there}, {mode} mode; it was left alone"),
    )
    .help(help)
    .caused_by(error)
}

fn errno(error: &OsError) -> Option<Errno> {
    error.errno().map(Errno::from_raw_os_error)
}

/// Name of the program in listings.
const NAME: &str = "wirelane";
/// As [`management`] and [`translate`] require.
const CONTEXT: Reg = Reg::R6;
/// Of `struct xdp_md`.
const XDP_MD_RX_QUEUE_INDEX: i16 = 16;
/// `BPF_FUNC_map_lookup_elem`.
const MAP_LOOKUP_ELEM: i32 = 1;
/// `BPF_FUNC_redirect_map`.
const REDIRECT_MAP: i32 = 51;

#[cfg(test)]
#[cfg(not(concurrency_only))]
#[path = "attachment_tests.rs"]
mod attachment_tests;
#[cfg(test)]
#[path = "program_tests.rs"]
mod tests;
