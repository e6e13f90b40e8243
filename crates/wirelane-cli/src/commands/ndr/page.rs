//! What was found, as a page.

use super::Document;

/// The page.
pub(super) fn render(_: &Document<'_>) -> String {
    String::new()
}
