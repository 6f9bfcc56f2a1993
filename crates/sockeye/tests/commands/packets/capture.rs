//! `sockeye capture`: tshark reads its files, and tcpdump captures the same packets at the same time.

use crate::fixtures::binary::{self, Outcome, SOCKEYE, clean, words, words_in};
use rustix::process::{Pid, Signal, kill_process};
use sockeye_lab::{Lab, Namespace, Skip, need, program, wait_until};
use sockeye_wire::packet::{Reader, Step};
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

/// A lab for a test that reads its captures with tshark.
fn lab_with_tshark(purpose: &str) -> Result<Lab, Skip> {
    program("tshark")?;
    Lab::new(purpose)
}

/// A running `sockeye capture` or tcpdump.
struct Capture {
    child: Child,
    stderr: PathBuf,
}

impl Capture {
    /// Starts `sockeye capture` in a namespace with these arguments, and waits until it captures.
    #[track_caller]
    fn start(lab: &Lab, namespace: &Namespace, line: &str) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let stderr = lab.directory().join(format!("stderr{number}"));
        let arguments: Vec<_> = line.split_whitespace().collect();
        let mut command = namespace.command(SOCKEYE, &[&["capture"], &arguments[..]].concat());
        clean(&mut command);
        Self::spawn(command, stderr, "capturing on")
    }

    /// Starts tcpdump likewise.
    #[track_caller]
    fn tcpdump(lab: &Lab, namespace: &Namespace, line: &str) -> Self {
        let stderr = lab.directory().join("tcpdump-stderr");
        let arguments: Vec<_> = line.split_whitespace().collect();
        Self::spawn(namespace.command("tcpdump", &arguments), stderr, "listening on")
    }

    /// Starts a program and waits until its standard error contains `ready`.
    #[track_caller]
    fn spawn(mut command: Command, stderr: PathBuf, ready: &str) -> Self {
        let child = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(fs::File::create(&stderr).unwrap())
            .spawn()
            .unwrap();
        let capture = Self { child, stderr };
        wait_until("the start of the capture", || capture.error().contains(ready));
        capture
    }

    /// Its standard error so far.
    fn error(&self) -> String {
        fs::read_to_string(&self.stderr).unwrap()
    }

    fn pid(&self) -> Pid {
        Pid::from_raw(i32::try_from(self.child.id()).unwrap()).unwrap()
    }

    /// Ends it by SIGINT; returns its standard error.
    #[track_caller]
    fn interrupt(mut self) -> String {
        kill_process(self.pid(), Signal::INT).unwrap();
        let status = self.child.wait().unwrap();
        assert_eq!(status.code(), Some(0), "{}", self.error());
        self.error()
    }

    /// Waits until it ends by itself; returns its exit status and standard error.
    fn wait(mut self) -> (Option<i32>, String) {
        let code = self.child.wait().unwrap().code();
        (code, self.error())
    }
}

/// A TUN or TAP device and the process that has it open.
struct Tunnel(Child);

impl Tunnel {
    #[track_caller]
    fn open(namespace: &Namespace, name: &str, flags: &str) -> Self {
        let script = "import fcntl,struct,sys,time\nf=open('/dev/net/tun','r+b',buffering=0)\n\
            fcntl.ioctl(f,0x400454ca,struct.pack('16sH22x',sys.argv[1].encode(),int(sys.argv[2],16)))\ntime.sleep(60)\n";
        let child = namespace
            .command("python3", &["-c", script, name, flags])
            .spawn()
            .unwrap();
        let tunnel = Self(child);
        wait_until("the device", || namespace.proc_net("dev").contains(name));
        tunnel
    }
}

