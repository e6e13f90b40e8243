//! A program that was linked with the system's libpcap runs over the drop-in.

use std::path::Path;
use std::process::Command;

use wirelane_testkit::libpcap::{Library, ours};
use wirelane_testkit::process::run;
use wirelane_testkit::{c, tools};

#[test]
fn the_name_by_which_programs_ask_for_libpcap_is_found_already() {
    if !tools::require("gcc") || !tools::require("pcap-config") {
        return;
    }
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let program = directory.join("linked");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/linked.c");
    // Without it, the linker would omit the unused library.
    let link = ["-Wl,--no-as-needed".as_ref(), "-lpcap".as_ref()];
    c::compile("gcc", &program, [&[source.as_os_str()][..], &link].concat());

    let libraries = |library: Library| run(library.of(&mut Command::new(&program)));
    assert_eq!(libraries(Library::Ours).trim(), ours().to_string_lossy());
    assert_eq!(libraries(Library::Stock).trim(), Library::Stock.file().to_string_lossy());
}
