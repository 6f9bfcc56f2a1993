//! What is more than one run of two programs: dumps that one saves and the other reads, events, closing sockets, readers
//! that go away, disks that are full.

use super::mask::difference;
use super::run::{Case, Outcome, Program, Programs, Stdout};
use super::socket_set::SocketSet;
use crate::fixtures::terminal::Terminal;
use sockeye_lab::{Lab, Namespace, NetPath, Pair, Skip, SocketOptions, need, wait_for, wait_until};
use std::any::Any;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, ExitStatus, Stdio};
use std::time::Duration;

#[test]
fn dump_files_are_interchangeable_with_ss() {
    let socket_set = need!(SocketSet::open("dumps"));
    dumps(&socket_set, &Programs::new(&socket_set));
}

#[test]
fn events_are_those_of_ss() {
    let lab = need!(Lab::new("events"));
    need!(sockeye_lab::program("ss"));
    events(&lab, &Programs::in_directory(lab.directory()));
}

#[test]
fn closed_sockets_are_those_of_ss() {
    let lab = need!(Lab::new("closed"));
    need!(sockeye_lab::program("ss"));
    need!(closes(&lab));
    closed(&Programs::in_directory(lab.directory()));
}

#[test]
fn closed_output_exits_like_ss() {
    let socket_set = need!(SocketSet::open("leaves"));
    left(&socket_set, &Programs::new(&socket_set));
}

#[test]
fn full_disk_is_handled_like_ss() {
    let socket_set = need!(SocketSet::open("full"));
    full(&socket_set, &Programs::new(&socket_set));
}

#[test]
fn control_characters_are_escaped_on_a_terminal() {
    let socket_set = need!(SocketSet::open("harmless"));
    harmless(&socket_set, &Programs::new(&socket_set));
}

#[test]
fn bpf_and_netlink_agree() {
    let socket_set = need!(SocketSet::open("walked"));
    walked(&socket_set, &Programs::new(&socket_set));
}

/// These tests themselves hold for the real ss.
#[test]
fn ss_passes_its_own_special_tests() {
    let socket_set = need!(SocketSet::open("itself"));
    let programs = Programs::real_twice();
    dumps(&socket_set, &programs);
    left(&socket_set, &programs);
    full(&socket_set, &programs);
    events(&need!(Lab::new("own_events")), &programs);
    let lab = need!(Lab::new("own_closed"));
    need!(closes(&lab));
    closed(&programs);
}

/// What each saves, both read alike; what the two saved says the same.
fn dumps(socket_set: &SocketSet, programs: &Programs) {
    for options in ["-ta", "-tan state listening", "-t", "-4ta", "-tn state time-wait"] {
        // A retransmission, or a time that got one digit more, may come between the two: then once more.
        let mut tries = 0..5;
        loop {
            match (dump(socket_set, programs, options), tries.next()) {
                (Ok(()), _) => break,
                (Err(_), Some(_)) => {}
                (Err(text), None) => panic!("{text}"),
            }
        }
    }
}

fn dump(socket_set: &SocketSet, programs: &Programs, options: &str) -> Result<(), String> {
    let (of_ours, of_real) = (socket_set.file("of-ours"), socket_set.file("of-real"));
    let save = |program: &Program, file: &Path| {
        let case = Case::of(&format!("{options} -D {}", file.display()));
        socket_set.here.run(|| case.run(program, &socket_set.directory))
    };
    let outcome = (save(&programs.ours, &of_ours), save(&programs.real, &of_real));
    if let Some(text) = difference(&Case::of(options), &outcome.0, &outcome.1) {
        return Err(format!("ss {options} -D FILE:\n{text}"));
    }
    for reading in [
        "-tan",
        "-tanO",
        "-tanoiem",
        "-ta --tos --cgroup --inet-sockopt",
        "-tan sport = 22",
    ] {
        let case = Case::of(reading);
        let read = |program: &Program, file: &Path| {
            let case = case.clone().set("TCPDIAG_FILE", file);
            case.run(program, &socket_set.directory)
        };
        let expected = read(&programs.real, &of_real);
        for (program, file, who) in [
            (&programs.ours, &of_real, "ours reads what the real ss saved"),
            (&programs.real, &of_ours, "the real ss reads what ours saved"),
            (&programs.ours, &of_ours, "ours reads what ours saved"),
        ] {
            if let Some(text) = difference(&case, &read(program, file), &expected) {
                return Err(format!("{who} by {options}, ss {reading}:\n{text}"));
            }
        }
    }
    Ok(())
}

