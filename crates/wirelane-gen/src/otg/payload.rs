//! Payloads.

use super::headers::OtgHeaders;
use super::pattern::hex;
use super::place::NodePath;
use crate::error::{Error, Result};
use crate::recipe::{Layer, Recipe};
use crate::sizes::Sizes;
use crate::table::FILL_COUNT;
use crate::values::Values;

/// Adds the payload to the headers.
pub(super) fn read(
    place: NodePath<'_>,
    packet: OtgHeaders,
    sizes: &Sizes,
    reserved: usize,
) -> Result<Recipe> {
    let fields = place.fields()?;
    let choices = ["fixed", "increment_byte", "decrement_byte", "increment_word", "decrement_word"];
    let choice = fields.choice(&choices, "fixed")?;
    let mut repeat = true;
    let mut pattern = vec![0];
    if choice == "fixed" {
        let fixed = fields.part("fixed").fields()?;
        if let Some(place) = fixed.get("pattern") {
            pattern = hex(&place)?;
            if pattern.is_empty() {
                return Err(place.error("an empty pattern"));
            }
        }
        if let Some(place) = fixed.get("repeat") {
            repeat = place.boolean()?;
        }
        fixed.finish()?;
    }
    fields.finish()?;

    let OtgHeaders { layers, mut custom } = packet;
    let mut recipe = Recipe { layers };
    let words = |word: &dyn Fn(u16) -> u16| {
        (0..=u16::MAX).flat_map(|k| word(k).to_be_bytes()).collect::<Vec<u8>>()
    };
    // The fill is one byte, or counting bytes directly after the headers. Other patterns are stored
    // as bytes, which requires a fixed frame size.
    let (fill, written) = match choice {
        "fixed" if !repeat => (0, Some(pattern)),
        "fixed" if pattern.len() == 1 => (pattern[0].into(), None),
        "increment_byte" if custom.is_empty() => (FILL_COUNT, None),
        _ => {
            let pattern = match choice {
                "increment_byte" => (0..=255).collect(),
                "decrement_byte" => (0..=255).rev().collect(),
                "increment_word" => words(&|k| k),
                "decrement_word" => words(&|k| u16::MAX - k),
                _ => pattern,
            };
            let room = room(&place, &recipe, sizes)?.saturating_sub(custom.len() + reserved);
            (0, Some(pattern.into_iter().cycle().take(room).collect()))
        }
    };
    custom.extend(written.unwrap_or_default());
    let mut layer = Layer::named("payload").map_err(|error| place.located(error))?;
    let set = || {
        if !custom.is_empty() {
            layer.set_bytes("hex", custom)?;
        }
        if fill != 0 {
            layer.set("fill", Values::Constant(fill.into()))?;
        }
        Ok(())
    };
    set().map_err(|error: Error| place.located(error))?;
    if !layer.settings.is_empty() {
        recipe.layers.push(layer);
    }
    Ok(recipe)
}

/// The number of bytes after the headers, for frames of equal size.
fn room(place: &NodePath<'_>, recipe: &Recipe, sizes: &Sizes) -> Result<usize> {
    let size = match sizes {
        Sizes::List(list) if list.len() == 1 => usize::from(list[0]),
        _ => {
            let supported = "fixed sizes, or a pattern of one byte";
            let what = "this payload differs with the size of the frame";
            return Err(place.unsupported(what, supported));
        }
    };
    let headers = recipe.compile(0).map_err(|error| place.located(error))?;
    Ok(size.saturating_sub(headers.head().len()))
}
