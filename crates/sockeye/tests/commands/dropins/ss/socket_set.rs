//! A socket set: a process of its own that holds sockets of every kind and state, in a laboratory of its own.
//!
//! A process of its own, because the tests start two programs for each combination: between fork and exec a child holds all
//! that its parent holds, and threads come and go, which `-p` and `-T` would show.

use sockeye_lab::{Lab, LabSocket, Link, Namespace, NetPath, Pair, Skip, SocketOptions, UnixKind};
use sockeye_lab::{congestion_control, program};
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Mutex;
use std::time::Duration;

/// Sockets of every kind and state, held by a process of its own. Dropping it ends the process and removes all that it made.
pub(crate) struct SocketSet {
    holder: Child,
    stdin: Mutex<Option<ChildStdin>>,
    pub(crate) here: Namespace,
    pub(crate) there: Namespace,
    pub(crate) directory: PathBuf,
    /// A path below cgroup2's root, with a leading slash; `None` where there is no cgroup2.
    pub(crate) cgroup: Option<String>,
    lines: Mutex<Box<dyn Iterator<Item = String> + Send>>,
}

impl SocketSet {
    /// Starts the holder and waits until everything is there; what this kernel lacks is reported as a skip.
    pub(crate) fn open(purpose: &str) -> Result<Self, Skip> {
        // libtest's names leave out the crate's.
        let (_, module) = module_path!().split_once("::").unwrap();
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args([
                "--exact",
                &format!("{module}::holder_of_the_sockets"),
                "--ignored",
                "--nocapture",
                "--test-threads=1",
            ])
            .env(PURPOSE, purpose)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut holder = command.spawn().unwrap();
        let stdin = holder.stdin.take();
        let stdout = BufReader::new(holder.stdout.take().unwrap());
        let mut lines = stdout.lines().map_while(Result::ok);
        let mut facts = Vec::new();
        let fact = |facts: &[(String, String)], name: &str| {
            let found = facts.iter().find(|(known, _)| known == name);
            found.map(|(_, value)| value.clone())
        };
        loop {
            let Some(line) = lines.next() else {
                let status = holder.wait().unwrap();
                if let Some(reason) = fact(&facts, "skip") {
                    return Err(Skip::new(reason));
                }
                panic!("the holder of the socket set failed: {status}");
            };
            match line.trim().split_once(": ") {
                Some(("lacks", what)) => report_once(what),
                Some((name, value)) => facts.push((name.to_owned(), value.to_owned())),
                None if line.trim() == READY => break,
                None => {}
            }
        }
        let must = |name| fact(&facts, name).unwrap_or_else(|| panic!("the holder did not report {name}"));
        Ok(Self {
            here: Namespace::open_existing(&must("here")),
            there: Namespace::open_existing(&must("there")),
            directory: must("directory").into(),
            cgroup: fact(&facts, "cgroup"),
            holder,
            stdin: Mutex::new(stdin),
            lines: Mutex::new(Box::new(lines)),
        })
    }

    /// The kernel forgets connections in TIME_WAIT after 60 seconds: makes new ones.
    pub(crate) fn renew(&self) {
        let mut stdin = self.stdin.lock().unwrap();
        stdin.as_mut().unwrap().write_all(b"\n").unwrap();
        let mut lines = self.lines.lock().unwrap();
        assert!(
            lines.any(|line| line.trim() == READY),
            "the holder of the socket set died"
        );
    }

    /// A file in its directory.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }
}

impl Drop for SocketSet {
    fn drop(&mut self) {
        *self
            .stdin
            .get_mut()
            .unwrap_or_else(std::sync::PoisonError::into_inner) = None;
        let _ = self.holder.wait();
    }
}

#[test]
#[ignore = "a process that the other tests start"]
fn holder_of_the_sockets() {
    let Some(purpose) = std::env::var_os(PURPOSE) else {
        return;
    };
    match Contents::new(&purpose.to_string_lossy()) {
        Ok(mut contents) => {
            println!("\n{READY}");
            let mut byte = [0];
            while std::io::stdin().read(&mut byte).is_ok_and(|len| len > 0) {
                contents.brief.clear();
                contents.make_brief();
                println!("{READY}");
            }
        }
        Err(skip) => println!("\nskip: {}", skip.reason()),
    }
}

