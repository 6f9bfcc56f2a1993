//! `sockeye lstf` compared with lstf 0.7.2 on the same sockets: what both write, compared whole.

use crate::fixtures::live::{self, SOCKEYE, linked};
use crate::fixtures::processes::{UNPRIVILEGED_UID, own_and_other};
use serde_json::Value;
use sockeye_lab::{
    Lab, LabSocket, Link, Namespace, NetPath, Pair, Process, Skip, SocketOptions, State, need, program,
    wait_until,
};
use std::io::Read;
use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Both programs, and what they find below `/etc` and `/proc`.
struct Bench {
    lab: Lab,
    client: Namespace,
    server: Namespace,
    link: Link,
    theirs: PathBuf,
    /// Processes that the original may look at. It gives up where it may not read one, as the first of a sandbox.
    visible: Vec<u32>,
}

/// Mounts `hosts` over `/etc/hosts` and nothing over `/etc/resolv.conf`, the processes named into `root` so that they are
/// listed by their numbers as in `/proc`, and becomes the program. All of it in a mount namespace of its own.
const STAGE: &str = r#"
set -e
hosts=$1 nothing=$2 root=$3; shift 3
mount --bind "$hosts" /etc/hosts
mount --bind "$nothing" /etc/resolv.conf
mkdir -p "$root"
mount -t tmpfs none "$root"
for pid in $PIDS; do mkdir "$root/$pid"; done
if [ "$(ls -U "$root" | head -n 1)" != "${PIDS%% *}" ]; then
    rmdir "$root"/*
    for pid in $PIDS; do reversed="$pid $reversed"; done
    for pid in $reversed; do mkdir "$root/$pid"; done
fi
for pid in $PIDS; do mount --bind "/proc/$pid" "$root/$pid"; done
export PROC_ROOT=$root
exec "$@"
"#;

const HOSTS: &str = "127.0.0.1 localhost\n::1 ip6-localhost other\n10.77.0.1 client.example.org.\n\
                     10.77.0.2 a-name-that-is-longer-than-most-others.example.org\n203.0.113.7 seven\n";

impl Bench {
    fn new(purpose: &str) -> Result<Self, Skip> {
        let theirs = program("lstf")?;
        program("unshare")?;
        let (lab, client, server, link) = linked(purpose)?;
        std::fs::write(lab.directory().join("hosts"), HOSTS).unwrap();
        std::fs::write(lab.directory().join("nothing"), "").unwrap();
        Ok(Self {
            lab,
            client,
            server,
            link,
            theirs,
            visible: Vec::new(),
        })
    }

    fn command(&self, namespace: &Namespace, program: &Path, words: &[&str]) -> Command {
        let folder = self.lab.directory();
        let mut command = namespace.command("unshare", &["-m", "sh", "-c", STAGE, "sh"]);
        command
            .args([folder.join("hosts"), folder.join("nothing"), folder.join("root")])
            .arg(program)
            .args(words)
            .env("TZ", "Asia/Tokyo")
            .env_remove("LSTF_DEBUG")
            .stdin(Stdio::null());
        let mut pids = self.visible.clone();
        pids.sort_unstable();
        let pids: Vec<String> = pids.iter().map(u32::to_string).collect();
        command.env("PIDS", pids.join(" ")).env("reversed", "");
        command
    }

    fn ours(&self, namespace: &Namespace, words: &[&str]) -> Output {
        let words = [&["-u", "PROC_ROOT", SOCKEYE, "lstf"], words].concat();
        self.command(namespace, Path::new("env"), &words)
            .output()
            .unwrap()
    }

    fn theirs(&self, namespace: &Namespace, words: &[&str]) -> Output {
        self.command(namespace, &self.theirs, words).output().unwrap()
    }

    /// Both write the same, but for the order of rows, which is another at every run of the original.
    #[track_caller]
    fn compare(&self, namespace: &Namespace, words: &[&str]) -> usize {
        let (ours, theirs) = (self.ours(namespace, words), self.theirs(namespace, words));
        let context = format!(
            "lstf {words:?} in {}\nours: {}\ntheirs: {}",
            namespace.label(),
            streams_of(&ours),
            streams_of(&theirs)
        );
        assert_eq!(ours.status.code(), theirs.status.code(), "{context}");
        // By --debug we say which source was used; and always what could not be read.
        assert_eq!(
            without_notes(&ours.stderr),
            without_notes(&theirs.stderr),
            "{context}"
        );
        let (ours, theirs) = (rows(&ours.stdout), rows(&theirs.stdout));
        assert_eq!(ours, theirs, "{context}");
        ours.len()
    }
}

fn streams_of(output: &Output) -> String {
    format!(
        "{}\n{}\n{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

fn without_notes(stderr: &[u8]) -> String {
    let text = String::from_utf8_lossy(stderr);
    text.split_inclusive('\n')
        .filter(|line| !line.starts_with("sockeye: "))
        .collect()
}

/// The lines of a table, the header first; or the elements of an array, each as it is spelled. What is around them is
/// the first row.
fn rows(stdout: &[u8]) -> Vec<String> {
    let text = String::from_utf8(stdout.to_vec()).unwrap();
    let (first, mut rows) = match text.strip_prefix('[').and_then(|text| text.strip_suffix(']')) {
        Some(elements) => {
            let rows: Vec<String> = elements
                .split_inclusive("},{\"direction")
                .map(|element| element.trim_end_matches(",{\"direction").to_owned())
                .map(|element| element.trim_start_matches("{\"direction").to_owned())
                .map(|element| element.trim_start_matches("\":").to_owned())
                .collect();
            ("[]".to_owned(), rows)
        }
        None => {
            let mut lines = text.split_inclusive('\n').map(str::to_owned);
            (lines.next().unwrap_or_default(), lines.collect())
        }
    };
    rows.sort_unstable();
    rows.insert(0, first);
    rows
}

/// Whether a connection has the port of a listener at another address.
fn is_ambiguous(namespace: &Namespace) -> bool {
    let rows = namespace.tcp_rows();
    let (listeners, connections): (Vec<_>, Vec<_>) = rows.iter().partition(|row| row.state == State::Listen);
    connections.iter().any(|row| {
        let mut at_port = listeners
            .iter()
            .filter(|listener| listener.local.port() == row.local.port())
            .peekable();
        let ip = row.local.ip().to_canonical();
        at_port.peek().is_some()
            && !at_port.any(|listener| listener.local.ip().is_unspecified() || listener.local.ip() == ip)
    })
}

const TRIES: usize = 10;

/// Connections in every state, of every kind of address, to listeners on the addresses that lstf knows.
struct Crowd {
    _held: (Vec<Pair>, Vec<LabSocket>, Vec<Process>),
}

impl Crowd {
    /// A crowd in which lstf is right about directions: now and then a client gets the port of a listener at
    /// another address, and is taken for a server.
    fn at_a_bench(purpose: &str) -> Result<(Bench, Self), Skip> {
        for _ in 0..TRIES {
            let bench = Bench::new(purpose)?;
            let crowd = Self::new(&bench);
            if !is_ambiguous(&bench.client) && !is_ambiguous(&bench.server) {
                return Ok((bench, crowd));
            }
        }
        panic!("ports met {TRIES} times");
    }

    fn new(bench: &Bench) -> Self {
        let (client, server, link) = (&bench.client, &bench.server, &bench.link);
        let plain = SocketOptions::new();
        let http = server.tcp_listener("0.0.0.0:80", &plain);
        let https = server.tcp_listener("[::]:443", &plain);
        let mut pairs = vec![
            link.net_path().established_to(&http),
            link.net_path_mapped().established_to(&https),
            link.net_path6().established_to(&https),
            link.net_path_link_local().established_to(&https),
            client.loopback().established(),
            client.loopback().half_closed(),
            client.loopback_mapped().established(),
            client.loopback_mapped().half_closed(),
        ];
        let mut lab_sockets = vec![
            client.loopback().time_wait(),
            client.loopback_mapped().time_wait(),
        ];
        let net_path = link.net_path();
        pairs.extend((0..12).map(|_| net_path.established_to(&http)));
        let cut: [fn(&NetPath) -> Pair; 4] = [
            NetPath::syn_recv,
            NetPath::fin_wait1,
            NetPath::closing,
            NetPath::last_ack,
        ];
        for make in cut {
            // Its server listens on the IPv6 wildcard.
            pairs.push(make(&link.net_path_mapped()));
        }
        lab_sockets.push(link.net_path6().syn_sent());
        let mut processes = Vec::new();
        // Addresses as wide as a column may be, or a little more or less; public and private ones.
        let (dev, any) = (link.devices().0, client.tcp_listener("[::]:8443", &plain));
        for address in [
            "203.0.113.7",
            "169.254.7.7",
            "100.64.1.1",
            "172.31.255.254",
            "192.168.100.100",
            "2001:db8:2:333::1",
            "2001:db8:22:333::1",
            "2001:db8:a:b:c:d:e:f",
            "fdff::1:2",
        ] {
            let (bits, nodad) = if address.contains(':') {
                (128, " nodad")
            } else {
                (32, "")
            };
            client.ip(&format!("addr add {address}/{bits} dev {dev}{nodad}"));
            // The kernel gets an IPv6 address ready behind our back (addrconf_dad_work).
            wait_until(format_args!("the route to {address}"), || {
                let route = client.command("ip", &["route", "get", address]).output().unwrap();
                route.stdout.starts_with(b"local ")
            });
            let to = SocketAddr::new(address.parse().unwrap(), 8443);
            let caller = bench
                .lab
                .process("caller")
                .in_namespace(client)
                .tcp_connect(to)
                .start();
            lab_sockets.push(any.accept());
            processes.push(caller);
        }
        lab_sockets.extend([http, https, any]);
        Self {
            _held: (pairs, lab_sockets, processes),
        }
    }
}

#[test]
fn output_is_that_of_lstf() {
    let (bench, _crowd) = need!(Crowd::at_a_bench("as_lstf"));
    let nowhere = bench.lab.namespace("empty");
    let (mut combinations, mut seen) = (0, 0);
    for naming in [
        &[][..],
        &["-n"],
        &["-n=false"],
        &["--numeric=1"],
        &["-n", "--debug"],
    ] {
        for filter in [
            &[][..],
            &["-f", "public"],
            &["-fprivate"],
            &["-f=all"],
            &["--filter", "private"],
            &["--filter=public"],
            &["-f", "public", "-f", "all"],
        ] {
            for form in [&[][..], &["--json"], &["-test.x", "--json=F"]] {
                for namespace in [&bench.client, &bench.server, &nowhere] {
                    let words = [naming, filter, form].concat();
                    seen += bench.compare(namespace, &words) - 1;
                    combinations += 1;
                }
            }
        }
    }
    assert!(seen > 4 * combinations, "{seen} rows in {combinations}");
    println!("compared {combinations} combinations with lstf, {seen} flows");
}

#[test]
fn processes_are_those_of_lstf() {
    let mut bench = need!(Bench::new("lstf_owners"));
    let (client, server) = (bench.client.clone(), bench.server.clone());
    let lab = &bench.lab;
    let to = |port: u16| SocketAddr::new(bench.link.server_addresses().0, port);
    // One process, another's listener that does not accept, names with spaces and signs, groups of their own.
    let mut processes = Vec::new();
    for (port, name) in (9101..).zip([
        "web server",
        "<a>&\"b\"",
        "two  spaces)",
        "naïve",
        "back\\slash",
        "a\nline",
    ]) {
        let plan = lab.process(name).in_namespace(&client);
        processes.push(plan.own_group().tcp_pair(&format!("127.0.0.1:{port}")).start());
    }
    let silent = lab
        .process("silent")
        .in_namespace(&server)
        .tcp_listen("0.0.0.0:9300")
        .start();
    let callers = lab
        .process("caller")
        .in_namespace(&client)
        .own_group()
        .tcp_connect(to(9300))
        .tcp_connect(to(9300))
        .start();
    let caller6 = lab
        .process("caller6")
        .in_namespace(&client)
        .tcp_listen("[::]:9400")
        .tcp_connect("[::1]:9400".parse().unwrap())
        .start();
    // A socket of two processes is that of the later one.
    let listener = server.tcp_listener("0.0.0.0:9500", &SocketOptions::new());
    let shared = bench.link.net_path().established_to(&listener);
    let Pair {
        client: one,
        server: far,
        ..
    } = shared;
    let first = lab
        .process("first")
        .in_namespace(&client)
        .own_group()
        .sharing(&one)
        .start();
    let second = lab
        .process("second")
        .in_namespace(&client)
        .own_group()
        .taking(one)
        .start();
    // A socket without a descriptor has no process.
    let _gone = bench.link.net_path().time_wait();
    processes.extend([silent, callers, caller6, first, second]);
    let listener = lab
        .process("taker")
        .in_namespace(&server)
        .own_group()
        .taking(listener)
        .start();
    let worker = lab
        .process("worker")
        .in_namespace(&server)
        .own_group()
        .taking(far)
        .start();
    processes.extend([listener, worker]);
    bench.visible = processes.iter().map(Process::pid).collect();

    let mut combinations = 0;
    for words in [
        &["-np"][..],
        &["-n", "-p"],
        &["-pn", "--json"],
        &["--processes"],
        &["-p=t", "--json"],
        &["-npf", "private"],
        &["-np", "-f=public"],
    ] {
        let shows_all = words.contains(&"--json");
        for namespace in [&client, &server] {
            // Where a row has no process it ends the alignment of counts, and where that is differs from run to run.
            if shows_all {
                bench.compare(namespace, words);
            } else {
                let words_of = |output: Output| -> Vec<String> {
                    assert!(
                        output.status.success() && output.stderr.is_empty(),
                        "{}",
                        streams_of(&output)
                    );
                    let text = String::from_utf8(output.stdout).unwrap();
                    let line = |line: &str| {
                        let cells = line.split('\t').filter(|cell| !cell.is_empty());
                        cells.collect::<Vec<_>>().join("\t")
                    };
                    let mut lines: Vec<String> = text.lines().map(line).collect();
                    lines.sort_unstable();
                    lines
                };
                let ours = words_of(bench.ours(namespace, words));
                assert_eq!(ours, words_of(bench.theirs(namespace, words)), "{words:?}");
            }
            combinations += 1;
        }
    }
    // Where everybody has a process, byte for byte.
    let everybody = bench.lab.namespace("everybody");
    let held: Vec<Process> = (1..=11)
        .map(|length| {
            let plan = bench.lab.process("x".repeat(length)).in_namespace(&everybody);
            plan.tcp_pair("127.0.0.1:0").start()
        })
        .collect();
    bench.visible.extend(held.iter().map(Process::pid));
    for words in [&["-np"][..], &["-p"], &["-p", "--json"]] {
        assert_eq!(bench.compare(&everybody, words), 23);
        combinations += 1;
    }
    // And where no socket has one.
    let deserted = bench.lab.namespace("deserted");
    let _gone = deserted.loopback().time_wait();
    for words in [&["-np"][..], &["-np", "--json"]] {
        assert_eq!(bench.compare(&deserted, words), 2);
        combinations += 1;
    }
    println!("compared {combinations} combinations with lstf -p");

    // It gives up over a name that it cannot read.
    let odd = bench.lab.process("a) b").in_namespace(&deserted);
    let odd = odd.own_group().tcp_pair("127.0.0.1:0").start();
    bench.visible.push(odd.pid());
    assert_eq!(bench.theirs(&deserted, &["-np"]).status.code(), Some(FAILED));
    let ours = bench.ours(&deserted, &["-np"]);
    let process = format!("\t(\"a) b\",pgid={})\n", odd.group());
    let text = String::from_utf8_lossy(&ours.stdout);
    assert!(
        ours.status.success() && text.matches(&process).count() == 2,
        "{}",
        streams_of(&ours)
    );
}

/// The exit status and what is on stdout are the original's; so is what it says on stderr, and where it says nothing,
/// we do.
#[test]
fn errors_help_and_version_are_those_of_lstf() {
    let bench = need!(Bench::new("lstf_errors"));
    let mut combinations = 0;
    let mut check = |words: &[&str], outcome: &str| {
        let (ours, theirs) = (
            bench.ours(&bench.client, words),
            bench.theirs(&bench.client, words),
        );
        let context = format!(
            "{words:?}\nours: {}\ntheirs: {}",
            streams_of(&ours),
            streams_of(&theirs)
        );
        assert_eq!(ours.status.code(), theirs.status.code(), "{context}");
        assert_eq!(ours.stdout, theirs.stdout, "{context}");
        let (own, other) = (
            String::from_utf8(ours.stderr).unwrap(),
            String::from_utf8(theirs.stderr).unwrap(),
        );
        if outcome == "same" {
            assert_eq!(own, other, "{context}");
        } else {
            assert!(own.contains(outcome) && !own.contains("panicked"), "{context}");
            // A trace of a panic is no text to keep.
            assert!(
                own.starts_with(&other) || other.starts_with("panic: "),
                "{context}"
            );
        }
        combinations += 1;
    };
    for words in [
        &["--help"][..],
        &["-h"],
        &["-nh"],
        &["--json", "--help", "--bad"],
        &["-n", "-test.run=x"],
        &["-w=0", "-n"],
    ] {
        check(words, "same");
    }
    check(&["--bad"], "lstf: unknown flag: --bad;");
    check(&["--num"], "lstf: unknown flag: --num;");
    check(&["-v"], "lstf: unknown shorthand flag: 'v' in -v;");
    check(&["-n4"], "lstf: unknown shorthand flag: '4' in -4;");
    check(&["---n"], "lstf: bad flag syntax: ---n;");
    check(&["-f"], "lstf: flag needs an argument: 'f' in -f;");
    check(&["--filter"], "lstf: flag needs an argument: --filter;");
    check(
        &["-w=3s"],
        "lstf: invalid argument \"3s\" for \"-w, --watch\" flag: ",
    );
    check(
        &["--watch=99999999999999999999"],
        "parsing \"99999999999999999999\": value out of range",
    );
    check(
        &["-w3"],
        "lstf: unknown shorthand flag: '3' in -3; `lstf --help` lists",
    );
    check(
        &["--json=maybe"],
        "lstf: invalid argument \"maybe\" for \"--json\" flag: ",
    );
    check(&["-f", "here"], "lstf: --filter: \"here\" is not among them");
    check(&["-f="], "lstf: --filter: \"=\" is not among them");
    check(&["--watch=-1"], "lstf: --watch: expected seconds, 1 or more\n");
    check(&["-n", "eth0"], "lstf: \"eth0\" is no option and is ignored\n");
    check(&["-n", "--", "-p"], "lstf: \"-p\" is no option and is ignored\n");
    for words in [&["--version"][..], &["-n", "--version", "-f", "nonsense"]] {
        let [ours, theirs] = [
            bench.ours(&bench.client, words),
            bench.theirs(&bench.client, words),
        ];
        assert_eq!(
            (ours.status.code(), &ours.stdout[..]),
            (theirs.status.code(), &theirs.stdout[..])
        );
        let start = |output: Output| {
            String::from_utf8(output.stderr).unwrap()[.."lstf version 0.7.2, build ".len()].to_owned()
        };
        assert_eq!(start(ours), start(theirs), "{words:?}");
        combinations += 1;
    }
    let debug = |program: &Path, words: &[&str], value: &str| {
        let mut command = bench.command(&bench.client, program, words);
        command.env("LSTF_DEBUG", value).output().unwrap()
    };
    for value in ["maybe", "0", "true", ""] {
        let ours = debug(Path::new(SOCKEYE), &["lstf", "-n"], value);
        let theirs = debug(&bench.theirs, &["-n"], value);
        assert_eq!(
            (ours.status.code(), ours.stdout),
            (theirs.status.code(), theirs.stdout)
        );
        if value != "true" {
            assert_eq!(ours.stderr, theirs.stderr, "{value}");
        }
        combinations += 1;
    }
    println!("compared {combinations} errors, helps and versions with lstf");
}

/// Words at random, the same at every run.
#[test]
fn exit_status_is_that_of_lstf() {
    const WORDS: &[&str] = &[
        "-n",
        "-p",
        "-np",
        "-n=",
        "-n=0",
        "-nfall",
        "-nf",
        "-f",
        "all",
        "-fx",
        "-f=all",
        "--filter",
        "--filter=",
        "private",
        "--filter=public",
        "--json",
        "--json=T",
        "--json=no",
        "--js",
        "-w=0",
        "-w=0x0",
        "--watch=0_0",
        "--watch=00",
        "-w=08",
        "--watch=1_",
        "-w=-1",
        "-w=+0",
        "-w0",
        "--",
        "-",
        "--version",
        "--version=f",
        "--help",
        "-h",
        "-test.",
        "-ntest.w",
        "--=",
        "---",
        "--n",
        "-é",
        "--numeric=TRUE",
        "--processes=False",
        "--debug",
        "x",
    ];
    let bench = need!(Bench::new("lstf_lines"));
    let _pair = bench.client.loopback().established();
    let mut seed = 7_u64;
    let mut next = |below: usize| {
        seed = seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) as usize % below
    };
    for _ in 0..LINES {
        let words: Vec<&str> = (0..=next(4)).map(|_| WORDS[next(WORDS.len())]).collect();
        let [ours, theirs] = [
            bench.ours(&bench.client, &words),
            bench.theirs(&bench.client, &words),
        ];
        let context = format!(
            "{words:?}\nours: {}\ntheirs: {}",
            streams_of(&ours),
            streams_of(&theirs)
        );
        assert_eq!(ours.status.code(), theirs.status.code(), "{context}");
        // Whose process it is differs: this one's are not among those that the original may look at.
        if words
            .iter()
            .any(|word| word.starts_with("-p") || word.starts_with("-np") || word.starts_with("--p"))
        {
            continue;
        }
        assert_eq!(rows(&ours.stdout), rows(&theirs.stdout), "{context}");
    }
    println!("compared {LINES} lines of words with lstf");
}

const LINES: usize = 250;

#[test]
fn watch_output_is_that_of_lstf() {
    let bench = need!(Bench::new("lstf_watch"));
    let _pair = bench.client.loopback().established();
    let watched = |program: &Path, words: &[&str]| {
        let is_default = words.ends_with(&["-w"]);
        let mut child = bench
            .command(&bench.client, program, words)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        // Time is what is tested: samples within some intervals.
        std::thread::sleep(Duration::from_millis(if is_default { 4500 } else { 2500 }));
        // unshare and env have become the program.
        child.kill().unwrap();
        child.wait().unwrap();
        let mut text = String::new();
        child.stdout.take().unwrap().read_to_string(&mut text).unwrap();
        text
    };
    let mut combinations = 0;
    for form in [
        &["-n", "-w=1"][..],
        &["-n", "--watch=0b1", "--json"],
        &["-n", "-w"],
    ] {
        let ours = watched(Path::new(SOCKEYE), &[&["lstf"], form].concat());
        let theirs = watched(&bench.theirs, form);
        let samples = |text: &str| -> Vec<(u32, Vec<String>)> {
            let samples = text
                .split("-- ")
                .filter(|part| !part.is_empty())
                .collect::<Vec<_>>();
            // "-- 12:34:56 -- \n" leaves the time and then the rest.
            samples
                .chunks(2)
                .map(|both| {
                    let clock: Vec<u32> = both[0]
                        .trim()
                        .split(':')
                        .map(|part| part.parse().unwrap())
                        .collect();
                    assert!(both[0].len() == 9 && both[1].starts_with('\n'), "{text:?}");
                    let mut lines: Vec<String> = both[1].split_inclusive('\n').map(str::to_owned).collect();
                    if form.contains(&"--json") {
                        lines = rows(both[1].trim().as_bytes());
                        assert!(both[1].ends_with("]\n"), "{text:?}");
                    }
                    lines.sort_unstable();
                    (clock[0] * 3600 + clock[1] * 60 + clock[2], lines)
                })
                .collect()
        };
        let (ours, theirs) = (samples(&ours), samples(&theirs));
        assert!(
            ours.len() >= 2 && theirs.len() >= 2 && ours.len().abs_diff(theirs.len()) <= 1,
            "{ours:?}\n\nare not\n\n{theirs:?}"
        );
        for (own, other) in ours.iter().zip(&theirs) {
            assert_eq!(own.1, other.1);
            // They were run one after the other.
            let apart = (86_400 + other.0 - own.0) % 86_400;
            assert!(apart < 60, "{apart} s apart");
        }
        combinations += 1;
    }
    println!("compared {combinations} watches with lstf");
}

/// Who listens on an address of its own is a server too. lstf takes its connections for active ones, and a connection of
/// ours from such a port for a passive one.
#[test]
fn directions_are_those_of_the_listeners() {
    let (_lab, client, server, link) = need!(linked("lstf_directions"));
    let (net_path, net_path6) = (link.net_path(), link.net_path6());
    let accepted = [net_path.established(), net_path6.established()];
    let called = link.net_path().established();
    let _same_port = client.tcp_listener(
        &format!("127.0.0.1:{}", called.client.port()),
        &SocketOptions::new(),
    );
    let flows = |namespace: &Namespace| -> Vec<Value> {
        let text = live::sockeye(namespace, &["lstf", "-n", "--json"]);
        serde_json::from_str::<Value>(&text)
            .unwrap()
            .as_array()
            .unwrap()
            .clone()
    };
    for pair in &accepted {
        let address = pair.server.local.unwrap();
        let found: Vec<Value> = flows(&server)
            .into_iter()
            .filter(|flow| flow["local"]["addr"] == address.ip().to_string())
            .collect();
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(
            (&found[0]["direction"], &found[0]["local"]["port"]),
            (&"passive".into(), &address.port().to_string().into())
        );
    }
    assert!(flows(&client).iter().all(|flow| flow["direction"] == "active"));
}

#[test]
fn link_named_lstf_and_closed_output_work() {
    let (lab, client, _server, _link) = need!(linked("lstf_link"));
    let _pair = client.loopback().established();
    let link = lab.directory().join("lstf");
    std::os::unix::fs::symlink(SOCKEYE, &link).unwrap();
    let by_link = client.output(&link.display().to_string(), &["-n"]);
    assert_eq!(by_link, live::sockeye(&client, &["lstf", "-n"]));
    assert_eq!(by_link.lines().count(), 3, "{by_link}");

    for words in ["-n", "-n --json", "-n -w=1", "--credits"] {
        let started = Instant::now();
        let line = format!(
            "{{ {} {words}; echo \"status $?\" >&2; }} | head -c 1 >/dev/null",
            link.display()
        );
        let outcome = client.command("bash", &["-c", &line]).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&outcome.stderr), "status 0\n", "{words}");
        assert!(started.elapsed() < Duration::from_secs(5), "{words}");
    }
    let line = format!("{} -n >/dev/full", link.display());
    let outcome = client.command("bash", &["-c", &line]).output().unwrap();
    assert_eq!(outcome.status.code(), Some(FAILED));
    assert!(
        String::from_utf8_lossy(&outcome.stderr).starts_with("write to standard output: "),
        "{}",
        streams_of(&outcome)
    );
}

#[test]
fn unprivileged_user_sees_what_is_readable_and_what_is_missing() {
    let lab = need!(Lab::new("lstf_unprivileged"));
    let here = lab.namespace("here");
    let binary = lab.copy_for_all_users(Path::new(SOCKEYE));
    let (own, other) = own_and_other(&lab, &here);
    let mut command = Command::new(&binary);
    command
        .args(["lstf", "-np"])
        .uid(UNPRIVILEGED_UID)
        .gid(UNPRIVILEGED_UID)
        .stdin(Stdio::null());
    let outcome = here.run(|| command.output().unwrap());
    assert!(outcome.status.success(), "{}", streams_of(&outcome));
    let (stdout, stderr) = (
        String::from_utf8_lossy(&outcome.stdout),
        String::from_utf8_lossy(&outcome.stderr),
    );
    assert_eq!(stdout.lines().count(), 5, "{stdout}");
    let port = |process: &Process| format!(":{}\t", process.sockets()[0].port());
    let lines = |port: &str| -> Vec<&str> {
        stdout
            .lines()
            .filter(|line| format!("{line}\t").contains(port))
            .collect()
    };
    let group = format!("(\"own\",pgid={})", own.group());
    assert!(
        lines(&port(&own)).iter().all(|line| line.ends_with(&group)),
        "{stdout}"
    );
    assert!(
        lines(&port(&other)).iter().all(|line| !line.contains("pgid")),
        "{stdout}"
    );
    assert!(
        stderr.contains("could not be read: owners may be missing"),
        "{stderr}"
    );
}

/// lstf's exit status for whatever goes wrong.
const FAILED: i32 = 11;
