//! Impossible requests are refused on one line, and leave no files.

use super::*;

#[test]
fn wrong_arguments_are_refused() {
    for (args, status, parts) in [
        (&["record"][..], 2, &["PORT"][..]),
        (&["record", "sim:1"], 2, &["DIR"]),
        (&["record", "sim:1", "x", "--min-free", "100%"], 2, &["write a share below the whole"]),
        (&["record", "sim:1", "x", "--segment", "0"], 2, &["write a number of bytes above 0"]),
        (&["record", "sim:1", "x", "--segment", "1M"], 1, &["1048576 bytes", "4 MiB to 1 TiB"]),
        (
            &["record", "sim:1", "/etc/hostname"],
            1,
            &["/etc/hostname: cannot open: Not a directory (ENOTDIR); name a directory"],
        ),
        (
            &["record", "sim:1", "/proc/x"],
            1,
            &["/proc/x: cannot make: ", "(ENOENT); check the path"],
        ),
        (&["record", "--check", "none"], 1, &["none: cannot open: ", "(ENOENT); check the path"]),
        (&["record", "sim:1", "x", "--compress", "gzip"], 1, &["choose lz4 or zstd"]),
        (&["record", "sim:1", "x", "--max-age", "1w"], 2, &["write a time above 0"]),
        (&["record", "sim:1", "x", "--group", "no such"], 2, &["group 'no such'"]),
        (&["record", "sim:1", "x", "--trigger", "host and"], 2, &["host and"]),
        (&["record", "packet:wl-none", "x"], 1, &["wl-none"]),
        (&["trigger", "1"], 1, &["process 1"]),
        (&["trigger", "x"], 2, &["'x'", "neither a process id nor a directory"]),
    ] {
        refused(args, status, parts);
    }
}
