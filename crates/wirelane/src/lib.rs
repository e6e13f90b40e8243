//! Multi-queue packet I/O.