impl Drop for Tunnel {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sends UDP datagrams with numbers from 0 on.
fn send_datagrams(namespace: &Namespace, from: &str, to: &str, count: usize) {
    let (from, to): (SocketAddr, SocketAddr) = (from.parse().unwrap(), to.parse().unwrap());
    namespace.run(|| {
        let socket = UdpSocket::bind(from).unwrap();
        for number in 0..count {
            let _ = socket.send_to(format!("datagram {number:4}").as_bytes(), to);
        }
    });
}

/// The values of these fields in each packet of a file, read by tshark.
#[track_caller]
fn tshark(file: &Path, fields: &[&str]) -> Vec<Vec<String>> {
    let mut command = Command::new("tshark");
    command.arg("-r").arg(file).args(["-n", "-T", "fields"]);
    for field in fields {
        command.args(["-e", field]);
    }
    let output = command.output().unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let text = String::from_utf8(output.stdout).unwrap();
    let rows = text
        .lines()
        .map(|line| line.split('\t').map(str::to_owned).collect());
    rows.collect()
}

fn column(rows: &[Vec<String>], index: usize) -> Vec<&str> {
    rows.iter().map(|row| row[index].as_str()).collect()
}

#[test]
fn captures_the_same_packets_as_tcpdump() {
    need!(program("tcpdump"));
    let lab = need!(lab_with_tshark("capture_lo"));
    let one = lab.namespace("one");
    let (ours, theirs) = (lab.directory().join("ours"), lab.directory().join("theirs"));
    let capture = Capture::start(&lab, &one, &format!("-i lo -o {} udp port 7000", ours.display()));
    let tcpdump = Capture::tcpdump(
        &lab,
        &one,
        &format!("-i lo --nano -w {} udp port 7000", theirs.display()),
    );
    send_datagrams(&one, "127.0.0.1:0", "127.0.0.1:7000", 300);
    send_datagrams(&one, "[::1]:0", "[::1]:7000", 300);
    send_datagrams(&one, "127.0.0.1:0", "127.0.0.1:7001", 10);
    let outcome = capture.interrupt();
    // tcpdump reads the ring once a second, and nothing shows whether it did.
    std::thread::sleep(std::time::Duration::from_millis(1200));
    tcpdump.interrupt();
    assert!(
        outcome.contains("600 packets captured; 600 received by filter; 0 dropped by kernel"),
        "{outcome}"
    );
    let fields = [
        "frame.time_epoch",
        "frame.len",
        "frame.cap_len",
        "udp.srcport",
        "udp.payload",
    ];
    let ours_rows = tshark(&ours, &fields);
    assert_eq!(ours_rows.len(), 600);
    assert_eq!(ours_rows, tshark(&theirs, &fields));
    let metadata = tshark(
        &ours,
        &[
            "frame.interface_name",
            "frame.encap_type",
            "frame.packet_flags_direction",
        ],
    );
    assert!(
        metadata
            .iter()
            .all(|row| row[0] == "lo" && row[1] == "1" && row[2] == "0x00000001"),
        "{:?}",
        metadata[0]
    );
    assert_eq!(fs::metadata(&ours).unwrap().permissions().mode() & 0o7777, 0o600);
}

#[test]
fn any_tap_and_veth_interfaces_are_captured() {
    let lab = need!(lab_with_tshark("capture_kinds"));
    let (one, two) = (lab.namespace("one"), lab.namespace("two"));
    let link = lab.link(&one, &two);
    let (device, _) = link.devices();
    let peer = link.server_addresses();
    let _tap = Tunnel::open(&one, "tap9", "0x1002");
    one.ip("addr add 10.98.0.1/24 dev tap9");
    one.ip("link set tap9 up");
    one.ip("neigh replace 10.98.0.2 lladdr 02:00:00:00:00:09 nud permanent dev tap9");
    one.ip("tuntap add dev tun8 mode tun");
    let any_file = lab.directory().join("any");
    let any = Capture::start(&lab, &one, &format!("-i any -o {} udp", any_file.display()));
    let tap_file = lab.directory().join("tap");
    let tap = Capture::start(&lab, &one, &format!("-i tap9 -o {} udp", tap_file.display()));
    let veth_file = lab.directory().join("veth");
    let veth = Capture::start(
        &lab,
        &one,
        &format!("-i {device} -o {} -s 60 udp port 5001", veth_file.display()),
    );
    send_datagrams(&one, "0.0.0.0:0", &SocketAddr::new(peer.0, 5001).to_string(), 3);
    send_datagrams(&one, "[::]:0", &SocketAddr::new(peer.1, 5001).to_string(), 3);
    send_datagrams(&one, "127.0.0.1:0", "127.0.0.1:5002", 2);
    send_datagrams(&one, "0.0.0.0:0", "10.98.0.2:5003", 1);
    assert!(veth.interrupt().contains("6 packets captured"));
    assert!(tap.interrupt().contains("1 packet captured"));
    any.interrupt();
    let rows = tshark(
        &any_file,
        &[
            "frame.interface_name",
            "udp.dstport",
            "frame.encap_type",
            "frame.packet_flags_direction",
        ],
    );
    let count = |name: &str, port: &str| rows.iter().filter(|row| row[0] == name && row[1] == port).count();
    assert_eq!(
        (count(device, "5001"), count("lo", "5002"), count("tap9", "5003")),
        (6, 2, 1),
        "{rows:?}"
    );
    assert!(
        rows.iter()
            .filter(|row| row[1] == "5001")
            .all(|row| row[3] == "0x00000002"),
        "{rows:?}"
    );
    assert_eq!(column(&tshark(&tap_file, &["udp.dstport"]), 0), ["5003"]);
    let rows = tshark(&veth_file, &["frame.cap_len", "frame.len"]);
    assert!(
        rows.iter().all(|row| row[0].parse::<u32>().unwrap() <= 60),
        "{rows:?}"
    );
    // An interface that is down.
    let outcome = words_in(&one, "capture -i tun8 -d 1 -o /dev/null");
    assert!(
        outcome.failed(1).contains("tun8 is down; `ip link set tun8 up`"),
        "{outcome}"
    );
}

#[test]
fn tun_device_is_captured_until_it_vanishes() {
    let lab = need!(lab_with_tshark("capture_tun"));
    let one = lab.namespace("one");
    let tunnel = Tunnel::open(&one, "tun9", "0x1001");
    one.ip("addr add 10.97.0.1/24 dev tun9");
    one.ip("link set tun9 up");
    let file = lab.directory().join("raw");
    let capture = Capture::start(
        &lab,
        &one,
        &format!("-i tun9 -o {} ip and udp dst port 5000", file.display()),
    );
    send_datagrams(&one, "0.0.0.0:0", "10.97.0.2:5000", 4);
    one.ip("link set tun9 down");
    wait_until("the message that it is down", || {
        capture.error().contains("tun9 is down")
    });
    one.ip("link set tun9 up");
    send_datagrams(&one, "0.0.0.0:0", "10.97.0.2:5000", 3);
    wait_until("the packets in the file", || {
        fs::metadata(&file).unwrap().len() > 700
    });
    drop(tunnel);
    let (code, outcome) = capture.wait();
    assert_eq!(code, Some(1), "{outcome}");
    assert!(
        outcome.contains("tun9 has vanished") && outcome.contains("7 packets captured"),
        "{outcome}"
    );
    let rows = tshark(&file, &["frame.encap_type", "udp.dstport", "ip.src"]);
    assert_eq!(rows.len(), 7);
    assert!(
        rows.iter().all(|row| row[..] == ["7", "5000", "10.97.0.1"]),
        "{rows:?}"
    );
}

#[test]
fn vlan_tags_that_the_kernel_removes_are_restored() {
    let lab = need!(lab_with_tshark("capture_vlan"));
    let (one, two) = (lab.namespace("one"), lab.namespace("two"));
    let link = lab.link(&one, &two);
    let (device, other) = link.devices();
    let file = lab.directory().join("vlan");
    let capture = Capture::start(
        &lab,
        &two,
        &format!("-i {other} -o {} vlan 5 and udp port 5000", file.display()),
    );
    // The receiving kernel removes the tag before a packet socket gets the packet.
    let script = "import socket,sys\ns=socket.socket(socket.AF_PACKET,socket.SOCK_RAW)\ns.bind((sys.argv[1],0))\n\
        p=bytes.fromhex('450000210001000040110000'+'0a600001'+'0a600002'+'1388'+'1388'+'000d0000'+'6869206869')\n\
        for tag in ('81000005','81000006',''):\n  for n in range(4): s.send(bytes.fromhex('ffffffffffff020000000009'+tag+'0800')+p)\n";
    one.output("python3", &["-c", script, device]);
    let outcome = capture.interrupt();
    assert!(
        outcome.contains("4 packets captured; 4 received by filter"),
        "{outcome}"
    );
    let rows = tshark(&file, &["vlan.id", "udp.dstport", "udp.length", "frame.len"]);
    assert_eq!(rows.len(), 4);
    assert!(
        rows.iter().all(|row| row[..] == ["5", "5000", "13", "51"]),
        "{rows:?}"
    );
    // With the link type of `-i any`, tags follow another header (Linux cooked capture).
    for (filter, tags) in [
        ("vlan 5 and udp", &["5"; 4][..]),
        (
            "udp and not port 1",
            &["5", "5", "5", "5", "6", "6", "6", "6", "", "", "", ""],
        ),
        ("udp and not vlan", &[""; 4]),
    ] {
        let capture = Capture::start(&lab, &two, &format!("-i any -o {} {filter}", file.display()));
        one.output("python3", &["-c", script, device]);
        capture.interrupt();
        let rows = tshark(&file, &["vlan.id", "udp.dstport", "frame.len"]);
        assert_eq!(column(&rows, 0), tags, "{filter}");
        let len = |row: &[String]| if row[0].is_empty() { "53" } else { "57" };
        assert!(
            rows.iter().all(|row| row[1] == "5000" && row[2] == len(row)),
            "{rows:?}"
        );
    }
}

#[test]
fn owner_is_in_a_comment_of_some_packets() {
    let lab = need!(lab_with_tshark("capture_owner"));
    let one = lab.namespace("one");
    let file = lab.directory().join("owned");
    let (listener, address) = one.run(|| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        (listener, address)
    });
    let capture = Capture::start(&lab, &one, &format!("-i lo -o {}", file.display()));
    let anonymous_file = lab.directory().join("anonymous");
    let anonymous = Capture::start(
        &lab,
        &one,
        &format!("-i lo --no-owners -o {}", anonymous_file.display()),
    );
    let (mut client, mut server) = one.run(|| {
        let client = TcpStream::connect(address).unwrap();
        (client, listener.accept().unwrap().0)
    });
    // Longer than the interval at which owners are looked up.
    for _ in 0..40 {
        client.write_all(b"x").unwrap();
        server.read_exact(&mut [0]).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    capture.interrupt();
    anonymous.interrupt();
    let rows = tshark(&file, &["frame.comment", "tcp.srcport"]);
    let comments: Vec<_> = rows.iter().filter(|row| !row[0].is_empty()).collect();
    let pid = std::process::id();
    assert!(
        comments.iter().any(|row| row[0].contains(&format!("({pid})"))),
        "{rows:?}"
    );
    assert!(comments.len() <= 6, "too many comments: {comments:?}");
    assert!(
        tshark(&anonymous_file, &["frame.comment"])
            .iter()
            .all(|row| row[0].is_empty())
    );
}

#[test]
fn owners_of_short_connections_are_known_for_ipv4_and_ipv6() {
    let lab = need!(lab_with_tshark("capture_short"));
    let one = lab.namespace("one");
    let server = lab
        .process(b"ev\x1b[31mil")
        .in_namespace(&one)
        .tcp_listen("[::]:8080")
        .udp_bind("[::1]:5353")
        .udp_bind("127.0.0.1:5354")
        .start();
    let other = lab
        .process("behind")
        .in_namespace(&one)
        .tcp_listen("[::1]:8081")
        .start();
    let file = lab.directory().join("short");
    let capture = Capture::start(
        &lab,
        &one,
        &format!("-i lo -o {} not icmp and not icmp6", file.display()),
    );
    one.run(|| {
        for address in ["127.0.0.1:8080", "[::1]:8080", "[::1]:8081"] {
            let address: SocketAddr = address.parse().unwrap();
            drop(TcpStream::connect(address).unwrap());
        }
    });
    send_datagrams(&one, "[::1]:0", "[::1]:5353", 1);
    send_datagrams(&one, "127.0.0.1:0", "127.0.0.1:5354", 1);
    capture.interrupt();
    let bytes = fs::read(&file).unwrap();
    assert!(!bytes.windows(3).any(|bytes| bytes == b"\x1b[3"));
    let fields = [
        "tcp.dstport",
        "udp.dstport",
        "tcp.flags.syn",
        "ipv6.dst",
        "frame.comment",
    ];
    let rows = tshark(&file, &fields);
    // The comment of the first packet to a port: a SYN or a datagram.
    let comment_of = |tcp: &str, udp: &str, is_v6: bool| {
        let mut rows = rows.iter().filter(|row| {
            row[0] == tcp
                && row[1] == udp
                && row[3].is_empty() != is_v6
                && (!udp.is_empty() || row[2] == "1" || row[2] == "True")
        });
        rows.next().unwrap_or_else(|| panic!("{tcp} {udp}: {rows:?}"))[4].clone()
    };
    let (server, other) = (
        format!("il({})", server.pid()),
        format!("behind({})", other.pid()),
    );
    // In the first packet of each connection: at the next lookup, the client has already closed it.
    for (tcp, udp, is_v6, name) in [
        ("8080", "", false, &server),
        ("8080", "", true, &server),
        ("8081", "", true, &other),
        ("", "5353", true, &server),
        ("", "5354", false, &server),
    ] {
        let comment = comment_of(tcp, udp, is_v6);
        assert!(
            comment.contains("for ") && comment.contains(name.as_str()),
            "{tcp} {udp}: {comment:?}: {rows:?}"
        );
    }
}

#[test]
fn capture_ends_at_its_packet_limit_and_at_its_time_limit() {
    let lab = need!(lab_with_tshark("capture_ends"));
    let one = lab.namespace("one");
    let file = lab.directory().join("count");
    let capture = Capture::start(&lab, &one, &format!("-i lo -c 5 -o {} udp", file.display()));
    send_datagrams(&one, "127.0.0.1:0", "127.0.0.1:7000", 50);
    let (code, outcome) = capture.wait();
    assert!(
        code == Some(0) && outcome.contains("5 packets captured"),
        "{outcome}"
    );
    assert_eq!(tshark(&file, &["frame.number"]).len(), 5);
    let outcome = words_in(&one, &format!("capture -i lo -d 0.2 -o {}", file.display()));
    assert!(
        outcome.error().contains("0 packets captured") && outcome.code == Some(0),
        "{outcome}"
    );
    assert_eq!(tshark(&file, &["frame.number"]).len(), 0);
}

#[test]
fn interface_options_and_snaplen_are_in_the_file() {
    need!(program("capinfos"));
    let lab = need!(Lab::new("capture_counts"));
    let one = lab.namespace("one");
    let file = lab.directory().join("counted");
    let mut capture = Capture::start(
        &lab,
        &one,
        &format!("-i lo -s 64 -o {} udp port 7000", file.display()),
    );
    send_datagrams(&one, "127.0.0.1:0", "127.0.0.1:7000", 20);
    // A service manager ends it by SIGTERM.
    kill_process(capture.pid(), Signal::TERM).unwrap();
    assert_eq!(capture.child.wait().unwrap().code(), Some(0));
    let mut command = Command::new("capinfos");
    let output = command.arg(&file).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    for expected in [
        "nanoseconds (9)",
        "Name = lo",
        "Capture length = 64",
        "Filter string = udp port 7000",
        "Number of stat entries = 1",
        "Number of packets = 20",
        "Strict time order:   True",
    ] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    let rows = tshark(&file, &["frame.len", "frame.cap_len"]);
    assert!(
        rows.len() == 20 && rows.iter().all(|row| row[0] == "55" && row[1] == "55"),
        "{rows:?}"
    );
    // With segmentation offload a captured packet is longer than the MTU.
    let capture = Capture::start(&lab, &one, &format!("-i lo -s 64 -o {} tcp", file.display()));
    one.run(|| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let mut server = listener.accept().unwrap().0;
        client.write_all(&[0; 200_000]).unwrap_or(());
        let mut buffer = vec![0; 200_000];
        server.read_exact(&mut buffer).unwrap();
    });
    capture.interrupt();
    let rows = tshark(&file, &["frame.len", "frame.cap_len", "tcp.len"]);
    let number = |text: &str| text.parse::<u32>().unwrap();
    assert!(
        rows.iter().all(|row| number(&row[1]) == number(&row[0]).min(64)),
        "{rows:?}"
    );
    let sent: u32 = rows.iter().map(|row| number(&row[2])).sum();
    assert_eq!(sent, 200_000);
}

