//! Limits of the process: setrlimit(2).

use wirelane_testkit::privileged;
use wirelane_testkit::process::copy_program;

use super::*;

/// `prlimit LIMIT wirelane ARGS`.
fn limited(limit: &str, program: &Path, args: &[String]) -> Command {
    let mut command = Command::new("prlimit");
    command.arg(limit).arg(program).args(args);
    command
}

/// Succeeded, or failed with one of these causes. A program that the loader could not start does
/// not print Wirelane's error.
#[track_caller]
fn assert_well_or_told(
    bed: &Bed,
    kind: Kind,
    limit: &str,
    program: &Path,
    causes: &[&str],
) -> bool {
    let file = bed.path(&format!("{kind:?}{limit}.pcapng"));
    let ended = bed.run(&limited(limit, program, &bed.finite(kind, &file)));
    if ended.status.code() == Some(127) && ended.stderr.contains("error while loading") {
        return false;
    }
    if ended.status.success() {
        assert!(assert_written(kind, &ended, &file).unwrap() > 0, "{kind:?} {limit}");
        return true;
    }
    assert_told(kind, &ended, causes);
    assert_written(kind, &ended, &file);
    false
}

#[test]
fn files_may_not_grow() {
    let bed = Bed::new();
    for kind in KINDS {
        for limit in ["--fsize=0", "--fsize=500", "--fsize=300000"] {
            let file = bed.path(&format!("{kind:?}{limit}.pcapng"));
            let args = bed.finite(kind, &file);
            let ended = bed.run(&limited(limit, WIRELANE.as_ref(), &args));
            assert_told(kind, &ended, &["EFBIG"]);
            let written = assert_written(kind, &ended, &file);
            assert!(
                written.is_some_and(|count| count > 0) || limit != "--fsize=300000",
                "{kind:?}"
            );
        }
    }
}

#[test]
fn descriptors_are_few() {
    let bed = Bed::new();
    for kind in KINDS {
        let limits = (3..24).map(|count| format!("--nofile={count}"));
        let well = limits
            .filter(|limit| assert_well_or_told(&bed, kind, limit, WIRELANE.as_ref(), &["EMFILE"]));
        assert!(well.count() > 8, "{kind:?} needs few");
    }
}

#[test]
fn address_space_is_small() {
    let bed = Bed::new();
    for kind in KINDS {
        let mebibytes = [36, 48, 64, 96, 128, 192, 256, 1024];
        let limits = mebibytes.map(|count| format!("--as={}", count << 20));
        let well = limits.iter().filter(|limit| {
            assert_well_or_told(
                &bed,
                kind,
                limit,
                WIRELANE.as_ref(),
                &["ENOMEM", "EAGAIN", "address space"],
            )
        });
        assert!(well.count() > 0, "{kind:?}");
    }
}

/// The limit counts all processes of a user, except root's: use an unused user id.
#[test]
fn privileged_threads_are_few() {
    if !privileged::require() {
        return;
    }
    let bed = Bed::new();
    let program = bed.path("wirelane");
    copy_program(WIRELANE.as_ref(), &program);
    let user = 1_000_000_000 + std::process::id();
    for kind in KINDS {
        for count in 1..6 {
            let file = bed.path(&format!("{kind:?}{count}.pcapng"));
            let mut command = Command::new("setpriv");
            let [uid, gid] = ["--reuid", "--regid"].map(|option| format!("{option}={user}"));
            command.args([&uid, &gid, "--clear-groups", "prlimit", &format!("--nproc={count}")]);
            let ended = bed.run(command.arg(&program).args(bed.finite(kind, &file)));
            match ended.status.success() {
                true => assert!(assert_written(kind, &ended, &file).unwrap() > 0, "{kind:?}"),
                false => {
                    assert_told(kind, &ended, &["EAGAIN"]);
                    assert_written(kind, &ended, &file);
                }
            }
        }
    }
}
