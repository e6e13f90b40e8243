//! Every signal that a process can handle.

use rustix::process::Signal;

use super::*;

/// Waits until the command has begun to write its output.
#[track_caller]
fn start(bed: &Bed, kind: Kind, file: &Path) -> ChildGuard {
    // The test itself may have started with ignored signals.
    let mut command = Command::new("env");
    command.args(["--default-signal=HUP,INT,QUIT", WIRELANE]).args(bed.endless(kind, file));
    let mut child = ChildGuard::spawn(&mut command);
    child.wait_until(PATIENCE, |_| file.metadata().is_ok_and(|file| file.len() > 0));
    child
}

#[test]
fn signals_end_it_with_everything_in_the_file() {
    let mut bed = Bed::new();
    let signals = [
        Signal::INT,
        Signal::TERM,
        Signal::HUP,
        Signal::QUIT,
        Signal::ALARM,
        Signal::VTALARM,
        Signal::PROF,
        Signal::XCPU,
        Signal::POWER,
    ];
    for kind in KINDS {
        for signal in signals {
            bed.renew_pipe();
            let file = bed.path(&format!("{kind:?}{}.pcapng", signal.as_raw()));
            let child = start(&bed, kind, &file);
            child.signal(signal);
            let ended = bed.end(child);
            match kind {
                Kind::Merge => assert_told(kind, &ended, &["a signal ended the merge"]),
                _ => assert_eq!(ended.status.code(), Some(0), "{signal:?}: {}", ended.stderr),
            }
            assert!(assert_written(kind, &ended, &file).unwrap() > 0, "{kind:?} {signal:?}");
        }
    }
}

/// The command survives these signals, even after a stop.
#[test]
fn signals_that_end_nothing() {
    let signals = [
        Signal::USR2,
        Signal::PIPE,
        Signal::XFSZ,
        Signal::TTOU,
        Signal::WINCH,
        Signal::CHILD,
        Signal::URG,
        Signal::STOP,
        Signal::CONT,
        Signal::TSTP,
        Signal::CONT,
        Signal::USR1,
    ];
    for kind in KINDS {
        let bed = Bed::new();
        let file = bed.path("x.pcapng");
        let mut child = start(&bed, kind, &file);
        for signal in signals {
            child.signal(signal);
        }
        // It handles the last signal after all others.
        child.wait_until(PATIENCE, |child| child.stderr().contains("so far: "));
        assert!(child.is_running(), "{kind:?}");
        child.signal(Signal::TERM);
        let ended = bed.end(child);
        assert!(assert_written(kind, &ended, &file).unwrap() > 0, "{kind:?}");
    }
}