#[test]
fn kernel_drops_are_reported_and_written_to_the_file() {
    let lab = need!(Lab::new("capture_drops"));
    let one = lab.namespace("one");
    let file = lab.directory().join("dropped");
    let capture = Capture::start(
        &lab,
        &one,
        &format!("-i lo -B 256Ki --no-owners -o {} udp port 7000", file.display()),
    );
    // While it is stopped, the ring fills up.
    kill_process(capture.pid(), Signal::STOP).unwrap();
    send_datagrams(&one, "127.0.0.1:0", "127.0.0.1:7000", 5000);
    kill_process(capture.pid(), Signal::CONT).unwrap();
    let outcome = capture.interrupt();
    let count = |label: &str| -> u64 {
        let before = &outcome[..outcome.find(label).unwrap()];
        before.rsplit(' ').next().unwrap().parse().unwrap()
    };
    let (captured, dropped) = (count(" packets captured"), count(" dropped by kernel"));
    assert!(dropped > 1000 && captured > 100, "{outcome}");
    assert_eq!(
        (captured + dropped, count(" received by filter")),
        (5000, 5000),
        "{outcome}"
    );
    assert!(
        outcome.contains("a larger ring keeps more of a burst"),
        "{outcome}"
    );
    assert_eq!(packets_of(&file), (captured, Some(dropped)));
}