/// The sockets that the process owns, and what keeps them.
struct Contents {
    pairs: Vec<Pair>,
    singles: Vec<LabSocket>,
    brief: Vec<LabSocket>,
    net_paths: Vec<NetPath>,
    odd: Option<Child>,
    here: Namespace,
    there: Namespace,
    lab: Lab,
}

impl Contents {
    fn new(purpose: &str) -> Result<Self, Skip> {
        program("ss")?;
        let lab = Lab::new(purpose)?;
        let (here, there) = (lab.namespace("here"), lab.namespace("there"));
        println!("\nhere: {}\nthere: {}", here.name(), there.name());
        println!("directory: {}", lab.directory().display());
        for namespace in [&here, &there] {
            // Connection attempts without an answer must last as long as the tests.
            namespace.sysctl("ipv4/tcp_syn_retries", "100");
            namespace.sysctl("ipv4/tcp_synack_retries", "100");
            namespace.sysctl("ipv4/tcp_retries2", "100");
            namespace.sysctl("ipv4/tcp_syn_linear_timeouts", "0");
            namespace.sysctl("ipv4/ping_group_range", "0 2147483647");
        }
        let outward = lab.link(&here, &there);
        let inward = lab.link(&there, &here);
        let mut contents = Self {
            pairs: Vec::new(),
            singles: Vec::new(),
            brief: Vec::new(),
            net_paths: Vec::new(),
            odd: None,
            here,
            there,
            lab,
        };
        contents.make_connections(&outward);
        contents.make_connections(&inward);
        contents.make_local();
        contents.make_odd(outward.devices().0);
        contents.net_paths = vec![
            outward.net_path(),
            inward.net_path6(),
            contents.here.loopback(),
            contents.here.loopback6(),
            contents.here.loopback_mapped(),
        ];
        contents.make_brief();
        Ok(contents)
    }

    /// Connections in every state between the two namespaces.
    fn make_connections(&mut self, link: &Link) {
        for net_path in [
            link.net_path(),
            link.net_path6(),
            link.net_path_mapped(),
            link.net_path_link_local(),
        ] {
            let pair = net_path.established();
            converse(&pair);
            self.pairs.push(pair);
            self.pairs.push(net_path.half_closed());
            self.pairs.push(net_path.unread(1234));
            self.pairs.push(net_path.keepalive(Duration::from_secs(7200)));
        }
        self.pairs.push(link.net_path().zero_window());
        let full = link.net_path6().full_accept_queue(2);
        self.singles.extend([full.listener, full.left_out]);
        self.singles.extend(full.queued);
        for net_path in [Link::net_path, Link::net_path6, Link::net_path_mapped] {
            self.singles.push(net_path(link).syn_sent());
            self.pairs.push(net_path(link).syn_recv());
            self.pairs.push(net_path(link).fin_wait1());
            self.pairs.push(net_path(link).closing());
            self.pairs.push(net_path(link).last_ack());
            self.pairs.push(net_path(link).retransmitting(7777));
        }
        self.pairs.push(link.net_path_link_local().retransmitting(99));
        let (client, server) = link.devices();
        let tied = link
            .net_path()
            .with_client(SocketOptions::new().device(client).mark(0x1234))
            .with_server(SocketOptions::new().device(server).mark(0x5634));
        self.pairs.push(tied.established());
        self.pairs.push(tied.udp_connected());
        self.pairs.push(link.net_path_mapped().udp_connected());
        self.pairs.push(link.net_path_link_local().udp_connected());
        // Orphans in FIN_WAIT2 for ten minutes, by their keepalive timer.
        with_long_fin(&link.net_path(), |net_path| self.pairs.push(net_path.orphaned()));
        self.pairs.extend(link.net_path6().mptcp());
    }

