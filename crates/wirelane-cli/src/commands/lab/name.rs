//! The name of a lab, and failures with their exit status.

use clap::Args;
use wirelane::Error;
use wirelane_lab::NamedLab;

/// Which lab.
#[derive(Args, Clone, Debug)]
pub(super) struct Name {
    /// Name of the lab
    #[arg(long = "name", value_name = "NAME", value_parser = NamedLab::new, default_value = NamedLab::DEFAULT)]
    pub(super) lab: NamedLab,
}

/// Why it failed, and the exit status if that is an unusual one.
pub(crate) struct CommandFailure {
    pub(crate) error: Error,
    pub(crate) status: Option<u8>,
}

impl From<Error> for CommandFailure {
    fn from(error: Error) -> Self {
        Self { error, status: None }
    }
}
