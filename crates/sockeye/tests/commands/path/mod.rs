//! `sockeye path`: real packets in namespaces, and what is reported compared with what their programs measure.

mod batches;
mod drops;
mod extension_headers;
mod packet_sockets;
mod queues;
mod round_trips;
mod segments;
mod send_buffer;
mod slow_reader;
mod stuck;
mod tunnel;
mod upper_devices;

use crate::fixtures::binary::{Outcome, SOCKEYE, clean};
use crate::fixtures::schema_file;
use jsonschema::{Draft, JSONSchema};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use sockeye_lab::{Lab, Namespace, Skip, wait_until};
use std::fs;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

/// A running `sockeye path`.
struct Following {
    child: Option<Child>,
    stderr: PathBuf,
}

impl Following {
    /// Starts it, and waits until it follows packets.
    #[track_caller]
    fn start(lab: &Lab, line: &str) -> Self {
        Self::start_with(lab, line, &[])
    }

    /// The same with variables of the environment.
    #[track_caller]
    fn start_with(lab: &Lab, line: &str, variables: &[(&str, &str)]) -> Self {
        Self::start_all(lab, line, variables, Stdio::piped())
    }

    /// Starts it with another output, as a terminal.
    #[track_caller]
    fn start_on(lab: &Lab, line: &str, stdout: Stdio) -> Self {
        Self::start_all(lab, line, &[], stdout)
    }

    #[track_caller]
    fn start_all(lab: &Lab, line: &str, variables: &[(&str, &str)], stdout: Stdio) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let stderr = lab.directory().join(format!("path{number}"));
        let mut command = std::process::Command::new(SOCKEYE);
        command.args(["path", "-v", "-d", "60", "--ring", "64Mi", "--slots", "65536"]);
        command.args(line.split_whitespace());
        clean(&mut command);
        command.envs(variables.iter().copied());
        let child = command
            .stdin(Stdio::null())
            .stdout(stdout)
            .stderr(fs::File::create(&stderr).unwrap())
            .spawn()
            .unwrap();
        let following = Self {
            child: Some(child),
            stderr,
        };
        wait_until("the start of path", || {
            following.error().contains("packets are followed")
        });
        following
    }

    fn error(&self) -> String {
        fs::read_to_string(&self.stderr).unwrap()
    }

    /// Ends it by SIGINT.
    #[track_caller]
    fn end(mut self) -> Outcome {
        let child = self.child.take().unwrap();
        kill_process(
            Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap(),
            Signal::INT,
        )
        .unwrap();
        let mut outcome: Outcome = child.wait_with_output().unwrap().into();
        outcome.stderr = self.error().into_bytes();
        outcome
    }

    /// Ends it; returns its document.
    #[track_caller]
    fn document(self) -> Value {
        let document = self.end().json();
        check_schema(&document);
        document
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Panics unless the document follows its schema.
#[track_caller]
fn check_schema(document: &Value) {
    let schema = schema_file::load(include_str!("../../../../../docs/schema/path.schema.json"));
    let schema = JSONSchema::options()
        .with_draft(Draft::Draft202012)
        .compile(&schema)
        .unwrap();
    let errors: Vec<_> = match schema.validate(document) {
        Ok(()) => return,
        Err(errors) => errors
            .map(|error| format!("{}: {error}", error.instance_path))
            .collect(),
    };
    panic!("{errors:#?}\n{document:#}");
}

/// The hop of a direction and kind, if there is exactly one.
#[track_caller]
fn hop<'a>(document: &'a Value, direction: &str, kind: &str) -> &'a Value {
    let hops = document["hops"].as_array().unwrap().iter();
    let found: Vec<_> = hops
        // What stands still at the end has a row of its own.
        .filter(|hop| hop.get("stands_still_ns").is_none())
        .filter(|hop| hop["direction"] == direction && hop["hop"] == kind)
        .collect();
    match found[..] {
        [only] => only,
        _ => panic!("{} hops {direction} {kind}: {document:#}", found.len()),
    }
}

/// A lab with one namespace, whose loopback is up.
fn alone(purpose: &str) -> Result<(Lab, Namespace), Skip> {
    let lab = Lab::new(purpose)?;
    let here = lab.namespace("here");
    here.sysctl("ipv6/conf/default/disable_ipv6", "1");
    here.ip("link set lo up");
    Ok((lab, here))
}
