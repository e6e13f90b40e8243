//! What waits for a while answers by a step.

use wirelane::Result;

/// What a step says that waited for a while: nothing yet, or something, or the end.
pub(crate) type Step<T> = Option<Result<Option<T>>>;
