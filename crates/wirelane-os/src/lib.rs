//! System calls, mappings and kernel structures.
#![allow(unsafe_code)]