/// The number of packets in a file, and that of dropped packets in its statistics. It has to be whole.
#[track_caller]
fn packets_of(file: &Path) -> (u64, Option<u64>) {
    let bytes = fs::read(file).unwrap();
    let mut reader = Reader::new(&bytes).unwrap().unwrap();
    let (mut offset, mut packets) = (0, 0);
    while offset < bytes.len() {
        offset += match reader.step(&bytes[offset..]).unwrap() {
            Step::Packet(record) => {
                packets += 1;
                record.used
            }
            Step::Skip(used) => usize::try_from(used).unwrap(),
            other => panic!("{other:?}"),
        };
    }
    (packets, reader.interfaces()[0].dropped)
}

#[test]
fn hangup_flushes_all_packets() {
    let lab = need!(Lab::new("capture_hangup"));
    let one = lab.namespace("one");
    for (number, signal) in [Signal::HUP, Signal::TERM, Signal::INT].into_iter().enumerate() {
        let file = lab.directory().join(format!("hangup{number}"));
        let mut capture = Capture::start(&lab, &one, &format!("-i lo -o {} udp", file.display()));
        send_datagrams(&one, "127.0.0.1:0", "127.0.0.1:7000", 500);
        kill_process(capture.pid(), signal).unwrap();
        assert_eq!(capture.child.wait().unwrap().code(), Some(0));
        assert_eq!(
            packets_of(&file),
            (500, Some(0)),
            "{signal:?}: {}",
            capture.error()
        );
    }
    // Under nohup it goes on.
    let file = lab.directory().join("nohup");
    let line = format!("capture -i lo -c 3 -o {} udp", file.display());
    let mut command = one.command("nohup", &[SOCKEYE]);
    command.args(line.split_whitespace());
    clean(&mut command);
    let capture = Capture::spawn(command, lab.directory().join("nohup-stderr"), "capturing on");
    kill_process(capture.pid(), Signal::HUP).unwrap();
    send_datagrams(&one, "127.0.0.1:0", "127.0.0.1:7000", 3);
    let (code, outcome) = capture.wait();
    assert_eq!((code, packets_of(&file).0), (Some(0), 3), "{outcome}");
}

