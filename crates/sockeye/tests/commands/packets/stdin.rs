//! Runs of `sockeye` that read a capture from standard input.

use crate::fixtures::binary::{self, Outcome};
use std::io::Write;
use std::process::Stdio;

/// Runs `sockeye` with these arguments and these bytes as its standard input.
pub(crate) fn run_with_input(arguments: &[&str], bytes: &[u8]) -> Outcome {
    let mut child = binary::command()
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // It may exit without reading all of it.
    let _ = child.stdin.take().unwrap().write_all(bytes);
    let output = child.wait_with_output().unwrap();
    Outcome {
        code: output.status.code(),
        stdout: output.stdout,
        stderr: output.stderr,
    }
}
