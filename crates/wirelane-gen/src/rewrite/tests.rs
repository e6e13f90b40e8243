//! Rewriting whole packets.
