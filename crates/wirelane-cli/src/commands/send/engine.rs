//! Which engine sends.

use wirelane::Result;
use wirelane::port::{Port, Spec};
use wirelane::session::Session;
use wirelane_gen::Stream;
use wirelane_send::kernel;
use wirelane_send::{SendConfig, SendEngine, Sending};

use super::arguments::SendArgs;
use super::content::SendContent;

/// The chosen engine.
pub(super) struct EngineChoice {
    /// The running kernel engine, or the port for sockets.
    pub(super) sending: Result<Session<Sending>, Port>,
    /// Why the kernel engine was refused, if it was considered.
    pub(super) refusal: Option<String>,
}

/// Starts the kernel engine if the user requests it, or if the engine is `auto` and the kernel
/// engine can send. A spec with a backend, queues or options chooses sockets, and so does --gso.
/// `again` reopens the port.
///
/// # Errors
/// The user requests the kernel engine and it cannot start, or the port cannot be opened again.
pub(super) fn choose(
    args: &SendArgs,
    port: Port,
    content: &SendContent,
    config: &SendConfig,
    again: impl FnOnce() -> Result<Port>,
) -> Result<EngineChoice> {
    let streams: &[Stream] = content.streams().unwrap_or_default();
    if args.engine == SendEngine::Kernel {
        let sending = Ok(kernel::start(port, streams, None, config)?);
        return Ok(EngineChoice { sending, refusal: None });
    }
    let is_open = args.engine == SendEngine::Auto && args.gso.is_none() && is_bare(args);
    if !is_open {
        return Ok(EngineChoice { sending: Err(port), refusal: None });
    }
    if let Err(refusal) = kernel::can(port.info(), streams) {
        return Ok(EngineChoice { sending: Err(port), refusal: Some(refusal.to_string()) });
    }
    match kernel::start(port, streams, None, config) {
        Ok(kernel) => Ok(EngineChoice { sending: Ok(kernel), refusal: None }),
        // Some limits of the kernel engine are known only after its programs are loaded.
        Err(error) => {
            Ok(EngineChoice { sending: Err(again()?), refusal: Some(error.cause().to_owned()) })
        }
    }
}

/// Whether the port is a bare interface, without backend, queues or options.
fn is_bare(args: &SendArgs) -> bool {
    let spec = args.target.as_deref().and_then(|target| Spec::try_from(target).ok());
    spec.is_some_and(|spec| {
        spec.backend.is_none() && spec.queues.is_none() && spec.options.is_empty()
    })
}