/// The effective capabilities of the first thread of a process, and those of the others together.
fn capabilities(pid: Pid) -> (u64, u64) {
    let (mut first, mut others) = (0, 0);
    for task in fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten() {
        let status = fs::read_to_string(task.path().join("status")).unwrap_or_default();
        let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
        let effective = effective.map_or(0, |text| u64::from_str_radix(text.trim(), 16).unwrap());
        if task.file_name().to_str() == Some(&pid.to_string()) {
            first = effective;
        } else {
            others |= effective;
        }
    }
    (first, others)
}

#[test]
fn privileges_are_dropped_and_owners_still_found() {
    let lab = need!(Lab::new("capture_drop"));
    let (one, two) = (lab.namespace("one"), lab.namespace("two"));
    // Numbers of include/uapi/linux/capability.h.
    let bits = |numbers: &[u32]| numbers.iter().map(|number| 1_u64 << number).sum::<u64>();
    let (chown, override_, read_search, fowner) = (0, 1, 2, 3);
    let (ptrace, admin, perfmon, bpf) = (19, 21, 38, 39);
    let (files, lookups) = (
        bits(&[chown, override_, fowner]),
        bits(&[read_search, ptrace, perfmon, bpf]),
    );
    // A folder that only another user may write to.
    let folder = lab.directory().join("theirs");
    fs::create_dir(&folder).unwrap();
    std::os::unix::fs::chown(&folder, Some(65534), Some(65534)).unwrap();
    let netns = format!("-N {}", one.name());
    for (place, words, first, others) in [
        (&one, "--no-owners", 0, 0),
        (&one, "", 0, lookups),
        (&one, "--ring 3x5000", files, lookups),
        (&two, &netns, 0, lookups | bits(&[admin])),
    ] {
        let file = folder.join("out.pcapng");
        let capture = Capture::start(&lab, place, &format!("-i lo {words} -o {} udp", file.display()));
        wait_until("it drops its privileges", || {
            capabilities(capture.pid()) == (first, others)
        });
        // An owner that comes after that.
        let server = lab
            .process("late")
            .in_namespace(&one)
            .user(65533, 65533)
            .udp_bind("127.0.0.1:7000")
            .start();
        let name = format!("late({})", server.pid());
        let is_named = || {
            let files = fs::read_dir(&folder).unwrap().flatten();
            files
                .filter_map(|entry| fs::read(entry.path()).ok())
                .any(|bytes| bytes.windows(name.len()).any(|text| text == name.as_bytes()))
        };
        // A lookup may take long, and then the next one comes late.
        let mut sent = 0;
        while sent < 10_000 && !(is_named() && sent >= 200) && !(words == "--no-owners" && sent >= 200) {
            send_datagrams(&one, "127.0.0.1:0", "127.0.0.1:7000", 20);
            sent += 20;
            std::thread::sleep(std::time::Duration::from_millis(60));
        }
        let outcome = capture.interrupt();
        assert!(
            outcome.contains(&format!("{sent} packets captured")),
            "{words}: {outcome}"
        );
        assert!(!outcome.contains("privileges"), "{words}: {outcome}");
        assert_eq!(is_named(), words != "--no-owners", "{words}: {name}");
        for entry in fs::read_dir(&folder).unwrap().flatten() {
            fs::remove_file(entry.path()).unwrap();
        }
    }
}