/// Both follow at once; then sockets of several kinds close.
fn events(lab: &Lab, programs: &Programs) {
    for (number, line) in [
        "-E",
        "-Et",
        "-Eu",
        "-EtnO",
        "-Etu",
        "-E4n",
        "-E6n",
        "-Etnoe",
        "-Etniem",
        "-EtH",
        "-Ena",
        "-Etn sport = 30001",
        "-Eta --tos",
    ]
    .into_iter()
    .enumerate()
    {
        let here = lab.namespace(&format!("events{number}"));
        let sockets = batch(&here, [here.loopback(), here.loopback6(), here.loopback_mapped()]);
        let mut followers = Vec::new();
        for (index, program) in [&programs.ours, &programs.real].into_iter().enumerate() {
            let follower = Follower::start(program, line, &here);
            // It has subscribed once its socket has groups, of the sock_diag family 4.
            wait_until(
                format_args!("ss {line} to subscribe ({})", program.path.display()),
                || {
                    let rows = here.proc_net("netlink");
                    let followed = rows.lines().filter(|row| {
                        let words: Vec<&str> = row.split_whitespace().collect();
                        words.get(1) == Some(&"4") && words.get(3).is_some_and(|groups| *groups != "00000000")
                    });
                    followed.count() > index
                },
            );
            followers.push(follower);
        }
        for socket in sockets {
            drop(socket);
            // One after the other, so that the order is the same for both.
            std::thread::sleep(Duration::from_millis(3));
        }
        let case = Case::of(line);
        wait_for("the last event", || {
            let outcome: Vec<Outcome> = followers.iter().map(Follower::outcome).collect();
            let settled = outcome.iter().all(|outcome| !outcome.stdout.is_empty());
            settled
                .then(|| difference(&case, &outcome[0], &outcome[1]))?
                .is_none()
                .then_some(())
        });
    }
}

/// A program that runs until it is dropped, its output on a terminal, so that each line comes at once.
struct Follower {
    child: Child,
    reader: Option<std::thread::JoinHandle<()>>,
    text: std::sync::Arc<std::sync::Mutex<Vec<u8>>>,
}

/// Both of a connection, or one.
type Sockets = Vec<Box<dyn Any>>;

impl Follower {
    fn start(program: &Program, line: &str, namespace: &Namespace) -> Self {
        let terminal = Terminal::new(132);
        let mut command = program.command();
        command.arg0("ss").args(Case::of(line).words);
        command
            .stdin(Stdio::null())
            .stdout(terminal.stdio())
            .stderr(Stdio::null());
        let child = namespace.run(|| command.spawn()).unwrap();
        drop(command);
        let mut master = terminal.into_main();
        let text = std::sync::Arc::default();
        let shared: std::sync::Arc<std::sync::Mutex<Vec<u8>>> = std::sync::Arc::clone(&text);
        let reader = std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(len) = std::io::Read::read(&mut master, &mut buffer) {
                if len == 0 {
                    break;
                }
                shared.lock().unwrap().extend_from_slice(&buffer[..len]);
            }
        });
        Self {
            child,
            reader: Some(reader),
            text,
        }
    }

    fn outcome(&self) -> Outcome {
        Outcome {
            stdout: self.text.lock().unwrap().clone(),
            stderr: Vec::new(),
            status: ExitStatus::from_raw(0),
            pid: self.child.id(),
            known_unix: None,
        }
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
    }
}

