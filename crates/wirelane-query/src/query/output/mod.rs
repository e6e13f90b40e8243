//! Answers: in a format, to standard output or a file.

mod columns;
mod escaped;
mod format;
pub(crate) mod table;
mod target;
mod writer;

pub(crate) use escaped::columns;
pub(crate) use format::AnswerFormat;
pub(crate) use target::{OutputTarget, remove_unfinished};
pub(crate) use writer::RowWriter;