#[test]
fn full_disk_is_one_message_with_the_count_in_the_file() {
    let lab = need!(Lab::new("capture_count"));
    let one = lab.namespace("one");
    let folder = lab.directory().join("small");
    fs::create_dir(&folder).unwrap();
    for (name, limit) in [
        (
            "disk",
            format!("mount -t tmpfs -o size=32k tmpfs {}", folder.display()),
        ),
        ("limit", "ulimit -f 32".to_owned()),
    ] {
        let script = format!(
            "{limit} && {SOCKEYE} capture -i lo -o {0}/full udp; code=$?; ulimit -f unlimited; cp {0}/full {0}.copy; exit $code",
            folder.display()
        );
        let stderr = lab.directory().join(format!("stderr-{name}"));
        let command = one.command("unshare", &["-m", "sh", "-c", &script]);
        let capture = Capture::spawn(command, stderr, "capturing on");
        send_datagrams(&one, "127.0.0.1:0", "127.0.0.1:7000", 2000);
        let (code, outcome) = capture.wait();
        assert_eq!(code, Some(1), "{outcome}");
        let lines: Vec<_> = outcome
            .lines()
            .filter(|line| line.starts_with("sockeye: "))
            .collect();
        assert_eq!(lines.len(), 2, "{outcome}");
        let (packets, _) = packets_of(&lab.directory().join("small.copy"));
        assert!(
            packets > 50 && lines[1].contains(&format!(": {packets} of ")) && lines[1].contains("-s 100"),
            "{packets}: {outcome}"
        );
    }
}