/// The same sockets at each call in other namespaces, down to their ports: a bind to port 0 finds only one free port.
fn batch(here: &Namespace, net_paths: [NetPath; 3]) -> Sockets {
    let mut sockets: Sockets = Vec::new();
    let mut port = 30_000;
    let mut next = || {
        port += 1;
        here.sysctl("ipv4/ip_local_port_range", &format!("{port} {port}"));
    };
    let mut give = |pair: Pair| {
        sockets.push(Box::new(pair.client));
        sockets.push(Box::new(pair.server));
        sockets.extend(pair.listener.map(|listener| Box::new(listener) as Box<dyn Any>));
    };
    let udp = [
        ["127.0.0.1:40001", "127.0.0.1:40002"],
        ["[::1]:40003", "[::1]:40004"],
        ["[::ffff:127.0.0.1]:40005", "[::ffff:127.0.0.1]:40006"],
    ];
    for (number, net_path) in net_paths.into_iter().enumerate() {
        let local = ["127.0.0.1:20000", "[::1]:20010", "[::]:20020"][number];
        let options = SocketOptions::new();
        let any = ["0.0.0.0:20001", "[::]:20002", "[::]:20003"][number];
        let listener = net_path.server().tcp_listener(any, &options);
        let marked = net_path.with_client(SocketOptions::new().mark(7));
        for net_path in [&net_path, &net_path, &marked] {
            next();
            give(net_path.established_to(&listener));
        }
        let (one, other) = (&udp[number][0], &udp[number][1]);
        let (client, server) = (here.udp_bound(one, &options), here.udp_bound(other, &options));
        for (socket, to) in [(&client, other), (&server, one)] {
            let to: SocketAddr = to.parse().unwrap();
            rustix::net::connect(socket.fd().unwrap(), &to).unwrap();
        }
        give(Pair {
            client,
            server,
            listener: None,
        });
        give(Pair {
            client: here.udp_bound(&local.replace(":200", ":210"), &options),
            server: here.tcp_bound(&local.replace(":200", ":220"), &options),
            listener: None,
        });
        give(Pair {
            client: here.tcp_listener(local, &options),
            server: listener,
            listener: Some(here.raw(1, false)),
        });
    }
    sockets
}

/// Whether this kernel lets sockets be closed.
fn closes(lab: &Lab) -> Result<(), Skip> {
    let here = lab.namespace("closes");
    let _pair = here.loopback().established();
    here.output("ss", &["-Kta"]);
    match here.output("ss", &["-Htan"]).as_str() {
        "" => Ok(()),
        _ => Err(Skip::new(
            "this kernel closes no sockets (CONFIG_INET_DIAG_DESTROY)",
        )),
    }
}

/// Two equal batches, one closed by each program: they write the same, and leave the same.
fn closed(programs: &Programs) {
    for (number, line) in [
        "-Ktn sport = 30001",
        "-Kt state listening",
        "-Kta",
        "-Ktan",
        "-Kua",
        "-Ktuan dst 127.0.0.1",
        "-Kxa",
        "-Ktn6",
        "-KHtnaO",
        "-Ktn dport = 20001",
        "-Ktn fwmark 7",
        "-Kan",
        "-Ktn dev veth0c",
        "-Ktun sport = 20000 or sport = 40001",
        "-K",
        "-Ktn state time-wait",
        "-Kwa",
        "-Ktam",
    ]
    .into_iter()
    .enumerate()
    {
        // What is under way while a program looks may be another thing for the next: three batches have to differ alike.
        let differs = (0..3).map_while(|_| closed_by_each(programs, line, number));
        let texts: Vec<String> = differs.collect();
        assert!(texts.len() < 3, "ss {line}:\n{}", texts.concat());
    }
}

/// Returns how their output, or what is left, differs.
fn closed_by_each(programs: &Programs, line: &str, number: usize) -> Option<String> {
    let case = Case::of(line);
    let (mut outcome, mut left) = (Vec::new(), Vec::new());
    for (index, program) in [&programs.ours, &programs.real].into_iter().enumerate() {
        // A lab of its own, for the same addresses. The peers are elsewhere: here one closed socket would take along its
        // peer, and which is met first is chance.
        let lab = Lab::new(&format!("closed{number}{index}")).unwrap();
        let (here, there) = (lab.namespace("here"), lab.namespace("there"));
        let link = lab.link(&here, &there);
        let sockets = batch(&here, [link.net_path(), link.net_path6(), link.net_path_mapped()]);
        outcome.push(here.run(|| case.run(program, lab.directory())));
        let listing = Case::of("-tuan");
        left.push(here.run(|| listing.run(&programs.real, lab.directory())));
        drop(sockets);
    }
    difference(&case, &outcome[0], &outcome[1]).or_else(|| {
        let left = difference(&Case::of("-tuan"), &left[0], &left[1])?;
        Some(format!("afterwards there are left:\n{left}"))
    })
}

