//! Reports as one HTML page that needs nothing else: no script, no font, no network. What the pages
//! of `wirelane bench` and `wirelane ndr` share: the frame, the style, figures, plots.

mod lines;
mod number;

use maud::{DOCTYPE, Markup, PreEscaped, html};

pub use self::lines::{Axis, Line, Lines};
pub use self::number::{number, plain};

/// A whole page with this title around `body`.
pub fn document(title: &str, body: &Markup) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (title) }
                // An icon of its own, or browsers ask the server for one.
                link rel="icon" href="data:,";
                style { (PreEscaped(include_str!("style.css"))) }
            }
            body { (body) }
        }
    };
    page.into_string()
}
