//! Runs external programs for the lab and its tests: finds them (or skips), takes their stdout, and passes
//! batches of commands to `ip`.

use crate::Skip;
use crate::or_panic::OrPanic;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// Finds a program that a test compares with (`ss`, `lsof`, ...), or skips.
pub fn program(name: &str) -> Result<PathBuf, Skip> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(["/usr/sbin".into(), "/sbin".into()])
        .map(|directory| directory.join(name))
        .find(|file| file.is_file())
        .ok_or_else(|| Skip::new(format!("the program {name} is not installed")))
}

/// Runs a command and returns its stdout; panics unless it exits with 0.
#[track_caller]
pub fn output_of(mut command: Command) -> String {
    let output = command
        .stdin(Stdio::null())
        .output()
        .or_panic(format_args!("run {command:?}"));
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "lab: {command:?}: {}: {stderr}",
        output.status
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Passes lines to one `ip -force -batch -`, in a named namespace or the current one; all lines are tried.
pub(crate) fn ip_batch(namespace: Option<&str>, script: &str) -> Result<(), String> {
    let program = program("ip").map_err(|skip| skip.reason().to_owned())?;
    let mut command = Command::new(program);
    if let Some(name) = namespace {
        command.args(["-n", name]);
    }
    command
        .args(["-force", "-batch", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let mut run = || -> std::io::Result<_> {
        let mut child = command.spawn()?;
        if let Some(mut stdin) = child.stdin.take() {
            stdin.write_all(script.as_bytes())?;
        }
        child.wait_with_output()
    };
    let output = run().map_err(|error| format!("ip: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!(
        "ip {}: {}\n{script}",
        output.status,
        String::from_utf8_lossy(&output.stderr).trim()
    ))
}