#[test]
fn vanished_interface_ends_the_capture() {
    let lab = need!(lab_with_tshark("capture_gone"));
    let (one, two) = (lab.namespace("one"), lab.namespace("two"));
    let link = lab.link(&one, &two);
    let device = link.devices().0.to_owned();
    let file = lab.directory().join("gone");
    let capture = Capture::start(&lab, &one, &format!("-i {device} -o {} udp", file.display()));
    let peer = SocketAddr::new(link.server_addresses().0, 5001).to_string();
    send_datagrams(&one, "0.0.0.0:0", &peer, 3);
    one.ip(&format!("link del {device}"));
    let (code, outcome) = capture.wait();
    assert!(
        code == Some(1) && outcome.contains(&format!("{device} has vanished")),
        "{outcome}"
    );
    assert_eq!(tshark(&file, &["frame.number"]).len(), 3);
}

#[test]
fn closed_output_pipe_ends_the_capture() {
    let lab = need!(Lab::new("capture_pipe"));
    let one = lab.namespace("one");
    let mut command = one.command(SOCKEYE, &["capture", "-i", "lo", "-o", "-"]);
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut first = [0; 12];
    child.stdout.take().unwrap().read_exact(&mut first).unwrap();
    assert_eq!(first[..4], [0x0a, 0x0d, 0x0d, 0x0a]);
    // The read end of the pipe is closed now; the capture ends although there are no packets.
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
}

#[test]
fn ring_keeps_the_newest_files() {
    let lab = need!(lab_with_tshark("capture_ring"));
    let one = lab.namespace("one");
    let file = lab.directory().join("ring.pcapng");
    let capture = Capture::start(
        &lab,
        &one,
        &format!("-i lo --ring 3x5000 -o {} udp", file.display()),
    );
    send_datagrams(&one, "127.0.0.1:0", "127.0.0.1:7000", 400);
    let outcome = capture.interrupt();
    assert!(outcome.contains("400 packets captured"), "{outcome}");
    let names = ring_files(&lab);
    assert_eq!(names.len(), 3, "{names:?}");
    let mut payloads = Vec::new();
    for name in &names {
        assert!(name.metadata().unwrap().len() < 6000);
        payloads.extend(tshark(name, &["udp.payload"]));
    }
    // The files have the last datagrams without a gap.
    let last = payloads.len();
    assert!(last > 20, "{last}");
    let expected: Vec<_> = (400 - last..400)
        .map(|number| {
            format!("datagram {number:4}")
                .bytes()
                .map(|byte| format!("{byte:02x}"))
                .collect::<String>()
        })
        .collect();
    assert_eq!(column(&payloads, 0), expected);
    // Each file is complete in itself.
    for name in &names {
        let rows = tshark(name, &["frame.interface_name", "frame.encap_type"]);
        assert!(
            rows.iter().all(|row| row[..] == ["lo", "1"]),
            "{name:?}: {rows:?}"
        );
    }
    // Another capture continues the numbers of the files and removes the oldest ones. Its --ring has three words.
    let last = names[2].clone();
    let outcome = words_in(
        &one,
        &format!(
            "capture -i lo -d 0.1 -o {} --ring 2 x 1M udp port 7000",
            file.display()
        ),
    );
    assert!(
        outcome.code == Some(0) && outcome.error().contains("a file of an earlier capture"),
        "{outcome}"
    );
    let left: Vec<_> = ring_files(&lab);
    assert_eq!(left.len(), 2, "{left:?}");
    assert_eq!(left[0], last);
    let number = |path: &Path| -> u32 {
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        name["ring-".len()..].parse().unwrap()
    };
    assert_eq!(number(&left[1]), number(&last) + 1);
    assert!(outcome.error().contains(left[1].to_str().unwrap()), "{outcome}");
}

