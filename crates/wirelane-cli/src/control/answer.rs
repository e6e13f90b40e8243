//! The answer to each request.

use serde::Serialize;
use serde_json::Value;
use wirelane::{Error, Result};

use super::request::Request;
use super::statistics::Document;
use super::subject::Subject;

/// Executes a request.
///
/// # Errors
/// The request cannot be executed; then nothing was changed.
pub(super) fn answer(subject: &Subject, request: Request) -> Result<Value> {
    match request {
        Request::Identity => value(&subject.identity()),
        Request::Statistics => value(&Document::new(subject)),
        Request::Select(select) => value(&subject.select(&select)?),
        Request::Offload(offload) => value(&subject.offload(&offload)?),
        Request::Trigger => value(&subject.trigger()?),
    }
}

fn value(answer: &impl Serialize) -> Result<Value> {
    serde_json::to_value(answer).map_err(|error| Error::io("answer", "encode", error.into()))
}
