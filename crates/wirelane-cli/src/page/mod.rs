//! Reports as one self-contained HTML page without scripts, fonts or network access: the frame,
//! style, figures and plots of the pages of `wirelane bench` and `wirelane ndr`.

mod lines;
mod number;

use maud::{DOCTYPE, Markup, PreEscaped, html};

pub use self::lines::{Axis, Plot, PlotLine};
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
                // Without this icon, browsers request one from the server.
                link rel="icon" href="data:,";
                style { (PreEscaped(include_str!("style.css"))) }
            }
            body { (body) }
        }
    };
    page.into_string()
}
