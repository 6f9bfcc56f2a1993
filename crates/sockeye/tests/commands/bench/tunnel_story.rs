//! The story of the slow tunnel, with the real OpenVPN: a queue of three frames, measured, found, named, lengthened, and
//! measured again.

use crate::fixtures::binary::{Outcome, SOCKEYE, clean, words_in};
use serde_json::Value;
use sockeye_lab::{Impairment, Lab, Namespace, Toward, need, output_of, program, wait_until, wait_within};
use std::fs;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A program that works until it is dropped, and what it says.
struct Worker {
    child: Child,
    outcome: PathBuf,
}

impl Worker {
    #[track_caller]
    fn start(lab: &Lab, name: &str, mut command: Command) -> Self {
        let outcome = lab.directory().join(name);
        let file = fs::File::create(&outcome).unwrap();
        let child = command
            .stdin(Stdio::null())
            .stdout(file.try_clone().unwrap())
            .stderr(file)
            .spawn()
            .unwrap();
        Self { child, outcome }
    }

    fn outcome(&self) -> String {
        fs::read_to_string(&self.outcome).unwrap()
    }

    #[track_caller]
    fn says(&self, sign: &str) {
        wait_within(
            Duration::from_secs(20),
            format_args!("{sign}: {}", self.outcome()),
            || self.outcome().contains(sign).then_some(()),
        );
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// OpenVPN, `tap0` at both ends with 10.10.0.1 and .2, unencrypted: what is looked for is the queue.
fn openvpn(lab: &Lab, own: &Namespace, key: &Path, [host, peer]: [u8; 2]) -> Worker {
    let key = key.to_str().unwrap();
    let arguments = format!(
        "--dev tap0 --dev-type tap --secret {key} --cipher none --auth none --local 10.78.0.{host} \
         --remote 10.78.0.{peer} --ifconfig 10.10.0.{host} 255.255.255.0 --txqueuelen 3"
    );
    let words: Vec<&str> = arguments.split_whitespace().collect();
    Worker::start(lab, &format!("openvpn{host}"), own.command("openvpn", &words))
}

#[track_caller]
fn json(outcome: &Outcome) -> Value {
    let text = String::from_utf8_lossy(&outcome.stdout);
    serde_json::from_str(&text)
        .unwrap_or_else(|error| panic!("{error}: {text}\n{}", String::from_utf8_lossy(&outcome.stderr)))
}

/// Runs it with text output, to read the story: `SOCKEYE_STORY=1`, with `--nocapture`.
fn report(client: &Namespace, line: &str) {
    if std::env::var_os("SOCKEYE_STORY").is_some() {
        let outcome = words_in(client, line);
        eprintln!("\n$ sockeye {line}\n{}", String::from_utf8_lossy(&outcome.stdout));
    }
}

/// What gets through the tunnel, in bytes a second.
#[track_caller]
fn stream(client: &Namespace) -> f64 {
    // The congestion control that nearly everybody has.
    let outcome = words_in(client, "bench stream 10.10.0.2 -d 2 -C cubic --json");
    assert_eq!(
        outcome.code,
        Some(0),
        "{}",
        String::from_utf8_lossy(&outcome.stderr)
    );
    let report = json(&outcome);
    let rate = report["summary"][0]["bytes_per_s"].as_f64();
    rate.unwrap_or_else(|| panic!("{report:#}"))
}

#[test]
fn tunnel_with_a_queue_of_three_frames_is_diagnosed() {
    need!(program("openvpn"));
    let lab = need!(Lab::new("tunnel_story"));
    let (client, server) = (lab.namespace("client"), lab.namespace("server"));
    // Where an answer takes 4 ms: bursts go out, and the sender waits.
    let middlebox = lab.middlebox(&client, &server, 1);
    for toward in [Toward::Client, Toward::Server] {
        let impairment = Impairment {
            delay: Duration::from_millis(2),
            ..Impairment::default()
        };
        middlebox.set(toward, impairment);
    }
    let key = lab.directory().join("key");
    let mut genkey = Command::new("openvpn");
    genkey.args(["--genkey", "secret"]).arg(&key);
    output_of(genkey);
    let ends = [
        openvpn(&lab, &client, &key, [1, 2]),
        openvpn(&lab, &server, &key, [2, 1]),
    ];
    for end in &ends {
        end.says("Initialization Sequence Completed");
    }
    let mut serve = server.command(SOCKEYE, &["bench", "serve"]);
    clean(&mut serve);
    let serve = Worker::start(&lab, "serve", serve);
    let listens = || client.run(|| TcpStream::connect("10.10.0.2:5210").is_ok());
    wait_until(format_args!("it serves: {}", serve.outcome()), listens);

    // 1. It is slow.
    let slow = stream(&client);
    report(&client, "bench stream 10.10.0.2 -d 5 -C cubic");

    // 2. While it carries, `check`, `bench tun --device` and `analyze` name the queue.
    let file = lab.directory().join("tap0.pcapng");
    let mut load = client.command(
        SOCKEYE,
        &["bench", "stream", "10.10.0.2", "-d", "30", "-C", "cubic"],
    );
    clean(&mut load);
    let load = Worker::start(&lab, "load", load);
    // Two seconds of a busy machine need not show an overflow that can be distinguished from a loss on the path.
    let capture = format!("capture -i tap0 -d 2 -o {}", file.display());
    let mut text = String::new();
    for _ in 0..5 {
        let outcome = words_in(&client, &capture);
        assert_eq!(
            outcome.code,
            Some(0),
            "{capture}: {}",
            String::from_utf8_lossy(&outcome.stderr)
        );
        let outcome = words_in(&client, &format!("analyze {}", file.display()));
        text = String::from_utf8(outcome.stdout).unwrap();
        if text.contains("segments overflows") {
            break;
        }
    }
    assert!(text.contains("segments overflows"), "{text}");
    report(&client, &format!("analyze {}", file.display()));
    let outcome = words_in(&client, "check --watch 1 --count 1 --format json");
    let findings = json(&outcome);
    let of_queue = |finding: &&Value| finding["rule"] == "queue-length";
    let all = findings["findings"].as_array().unwrap();
    let finding = all
        .iter()
        .find(of_queue)
        .unwrap_or_else(|| panic!("{findings:#}"));
    assert_eq!(finding["severity"], "critical", "{finding:#}");
    let outcome = words_in(&client, "bench tun --device tap0 -d 1 --json");
    let advice = json(&outcome);
    assert!(
        advice["devices"][0]["tx_dropped_per_s"].as_f64() > Some(0.0),
        "{advice:#}"
    );
    assert_eq!(advice["devices"][0]["reader"], "openvpn", "{advice:#}");
    report(&client, "check --watch 2 --count 1");
    report(&client, "bench tun --device tap0");
    drop(load);

    // 3. The recommended setting is applied as printed.
    let remedies: Vec<&str> = advice["sentences"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|sentence| sentence["remedies"].as_array())
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let remedy = remedies
        .iter()
        .find(|remedy| remedy.starts_with("ip link set dev tap0 txqueuelen"));
    let remedy = remedy.unwrap_or_else(|| panic!("{advice:#}"));
    output_of(client.command("sh", &["-c", *remedy]));

    // 4. More gets through. The machine may be busy with other things for a moment.
    let mut fast = 0.0;
    for _ in 0..4 {
        fast = f64::max(fast, stream(&client));
        if fast > slow * 1.5 {
            break;
        }
    }
    report(&client, "bench stream 10.10.0.2 -d 5 -C cubic");
    report(&client, "bench tun --device tap0");
    assert!(fast > slow * 1.5, "{slow} before, {fast} after {remedy}");
    eprintln!("{:.1} -> {:.1} Mbit/s by `{remedy}`", slow * 8e-6, fast * 8e-6);
}
