//! The same packets on every path: a table of paths × a table of traffic × a table of commands.
//! Every path gives the same answer as the first one, and so every pair of them does.
//!
//! `traffic` has the packets (with `captures` and `generated`), `forms` the paths from files, `ports` the paths from interfaces,
//! `commands` the commands, `pending` the known failures, and `laws` the laws for single commands.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

#[path = "../shared/mod.rs"]
#[allow(dead_code, reason = "other commands need more")]
mod shared;

mod answer;
mod captures;
mod cells;
mod commands;
mod files;
mod forms;
mod generated;
mod laws;
mod live;
mod pending;
mod ports;
mod traffic;