fn ring_files(lab: &Lab) -> Vec<PathBuf> {
    let mut names: Vec<_> = fs::read_dir(lab.directory())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.to_string_lossy().contains("ring-"))
        .collect();
    names.sort();
    names
}

#[test]
fn full_file_system_ends_the_capture_with_complete_packets() {
    let lab = need!(lab_with_tshark("capture_full"));
    let one = lab.namespace("one");
    let folder = lab.directory().join("small");
    fs::create_dir(&folder).unwrap();
    let script = format!(
        "mount -t tmpfs -o size=32k tmpfs {0} && {SOCKEYE} capture -i lo -o {0}/full udp; code=$?; cp {0}/full {0}.copy; umount {0}; exit $code",
        folder.display()
    );
    let stderr = lab.directory().join("stderr");
    let command = one.command("unshare", &["-m", "sh", "-c", &script]);
    let capture = Capture::spawn(command, stderr, "capturing on");
    send_datagrams(&one, "127.0.0.1:0", "127.0.0.1:7000", 2000);
    let (code, outcome) = capture.wait();
    assert_eq!(code, Some(1), "{outcome}");
    assert!(
        outcome.contains("No space left on device") && outcome.contains("complete up to the last packet"),
        "{outcome}"
    );
    let rows = tshark(&lab.directory().join("small.copy"), &["frame.number"]);
    assert!(rows.len() > 100 && rows.len() < 500, "{}", rows.len());
}

#[test]
fn invalid_arguments_are_errors() {
    let check =
        |outcome: &Outcome, code, part: &str| assert!(outcome.failed(code).contains(part), "{outcome}");
    check(
        &words("capture -i nosuch0 -d 1"),
        1,
        "no interface \"nosuch0\" here; there are ",
    );
    check(&words("capture -i l0 -d 1"), 1, "(did you mean 'lo'?)");
    check(&words("capture -i lo -d 1 tcp prot 80"), 2, "^^^^");
    check(&words("capture -i lo -d 1 geneve"), 2, "udp port 6081");
    check(&words("capture -i lo -d 1 --ring 5 tcp"), 2, "FILESxSIZE");
    check(&words("capture -i lo -c 0"), 2, "1 or more");
    check(&words("capture -i lo -d 0"), 2, "at least 0.001");
    check(&words("capture -i lo --ring 5"), 2, "FILESxSIZE");
    check(
        &words("capture -i lo -N all"),
        2,
        "one network namespace at a time",
    );
    check(&words("capture -i lo --ring 2x1M -o -"), 2, "--ring needs files");
    check(&words("capture -i lo -o /nosuch/folder/file"), 1, "cannot create");
    check(&words("capture -i lo -N nosuch"), 1, "nosuch");
    check(&words("capture"), 2, "--interface");
}

#[test]
fn symbolic_links_and_files_of_others_are_not_overwritten() {
    let lab = need!(Lab::new("capture_trap"));
    let folder = lab.directory().join("shared");
    fs::create_dir(&folder).unwrap();
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o1777)).unwrap();
    let (victim, trap) = (lab.directory().join("victim"), folder.join("trap"));
    fs::write(&victim, "precious").unwrap();
    symlink(&victim, &trap).unwrap();
    std::os::unix::fs::lchown(&trap, Some(65534), Some(65534)).unwrap();
    let outcome = words(&format!("capture -i lo -d 0.1 -o {}", trap.display()));
    assert!(outcome.failed(1).contains("symbolic link"), "{outcome}");
    assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
    let others = folder.join("others");
    fs::write(&others, "theirs").unwrap();
    std::os::unix::fs::chown(&others, Some(65534), Some(65534)).unwrap();
    let outcome = words(&format!("capture -i lo -d 0.1 -o {}", others.display()));
    assert!(
        outcome.failed(1).contains("refused: it is a file of user 65534"),
        "{outcome}"
    );
    assert_eq!(fs::read_to_string(&others).unwrap(), "theirs");
    assert_eq!(fs::metadata(&others).unwrap().uid(), 65534);
}

#[test]
fn missing_cap_net_raw_is_an_error_and_creates_no_file() {
    let lab = need!(Lab::new("capture_user"));
    need!(program("setpriv"));
    let sockeye = lab.copy_for_all_users(Path::new(SOCKEYE));
    let mut command = Command::new("setpriv");
    command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"]);
    command
        .arg(sockeye)
        .args(["capture", "-i", "lo", "-d", "1", "-o", "/tmp/sockeye-never"]);
    let outcome = binary::run(&mut command);
    assert!(outcome.failed(1).contains("it takes CAP_NET_RAW"), "{outcome}");
    assert!(!Path::new("/tmp/sockeye-never").exists());
}
