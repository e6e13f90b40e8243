//! The answer to each request.

use serde::Serialize;
use serde_json::Value;
use wirelane::{Error, Result};

use super::request::ControlRequest;
use super::statistics::Document;
use super::subject::ControlledCommand;

/// Executes a request.
///
/// # Errors
/// The request cannot be executed; then nothing was changed.
pub(super) fn answer(subject: &ControlledCommand, request: ControlRequest) -> Result<Value> {
    match request {
        ControlRequest::Identity => value(&subject.identity()),
        ControlRequest::Statistics => value(&Document::new(subject)),
        ControlRequest::Select(select) => value(&subject.select(&select)?),
        ControlRequest::Offload(offload) => value(&subject.offload(&offload)?),
        ControlRequest::Trigger => value(&subject.trigger()?),
    }
}

fn value(answer: &impl Serialize) -> Result<Value> {
    serde_json::to_value(answer).map_err(|error| Error::io("answer", "encode", error.into()))
}