    /// Sockets on loopback, and such as belong to one namespace.
    fn make_local(&mut self) {
        let here = &self.here;
        for net_path in [here.loopback(), here.loopback6(), here.loopback_mapped()] {
            self.pairs.push(net_path.zero_window());
            self.pairs.push(net_path.unread(70_000));
            self.pairs.push(net_path.udp_connected());
            for name in ["reno", "cubic", "bbr"] {
                if congestion_control(name).is_ok() {
                    let options = SocketOptions::new().congestion(name);
                    let pair = net_path
                        .with_client(options.clone())
                        .with_server(options)
                        .established();
                    converse(&pair);
                    self.pairs.push(pair);
                }
            }
        }
        let plain = SocketOptions::new();
        for namespace in [here, &self.there] {
            for local in [
                "0.0.0.0:1080",
                "[::]:1443",
                "127.0.0.1:1022",
                "[::ffff:127.0.0.1]:65535",
            ] {
                self.singles.push(namespace.tcp_listener(local, &plain));
            }
            // Neither listens nor connects.
            self.singles.push(namespace.tcp_bound("127.0.0.1:1090", &plain));
            self.singles.push(namespace.tcp_bound("[::]:1091", &plain));
            self.singles
                .push(namespace.tcp_listener("[::]:8443", &SocketOptions::new().v6_only(true)));
            self.singles.push(namespace.packet(3));
            self.singles.push(namespace.raw(1, false));
            self.singles.push(namespace.raw(58, true));
            self.singles.push(namespace.netlink(0));
            self.singles.push(namespace.udp_bound("[::]:1069", &plain));
        }
        for kind in [UnixKind::Stream, UnixKind::Datagram, UnixKind::Seqpacket] {
            let name = format!("{kind:?}");
            self.pairs
                .push(self.there.unix_connected(kind, &self.lab.unix_path(&name)));
            self.pairs.push(self.there.unix_pair(kind));
        }
    }

    /// What odd.py makes.
    fn make_odd(&mut self, device: &str) {
        let cgroup = self.lab.cgroup();
        let python = match program("python3") {
            Ok(python) => python,
            Err(skip) => {
                println!("lacks: odd sockets: {}", skip.reason());
                return;
            }
        };
        let inside = match &cgroup {
            Ok(path) => {
                println!("cgroup: /{}", path.file_name().unwrap().to_string_lossy());
                path.as_path()
            }
            Err(skip) => {
                println!("lacks: cgroups: {}", skip.reason());
                Path::new("-")
            }
        };
        let script = self.lab.directory().join("odd.py");
        std::fs::write(&script, include_str!("odd.py")).unwrap();
        let mut command = Command::new(python);
        command
            .arg(script)
            .arg(self.lab.directory())
            .arg(device)
            .arg(inside)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut odd = self.here.run(|| command.spawn()).unwrap();
        let stdout = BufReader::new(odd.stdout.take().unwrap());
        self.odd = Some(odd);
        for line in stdout.lines().map_while(Result::ok) {
            match line.strip_prefix("lacks ") {
                Some(what) => println!("lacks: {what}"),
                None => {
                    assert_eq!(line, READY);
                    return;
                }
            }
        }
        panic!("odd.py failed");
    }

    /// What the kernel forgets after a minute.
    fn make_brief(&mut self) {
        for net_path in &self.net_paths {
            self.brief.push(net_path.time_wait());
            let Pair { client, server, .. } = net_path.orphaned();
            self.brief.extend([client, server]);
        }
    }
}

impl Drop for Contents {
    fn drop(&mut self) {
        if let Some(mut odd) = self.odd.take() {
            drop(odd.stdin.take());
            let _ = odd.wait();
        }
    }
}

/// Bytes both ways, so that every counter of tcp_info has a value.
fn converse(pair: &Pair) {
    for (from, to) in [(&pair.client, &pair.server), (&pair.server, &pair.client)] {
        for length in [1, 3_000, 40_000] {
            let (mut from, mut to) = (from.socket(), to.socket());
            from.write_all(&vec![b'c'; length]).unwrap();
            to.read_exact(&mut vec![0; length]).unwrap();
        }
    }
}

/// Prints once what no socket set has on this kernel: each set finds it again.
fn report_once(what: &str) {
    static PRINTED: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    if PRINTED.lock().unwrap().insert(what.to_owned()) {
        Skip::new(format!("the socket set is without {what}")).print();
    }
}

fn with_long_fin(net_path: &NetPath, make: impl FnOnce(&NetPath)) {
    net_path.client().sysctl("ipv4/tcp_fin_timeout", "600");
    make(net_path);
    net_path.client().sysctl("ipv4/tcp_fin_timeout", "60");
}

const PURPOSE: &str = "SOCKEYE_SOCKET_SET";
const READY: &str = "ready";
