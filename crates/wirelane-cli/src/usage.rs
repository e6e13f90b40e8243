//! Errors in the arguments, as `clap` finds them, in the form of all errors.

use std::error::Error as StdError;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use wirelane::Error;

/// An error in the arguments. Its object is the option or the argument if there is one.
pub(crate) fn error(error: &clap::Error) -> Error {
    let context = |kind| error.get(kind);
    let text = |kind| match context(kind) {
        Some(ContextValue::String(text)) => Some(text.as_str()),
        _ => None,
    };
    let list = |kind| match context(kind) {
        Some(ContextValue::Strings(list)) => list.clone(),
        Some(ContextValue::String(one)) => vec![one.clone()],
        _ => Vec::new(),
    };
    let argument = text(ContextKind::InvalidArg).map(bare);
    match (error.kind(), argument) {
        (ErrorKind::InvalidValue, Some(argument)) => {
            let value = text(ContextKind::InvalidValue).unwrap_or_default();
            let known = list(ContextKind::ValidValue);
            let cause = if value.is_empty() { "a value is missing".into() } else { not(value) };
            let help = if known.is_empty() { LIST.into() } else { format!("write {}", or(&known)) };
            Error::usage(argument, cause).help(help)
        }
        (ErrorKind::ValueValidation, Some(argument)) => {
            let value = text(ContextKind::InvalidValue).unwrap_or_default();
            refused(argument, value, StdError::source(error))
        }
        (ErrorKind::ArgumentConflict, Some(argument)) => {
            let others = list(ContextKind::PriorArg);
            let others: Vec<_> = others.iter().map(|other| bare(other)).collect();
            match others.as_slice() {
                [] => Error::usage(argument, "it cannot be used with others").help("use it alone"),
                [same] if *same == argument => {
                    Error::usage(argument, "it is given more than once").help("give it once")
                }
                others => {
                    let cause = format!("it cannot be used with {}", others.join(", "));
                    Error::usage(argument, cause).help("leave one of them out")
                }
            }
        }
        (ErrorKind::MissingRequiredArgument, _) => {
            let missing = list(ContextKind::InvalidArg).join(" ");
            Error::usage("arguments", format!("{missing} is required")).help(LIST)
        }
        (ErrorKind::UnknownArgument, Some(argument)) => {
            let help = match text(ContextKind::SuggestedArg) {
                Some(similar) => format!("a similar option is {similar}"),
                None => LIST.into(),
            };
            let what = if argument.starts_with('-') { "no such option" } else { "not expected" };
            Error::usage("arguments", format!("'{argument}': {what}")).help(help)
        }
        _ => other(error),
    }
}

const LIST: &str = "--help lists the arguments";

/// An option without its values: `--by` of `--by <WHAT>`.
fn bare(argument: &str) -> &str {
    match argument.starts_with('-') {
        true => argument.split([' ', '[', '=']).next().unwrap_or(argument).trim_end_matches("..."),
        false => argument,
    }
}

fn not(value: &str) -> String {
    format!("'{value}' is no such value")
}

/// A list for a sentence: `a, b or c`.
fn or(words: &[String]) -> String {
    match words {
        [first @ .., last] if !first.is_empty() => format!("{} or {last}", first.join(", ")),
        words => words.concat(),
    }
}

/// A value that a parser has refused, which says why, what to write, or both.
fn refused(argument: &str, value: &str, source: Option<&(dyn StdError + 'static)>) -> Error {
    let of_library = source.and_then(|source| source.downcast_ref::<Error>());
    let text = source.map(ToString::to_string).unwrap_or_default();
    let reason = of_library.map_or(text.as_str(), Error::cause);
    if let Some(range) = reason.strip_prefix(&format!("{value} is not in ")) {
        let range = range.replace("..=", " to ").replace("..", " to ");
        return Error::usage(argument, format!("'{value}' is out of range"))
            .help(format!("write {range}"));
    }
    let parts = match of_library {
        Some(error) => error.next_step().map(|help| (reason, help)),
        None => reason.split_once("; "),
    };
    let (cause, help) = match parts {
        Some((cause, help)) => (cause, help),
        None if reason.starts_with("write ") => ("", reason),
        None if reason.contains("digit found in string") => ("", "write a whole number"),
        None if reason.contains("number too large") => ("it is too large", "write a smaller one"),
        None => (reason, LIST),
    };
    let cause = match cause {
        "" => not(value),
        // Quotes the value only once.
        _ if cause.contains(value) => cause.to_owned(),
        _ => format!("'{value}': {cause}"),
    };
    Error::usage(argument, cause).help(help.to_owned())
}

/// An error of another kind, in the words of `clap`.
fn other(error: &clap::Error) -> Error {
    let text = error.render().to_string();
    let mut paragraphs = text.split("\n\n").map(|paragraph| {
        let words: Vec<_> = paragraph.split_whitespace().collect();
        words.join(" ")
    });
    let cause = paragraphs.next().unwrap_or_default();
    let cause = cause.strip_prefix("error: ").unwrap_or(&cause).to_owned();
    let tip = paragraphs.find_map(|text| text.strip_prefix("tip: ").map(str::to_owned));
    Error::usage("arguments", cause).help(tip.unwrap_or_else(|| LIST.into()))
}