/// What others chose reaches no terminal raw.
fn harmless(socket_set: &SocketSet, programs: &Programs) {
    for line in ["-anp", "-xanp", "-tlnp"] {
        let outcome = socket_set.here.run(|| {
            let case = Case::of(line).to(Stdout::Terminal(100));
            case.run(&programs.ours, &socket_set.directory)
        });
        let raw = outcome
            .stdout
            .iter()
            .find(|byte| byte.is_ascii_control() && !b"\r\n\t".contains(byte));
        assert_eq!(raw, None, "ss {line} on a terminal");
        assert!(
            std::str::from_utf8(&outcome.stdout).is_ok(),
            "ss {line} on a terminal"
        );
        assert!(
            outcome.stdout.windows(2).any(|two| two == b"?["),
            "the odd names are there"
        );
    }
}

/// The BPF walk over the kernel's tables lists what netlink lists, also wildcards of IPv6.
fn walked(socket_set: &SocketSet, programs: &Programs) {
    for line in ["-tan", "-uan", "-tln", "-6tuln", "-tanp", "-tan --cgroup"] {
        let of = |program, words: &str| {
            let case = Case::of(words);
            socket_set.here.run(|| case.run(program, &socket_set.directory))
        };
        let real = of(&programs.real, line);
        let ours = of(&programs.ours, &format!("{line} --source=bpf"));
        if let Some(text) = difference(&Case::of(line), &ours, &real) {
            panic!("ss {line} --source=bpf:\n{text}");
        }
    }
}

/// `ss ... | head -1`: the first line is the same, without an error or a hang.
fn left(socket_set: &SocketSet, programs: &Programs) {
    for line in ["-an", "-tani", "-tan", "-h", "-s -ta"] {
        let mut firsts = Vec::new();
        for program in [&programs.ours, &programs.real] {
            let mut command = program.command();
            command.arg0("ss").args(Case::of(line).words).env_clear();
            command
                .stdin(Stdio::null())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped());
            let mut child = socket_set.here.run(|| command.spawn()).unwrap();
            let mut first = String::new();
            let mut reader = BufReader::with_capacity(64, child.stdout.take().unwrap());
            reader.read_line(&mut first).unwrap();
            drop(reader);
            let output = child.wait_with_output().unwrap();
            // Keys of MD5 signatures the real one prints before its header.
            let first = first.trim_start_matches("secret").trim_end().to_owned();
            firsts.push((first, String::from_utf8_lossy(&output.stderr).into_owned()));
        }
        if line.starts_with("-s") {
            // How many sockets there are in all is another test's matter.
            firsts
                .iter_mut()
                .for_each(|(first, _)| first.truncate("Total: ".len()));
        }
        assert_eq!(firsts[0], firsts[1], "{line}");
    }
}

/// Nothing can be written: as the real ss, which does not notice, or with the reason and a failure.
fn full(socket_set: &SocketSet, programs: &Programs) {
    assert!(File::open("/dev/full").is_ok());
    for line in ["-tan", "-h", "-s", "-taniem", "-an"] {
        let case = Case::of(line).to(Stdout::Full);
        let [ours, real] = [&programs.ours, &programs.real]
            .map(|program| socket_set.here.run(|| case.run(program, &socket_set.directory)));
        let stderr = String::from_utf8_lossy(&ours.stderr);
        let is_reported = !ours.status.success() && stderr.contains("No space left on device");
        assert!(
            is_reported || difference(&case, &ours, &real).is_none(),
            "{line}: {} {stderr}",
            ours.status
        );
    }
}
