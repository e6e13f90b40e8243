//! The server itself: it listens, and refuses what is not signed.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::Command;
use std::time::Duration;

use wirelane_testkit::process::ChildGuard;

#[test]
fn what_is_not_signed_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::create_dir(directory.path().join("bucket")).unwrap();
    let program = env!("CARGO_BIN_EXE_wirelane-s3");
    let mut server = ChildGuard::spawn(Command::new(program).arg(directory.path()));
    server.wait_until(Duration::from_secs(60), |server| server.stdout().ends_with('\n'));
    let mut connection = TcpStream::connect(server.stdout().trim()).unwrap();
    connection
        .write_all(b"GET /bucket?list-type=2 HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
        .unwrap();
    let mut answer = String::new();
    connection.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 403 "), "{answer}");
    assert!(answer.contains("<Code>AccessDenied</Code>"), "{answer}");
}
