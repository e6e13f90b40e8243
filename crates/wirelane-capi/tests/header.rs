//! Compares `include/wirelane.h` with cbindgen's output. `WIRELANE_BLESS=1` rewrites it.

use std::path::Path;

#[test]
fn the_header_is_up_to_date() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config = cbindgen::Config::from_file(root.join("cbindgen.toml")).unwrap();
    let mut made = Vec::new();
    cbindgen::generate_with_config(root, config).unwrap().write(&mut made);
    let made = String::from_utf8(made).unwrap();
    let path = root.join("include/wirelane.h");
    if std::env::var_os("WIRELANE_BLESS").is_some() {
        std::fs::write(&path, &made).unwrap();
    }
    let header = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        header == made,
        "the functions and include/wirelane.h differ: WIRELANE_BLESS=1 cargo test -p wirelane-capi header"
    );
}
