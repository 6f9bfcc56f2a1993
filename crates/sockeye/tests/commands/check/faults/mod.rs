//! `sockeye check` in namespaces where something was made to be wrong, and whether its remedies can be typed.

pub(crate) mod remedies;
pub(crate) mod watch;

use crate::fixtures::binary::{Outcome, SOCKEYE, command, run};
use serde_json::Value;
use sockeye_lab::{Lab, Namespace, wait_within};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

/// Looks into a namespace from outside: rules about the host as a whole do not judge.
#[track_caller]
pub(crate) fn look(namespace: &Namespace, words: &str) -> Vec<Value> {
    let mut command = command();
    command.args(["check", "--format", "json", "--netns", namespace.name()]);
    findings(&run(command.args(words.split_whitespace())))
}

/// Looks at the host as a whole, from its first namespace; `words` should name rules, for others share it.
#[track_caller]
pub(crate) fn look_at_host(words: &str) -> Vec<Value> {
    let mut command = command();
    command.args(["check", "--format", "json"]);
    findings(&run(command.args(words.split_whitespace())))
}

#[track_caller]
fn findings(outcome: &Outcome) -> Vec<Value> {
    let mut document = outcome.json();
    let Value::Array(list) = document["findings"].take() else {
        panic!("no findings in {outcome}");
    };
    list
}

/// Looks once: exactly these have to be found, each named as [`name`] does. Their remedies are tried.
#[track_caller]
pub(crate) fn found(lab: &Lab, namespace: &Namespace, words: &str, expected: &[&str]) -> Vec<Value> {
    let list = look(namespace, words);
    assert_eq!(names(&list), expected, "{words}: {}", Value::from(list.clone()));
    for finding in &list {
        is_of(finding, namespace);
        remedies::rehearse(lab, namespace, finding);
    }
    list
}

/// Looks again and again, until exactly these are found.
#[track_caller]
pub(crate) fn found_soon(lab: &Lab, namespace: &Namespace, words: &str, expected: &[&str]) -> Vec<Value> {
    let mut last = Vec::new();
    let deadline = Instant::now() + DEADLINE;
    wait_within(DEADLINE * 2, format_args!("{expected:?}"), || {
        last = look(namespace, words);
        let is_found = names(&last) == expected;
        assert!(
            is_found || Instant::now() < deadline,
            "{words}: not {expected:?} but {}",
            Value::from(last.clone())
        );
        is_found.then_some(())
    });
    for finding in &last {
        is_of(finding, namespace);
        remedies::rehearse(lab, namespace, finding);
    }
    last
}

/// Whether it says in which namespace it is, by inode and name.
#[track_caller]
pub(crate) fn is_of(finding: &Value, namespace: &Namespace) {
    let kind = finding["subject"]["kind"].as_str().unwrap_or_default();
    match kind {
        "process" | "sockets" => assert!(finding.get("owners").is_some(), "{finding:#}"),
        // Their sockets may have an owner.
        "listener" | "device" | "next_hop" | "service" | "firewall_rule" => {}
        _ => assert!(finding.get("owners").is_none(), "{finding:#}"),
    }
    if finding["subject"]["kind"] != "process" {
        assert_eq!(finding["netns_inode"], namespace.inode(), "{finding:#}");
        assert_eq!(finding["netns"], namespace.name(), "{finding:#}");
    }
}

/// `warning device-drops tap0`: how bad, which rule, about what.
pub(crate) fn name(finding: &Value) -> String {
    let subject = &finding["subject"];
    let word = |value: &Value| value.as_str().unwrap().to_owned();
    let about = match subject["kind"].as_str().unwrap() {
        "device" => word(&subject["device"]),
        "qdisc" => format!("{} of {}", word(&subject["qdisc"]), word(&subject["device"])),
        "counter" => word(&subject["counter"]),
        "table" => word(&subject["table"]),
        "processor" => format!("processor {}", subject["processor"]),
        kind => kind.to_owned(),
    };
    format!(
        "{} {} {about}",
        word(&finding["severity"]),
        word(&finding["rule"])
    )
}

