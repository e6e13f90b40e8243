//! Replaying whole files.
