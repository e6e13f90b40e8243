//! The name by which programs of Debian and its descendants ask for libpcap.

fn main() {
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libpcap.so.0.8");
    println!("cargo::rerun-if-changed=build.rs");
}