pub(crate) fn names(list: &[Value]) -> Vec<String> {
    list.iter().map(name).collect()
}

/// A fact of it, which it must have.
#[track_caller]
pub(crate) fn fact(finding: &Value, name: &str) -> u64 {
    finding["facts"][name]
        .as_u64()
        .unwrap_or_else(|| panic!("no {name} in {finding:#}"))
}

/// The commands it says to type.
pub(crate) fn commands(finding: &Value) -> Vec<&str> {
    let all = finding["remedies"].as_array().unwrap().iter();
    all.filter_map(|remedy| remedy["command"].as_str()).collect()
}

/// A Python program that does something until it is dropped. It says "ready", then answers lines with lines.
pub(crate) struct Script {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
}

impl Script {
    #[track_caller]
    pub(crate) fn start(namespace: &Namespace, text: &str) -> Self {
        Self::of(namespace.command("python3", &["-c", &format!("{TOOLS}{text}")]))
    }

    #[track_caller]
    pub(crate) fn of(mut command: Command) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (stdin, stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let mut script = Self {
            child,
            stdin,
            stdout: BufReader::new(stdout),
        };
        assert_eq!(script.hear(), "ready");
        script
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Says a line and gives the answer.
    #[track_caller]
    pub(crate) fn ask(&mut self, line: &str) -> String {
        writeln!(self.stdin, "{line}").unwrap();
        self.hear()
    }

    #[track_caller]
    fn hear(&mut self) -> String {
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }
}

impl Drop for Script {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs a Python program inside to its end.
#[track_caller]
pub(crate) fn python(namespace: &Namespace, text: &str) -> String {
    namespace.output("python3", &["-c", &format!("{TOOLS}{text}")])
}

/// Where the binary under test lies, for commands that are typed.
pub(crate) fn folder() -> &'static str {
    SOCKEYE.rsplit_once('/').unwrap().0
}

/// Others use the machine, too.
const DEADLINE: Duration = Duration::from_secs(20);
/// What the programs share: packets by hand, tunnels, namespaces.
const TOOLS: &str = r"
import ctypes, fcntl, os, select, socket, struct, sys, threading, time
def tun(name, flags=2):
    file = os.open('/dev/net/tun', os.O_RDWR)
    fcntl.ioctl(file, 0x400454ca, struct.pack('16sH22x', name.encode(), flags | 0x1000))
    return file
def enter(path):
    file = os.open(path, os.O_RDONLY)
    if ctypes.CDLL(None, use_errno=True).setns(file, 0x40000000): raise OSError(ctypes.get_errno(), path)
    os.close(file)
def ready(): print('ready', flush=True)
def report(line): print(line, flush=True)
def checksum(data):
    data += b'\0' * (len(data) % 2)
    total = sum(struct.unpack('!%dH' % (len(data) // 2), data))
    while total >> 16: total = (total & 0xffff) + (total >> 16)
    return ~total & 0xffff
def ip(source, destination, protocol, payload, ttl=64, number=0, offset=0, length=None, bad=0):
    length = 20 + len(payload) if length is None else length
    header = struct.pack('!BBHHHBBH4s4s', 0x45, 0, length, number, offset, ttl, protocol, 0,
                         socket.inet_aton(source), socket.inet_aton(destination))
    sum = (checksum(header) + bad) & 0xffff
    return header[:10] + struct.pack('!H', sum) + header[12:] + payload
def raw():
    return socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
def frames(device, kind=0x0800):
    packet = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
    packet.bind((device, kind))
    return packet
def frame(to, payload, kind=0x0800):
    return bytes.fromhex(to.replace(':', '')) + b'\2\0\0\0\0\x77' + struct.pack('!H', kind) + payload
def udp(): return socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
def udp6(): return socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
";
