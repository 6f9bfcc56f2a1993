//! `sockeye check` and devices: each fault made for real in namespaces, and the one finding that says so.

use super::faults::watch::Watch;
use super::faults::{self, Script, commands, fact, folder, found, found_soon, look, names, python};
use serde_json::Value;
use sockeye_lab::{Lab, Namespace, Skip, need, output_of, program, wait_until};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A lab with one namespace.
fn alone(purpose: &str) -> Result<(Lab, Namespace), Skip> {
    program("python3")?;
    program("tc")?;
    let lab = Lab::new(purpose)?;
    let here = lab.namespace("here");
    // Of its own accord the kernel sends packets from each device that has IPv6.
    here.sysctl("ipv6/conf/default/disable_ipv6", "1");
    Ok((lab, here))
}

/// A wire out of two taps, `tap0` here and there, that takes a packet each half millisecond toward there and brings
/// it 20 ms later; back it is fast.
fn slow_wire(here: &Namespace, there: &Namespace) -> Script {
    let script = format!(
        "
near = tun('tap0')
enter({:?})
far = tun('tap0')
flying, lock = [], threading.Lock()
def forth():
    while True:
        packet = os.read(near, 2000)
        with lock: flying.append((time.monotonic() + 0.02, packet))
        time.sleep(0.0005)
def land():
    while True:
        now = time.monotonic()
        with lock:
            due = [packet for at, packet in flying if at <= now]
            del flying[:len(due)]
        for packet in due: write(far, packet)
        time.sleep(0.001)
def back():
    while True: write(near, os.read(far, 2000))
def write(file, packet):
    try: os.write(file, packet)
    except OSError: pass # still down
for act in forth, land, back: threading.Thread(target=act, daemon=True).start()
ready()
sys.stdin.read()
",
        there.path()
    );
    let wire = Script::start(here, &script);
    for (namespace, own, other) in [(here, 1, 2), (there, 2, 1)] {
        namespace.ip(&format!("link set tap0 address 02:00:00:00:00:0{own}"));
        namespace.ip("link set tap0 txqueuelen 1000 up");
        namespace.ip(&format!("addr add 10.9.0.{own}/24 dev tap0"));
        namespace.ip(&format!(
            "neigh replace 10.9.0.{other} lladdr 02:00:00:00:00:0{other} nud permanent dev tap0"
        ));
    }
    wire
}

/// Three connections with blocks of 60 kB, each sent when the one before has been answered. Ends when dropped.
struct Blocks {
    stop: Arc<AtomicBool>,
    done: Arc<AtomicU64>,
    threads: Vec<JoinHandle<()>>,
}

impl Blocks {
    fn start(here: &Namespace, there: &Namespace) -> Self {
        let (stop, done) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let listener = there.run(|| TcpListener::bind("10.9.0.2:0").unwrap());
        let address = listener.local_addr().unwrap();
        let mut threads = Vec::new();
        for _ in 0..3 {
            let mut client = here.run(|| TcpStream::connect(address).unwrap());
            let (mut server, _) = listener.accept().unwrap();
            threads.push(std::thread::spawn(move || {
                let mut block = vec![0; BLOCK];
                while server.read_exact(&mut block).is_ok() && server.write_all(b"!").is_ok() {}
            }));
            let (stop, done) = (Arc::clone(&stop), Arc::clone(&done));
            threads.push(std::thread::spawn(move || {
                let block = vec![7; BLOCK];
                while !stop.load(Ordering::Relaxed)
                    && client.write_all(&block).is_ok()
                    && client.read_exact(&mut [0]).is_ok()
                {
                    done.fetch_add(1, Ordering::Relaxed);
                }
            }));
        }
        Self { stop, done, threads }
    }

    fn wait(&self, more: u64) {
        let now = self.done.load(Ordering::Relaxed);
        wait_until("blocks to get through", || {
            self.done.load(Ordering::Relaxed) >= now + more
        });
    }
}

impl Drop for Blocks {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

const BLOCK: usize = 60_000;

#[test]
fn a_tap_whose_queue_holds_three_packets() {
    let (lab, here) = need!(alone("queue_length"));
    let there = lab.namespace("there");
    there.sysctl("ipv6/conf/default/disable_ipv6", "1");
    let _wire = slow_wire(&here, &there);
    let blocks = Blocks::start(&here, &there);
    blocks.wait(3);
    found(&lab, &here, PACE_ASIDE, &[]);
    here.ip("link set tap0 txqueuelen 3");
    blocks.wait(3);
    let list = found(&lab, &here, PACE_ASIDE, &["warning queue-length tap0"]);
    let finding = &list[0];
    assert_eq!(fact(finding, "queue_packets"), 3);
    let list = found(
        &lab,
        &here,
        &format!("--watch 1 --count 1 {PACE_ASIDE}"),
        &["critical queue-length tap0"],
    );
    let finding = &list[0];
    assert!(fact(finding, "tx_dropped") > 0, "{finding:#}");
    let (rate, rtt) = (fact(finding, "rate_bytes_per_s"), fact(finding, "rtt_us"));
    let packets = rate * rtt / 1_000_000 / 1448;
    assert!(
        packets.abs_diff(fact(finding, "needed_packets")) <= 1,
        "{finding:#}"
    );
    assert!(rtt >= 20_000 && packets > 3, "{finding:#}");
    found(&lab, &there, "--watch 0.5 --count 1", &[]);
    // The sockets that it affects are a finding of their own; it is the only one if devices are not checked.
    let words = "--set retransmissions.share=0.1% --set retransmissions.count=1";
    found_soon(
        &lab,
        &here,
        &format!("{words} --only retransmissions"),
        &["info retransmissions sockets"],
    );
    let filtered = || names(&look(&here, &format!("{words} dst = 10.9.0.2")));
    wait_until("what is lost", || {
        filtered() == ["warning retransmissions sockets"]
    });
    // Typed as it is printed, it helps.
    let remedy = commands(finding)[0];
    assert_eq!(
        remedy,
        format!(
            "sockeye ns exec {} ip link set dev tap0 txqueuelen 1000",
            here.name()
        )
    );
    let path = format!("{}:{}", folder(), std::env::var("PATH").unwrap());
    let mut shell = Command::new("sh");
    shell.args(["-c", remedy]).env("PATH", path);
    output_of(shell);
    blocks.wait(3);
    found(&lab, &here, &format!("--watch 1 --count 1 {PACE_ASIDE}"), &[]);
}

/// The wire is a process: on a busy machine round trips get long, and that finding is right, but not what is tested.
const PACE_ASIDE: &str = "--skip rtt-inflation";

/// A tap, `tap0`, 10.9.0.1, that is read only on request: it answers with the number of packets it found.
fn lazy_tap(here: &Namespace, name: &str) -> Script {
    let script = format!(
        "
near = tun({name:?})
os.set_blocking(near, False)
ready()
for line in sys.stdin:
    count = 0
    try:
        while True:
            os.read(near, 2000)
            count += 1
    except BlockingIOError: report(count)
"
    );
    let tap = Script::start(here, &script);
    output_of(here.command("ip", &["link", "set", "dev", name, "txqueuelen", "1000", "up"]));
    output_of(here.command("ip", &["addr", "add", "10.9.0.1/24", "dev", name]));
    let neighbour = [
        "neigh",
        "replace",
        "10.9.0.2",
        "lladdr",
        "02:00:00:00:00:02",
        "nud",
        "permanent",
        "dev",
        name,
    ];
    output_of(here.command("ip", &neighbour));
    tap
}

/// Sends so many datagrams of so many bytes; those of a socket do not wait for each other's room.
fn datagrams(here: &Namespace, to: &str, count: usize, bytes: usize) {
    python(
        here,
        &format!(
            "
for number in range({count}):
    if number % 50 == 0: sender = udp()
    sender.sendto(bytes({bytes}), ({to:?}, 9))
"
        ),
    );
}

/// The counters of a device from `ip -s -j link`.
fn statistics(here: &Namespace, device: &str, direction: &str, name: &str) -> u64 {
    let text = here.output("ip", &["-s", "-j", "link", "show", "dev", device]);
    let list: Value = serde_json::from_str(&text).unwrap();
    list[0]["stats64"][direction][name].as_u64().unwrap()
}

#[test]
fn a_tap_that_is_read_too_slowly() {
    let (lab, here) = need!(alone("device_drops"));
    let mut tap = lazy_tap(&here, "tap0");
    for _ in 0..6 {
        datagrams(&here, "10.9.0.2", 900, 100);
        assert_eq!(tap.ask("read"), "900");
    }
    found(&lab, &here, "", &[]);
    // So little, and who knows when.
    datagrams(&here, "10.9.0.2", 1020, 100);
    let list = found(&lab, &here, "", &["notice device-drops tap0"]);
    assert_eq!(fact(&list[0], "tx_dropped"), 20);
    found(&lab, &here, "--set device-drops.count=21", &[]);
    found(&lab, &here, "--set device-drops.share=1%", &[]);
    tap.ask("read");

    let watch = Watch::start(&here, "");
    let list = watch.moved(
        &lab,
        &here,
        || datagrams(&here, "10.9.0.2", 1500, 100),
        &["warning device-drops tap0"],
    );
    assert_eq!(fact(&list[0], "queue_packets"), 1000);
    assert_eq!(
        commands(&list[0])[1],
        format!(
            "sockeye ns exec {} ip link set dev tap0 txqueuelen 2000",
            here.name()
        )
    );
    // Much of all there ever was.
    let list = found(&lab, &here, "", &["warning device-drops tap0"]);
    for (name, direction, of) in [
        ("tx_dropped", "tx", "dropped"),
        ("tx_packets", "tx", "packets"),
        ("rx_dropped", "rx", "dropped"),
        ("rx_packets", "rx", "packets"),
    ] {
        let counted = statistics(&here, "tap0", direction, of);
        assert_eq!(fact(&list[0], name), counted, "{name}");
    }
    found(&lab, &here, "--watch 0.1 --count 1", &[]);
}

/// A pair, `left` (10.9.0.1) here and `right` there, both up.
fn pair(here: &Namespace, there: &Namespace) {
    there.sysctl("ipv6/conf/default/disable_ipv6", "1");
    here.ip(&format!(
        "link add left type veth peer name right address 02:00:00:00:00:02 netns {}",
        there.name()
    ));
    here.ip("link set left up");
    there.ip("link set right up");
    here.ip("addr add 10.9.0.1/24 dev left");
    there.ip("addr add 10.9.0.2/24 dev right");
    here.ip("neigh replace 10.9.0.2 lladdr 02:00:00:00:00:02 nud permanent dev left");
}

#[test]
fn a_pair_whose_other_end_takes_less() {
    let (lab, here) = need!(alone("device_drops_pair"));
    let there = lab.namespace("there");
    pair(&here, &there);
    there.ip("link set right mtu 1000");
    found(&lab, &here, "", &[]);
    // One after the other: what is sent for the first must not be in the first sample of the second.
    let send = || datagrams(&here, "10.9.0.2", 300, 1200);
    for (namespace, expected) in [
        (&here, "warning device-drops left"),
        (&there, "warning device-drops right"),
    ] {
        Watch::start(namespace, "").moved(&lab, namespace, send, &[expected]);
    }
    let left = found(&lab, &here, "", &["warning device-drops left"]);
    assert_eq!(fact(&left[0], "tx_dropped"), 600);
    // Without an interval they may be frames of protocols that the kernel does not handle.
    found(&lab, &there, "", &[]);
    assert_eq!(statistics(&there, "right", "rx", "dropped"), 600);
}

#[test]
fn tunnel_without_a_reader_is_found() {
    let (lab, here) = need!(alone("device_errors"));
    let there = lab.namespace("there");
    pair(&here, &there);
    let vxlan = [
        "link",
        "add",
        "vx0",
        "type",
        "vxlan",
        "id",
        "7",
        "remote",
        "10.99.0.1",
        "dstport",
        "4789",
    ];
    if !here.command("ip", &vxlan).status().unwrap().success() {
        Skip::new("this kernel has no vxlan").print();
        return;
    }
    here.ip("link set vx0 up");
    here.ip("addr add 10.8.0.1/24 dev vx0");
    here.ip("neigh replace 10.8.0.2 lladdr 02:00:00:00:00:02 nud permanent dev vx0");
    found(&lab, &here, "", &[]);
    let watch = Watch::start(&here, "");
    let send = || datagrams(&here, "10.8.0.2", 100, 100);
    watch.moved(&lab, &here, send, &["warning device-errors vx0"]);
    let list = found(&lab, &here, "", &["warning device-errors vx0"]);
    assert_eq!(fact(&list[0], "tx_errors"), 100);
    assert_eq!(statistics(&here, "vx0", "tx", "errors"), 100);
    assert_eq!(
        statistics(&here, "vx0", "tx", "carrier_errors"),
        fact(&list[0], "tx_carrier_errors")
    );
    found(&lab, &here, "--set device-errors.count=101", &[]);
}

/// Puts a token bucket in front of `left`.
fn shape(here: &Namespace, words: &str) {
    let line = format!("qdisc replace dev left root handle 7: tbf {words}");
    here.output("tc", &line.split(' ').collect::<Vec<_>>());
}

/// The root qdisc from `tc -s -j qdisc`.
fn queueing(here: &Namespace, name: &str) -> u64 {
    let text = here.output("tc", &["-s", "-j", "qdisc", "show", "dev", "left"]);
    let list: Value = serde_json::from_str(&text).unwrap();
    list[0][name]
        .as_u64()
        .unwrap_or_else(|| panic!("no {name} in {text}"))
}

#[test]
fn a_shaper_that_drops() {
    let (lab, here) = need!(alone("qdisc_drops"));
    let there = lab.namespace("there");
    pair(&here, &there);
    shape(&here, "rate 100kbit burst 1600 limit 3000");
    found(&lab, &here, "", &[]);
    let watch = Watch::start(&here, "");
    let send = || datagrams(&here, "10.9.0.2", 50, 1000);
    watch.moved(&lab, &here, send, &["warning qdisc-drops tbf of left"]);
    let list = found(&lab, &here, "", &["warning qdisc-drops tbf of left"]);
    assert_eq!(fact(&list[0], "drops"), queueing(&here, "drops"));
    assert!(fact(&list[0], "drops") > 40);
    assert_eq!(fact(&list[0], "overlimits"), queueing(&here, "overlimits"));
    found(&lab, &there, "", &[]);
    found(&lab, &here, "--set qdisc-drops.count=51 --skip counters", &[]);
}

#[test]
fn drops_of_a_shaper_are_one_finding() {
    let (lab, here) = need!(alone("qdisc_drops_tcp"));
    let there = lab.namespace("there");
    pair(&here, &there);
    shape(&here, "rate 20mbit burst 3200 limit 6000");
    let blocks = Blocks::start(&here, &there);
    blocks.wait(3);
    found_soon(
        &lab,
        &here,
        "--watch 0.5 --count 1",
        &["warning qdisc-drops tbf of left"],
    );
}

#[test]
fn packets_pile_up() {
    let (lab, here) = need!(alone("qdisc_backlog"));
    let there = lab.namespace("there");
    pair(&here, &there);
    shape(&here, "rate 8kbit burst 1600 limit 2000000");
    datagrams(&here, "10.9.0.2", 400, 1000);
    found(&lab, &here, "", &[]);
    datagrams(&here, "10.9.0.2", 400, 1000);
    let list = found(&lab, &here, "", &["notice qdisc-backlog tbf of left"]);
    assert!(fact(&list[0], "waiting_packets").abs_diff(queueing(&here, "qlen")) <= 2);
    assert!(fact(&list[0], "waiting_bytes").abs_diff(queueing(&here, "backlog")) <= 4000);
    found(&lab, &here, "--set qdisc-backlog.packets=800", &[]);
    here.output("tc", &["qdisc", "del", "dev", "left", "root"]);
    found(&lab, &here, "", &[]);
}

#[test]
fn a_device_with_several_queues() {
    let (lab, here) = need!(alone("mq"));
    here.ip(
        "link add left numtxqueues 4 numrxqueues 4 type veth peer name right numtxqueues 4 numrxqueues 4",
    );
    here.ip("link set left up");
    here.ip("link set right up");
    here.ip("addr add 10.9.0.1/24 dev left");
    here.ip("neigh replace 10.9.0.2 lladdr 02:00:00:00:00:02 nud permanent dev left");
    let tc = |line: &str| here.output("tc", &line.split(' ').collect::<Vec<_>>());
    tc("qdisc replace dev left root handle 9: mq");
    for queue in 1..=4 {
        tc(&format!(
            "qdisc replace dev left parent 9:{queue} handle 1{queue}: tbf rate 8kbit burst 1600 limit 2000"
        ));
    }
    found(&lab, &here, "", &[]);
    let watch = Watch::start(&here, "");
    let send = || datagrams(&here, "10.9.0.2", 1000, 100);
    // Each queue drops, but the device is one.
    watch.moved(&lab, &here, send, &["warning qdisc-drops mq of left"]);
    let list = found(&lab, &here, "", &["warning qdisc-drops mq of left"]);
    assert_eq!(fact(&list[0], "drops"), queueing(&here, "drops"));
}

#[test]
fn device_without_a_carrier_is_found() {
    let (lab, here) = need!(alone("no_carrier"));
    here.sysctl("ipv6/conf/default/disable_ipv6", "0");
    here.ip("link add left type veth peer name right");
    // Switched off, it need not have one.
    found(&lab, &here, "", &[]);
    here.ip("link set left up");
    let list = found(&lab, &here, "", &["notice no-carrier left"]);
    let changes = here.run(|| std::fs::read_to_string("/sys/class/net/lo/carrier_changes"));
    assert!(changes.is_ok());
    assert_eq!(fact(&list[0], "addresses"), 0);
    here.ip("addr add 169.254.7.7/16 dev left");
    found(&lab, &here, "", &["notice no-carrier left"]);
    // Who gave it an address means to use it.
    here.ip("addr add 10.9.0.1/24 dev left");
    let list = found(&lab, &here, "", &["warning no-carrier left"]);
    assert_eq!(fact(&list[0], "addresses"), 2);
    here.ip("link set right up");
    found_soon(&lab, &here, "", &[]);

    here.output("ip", &["tuntap", "add", "dev", "tap1", "mode", "tap"]);
    here.ip("link set tap1 txqueuelen 1000 up");
    found(&lab, &here, "", &["notice no-carrier tap1"]);
    let _reader = Script::start(&here, "near = tun('tap1')\nready()\nsys.stdin.read()\n");
    found_soon(&lab, &here, "", &[]);
}

#[test]
fn half_duplex_device_is_found() {
    let (lab, here) = need!(alone("half_duplex"));
    let script = "
near = tun('tap0')
settings = bytearray(struct.pack('=IIIHBBBBBBIIHBBIII', 2, 0, 0, 100, DUPLEX, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0))
buffer = (ctypes.c_char * len(settings)).from_buffer(settings)
request = struct.pack('16sP', b'tap0', ctypes.addressof(buffer)).ljust(40, b'\\0')
fcntl.ioctl(udp(), 0x8946, request)
ready()
sys.stdin.read()
";
    let whole = Script::start(&here, &script.replace("DUPLEX", "1"));
    here.ip("link set tap0 up");
    found(&lab, &here, "", &[]);
    drop(whole);
    let _half = Script::start(&here, &script.replace("DUPLEX", "0"));
    found(&lab, &here, "", &[]);
    here.ip("link set tap0 up");
    let list = found(&lab, &here, "", &["warning half-duplex tap0"]);
    assert_eq!(fact(&list[0], "speed_mbit_per_s"), 100);
}

#[test]
fn device_names_are_quoted_for_the_shell() {
    let (lab, here) = need!(alone("odd_names"));
    for name in ["a;reboot", "$(reboot)", "a'b\"c`d`", "-x", "a&b|c>d"] {
        let tap = lazy_tap(&here, name);
        output_of(here.command("ip", &["link", "set", "dev", name, "txqueuelen", "3"]));
        let list = found(&lab, &here, "", &[&format!("notice queue-length {name}")]);
        for command in commands(&list[0]) {
            for run in faults::remedies::typed(&lab, command) {
                assert_eq!(
                    run.words,
                    ["ip", "link", "set", "dev", name, "txqueuelen", "1000"]
                );
            }
        }
        drop(tap);
    }
}

#[test]
fn healthy_devices_have_no_findings() {
    let lab = need!(Lab::new("quiet"));
    need!(program("python3"));
    let [fresh, left, right, bridge, tap] =
        ["fresh", "left", "right", "bridge", "tap"].map(|name| lab.namespace(name));
    let all = [&fresh, &left, &right, &bridge, &tap];
    // With all that IPv6 does of its own accord.
    left.ip(&format!(
        "link add left type veth peer name right netns {}",
        right.name()
    ));
    left.ip("link set left up");
    right.ip("link set right up");
    left.ip("addr add 10.9.0.1/24 dev left");
    right.ip("addr add 10.9.0.2/24 dev right");
    bridge.ip("link add bridge0 type bridge");
    bridge.ip("link set bridge0 up");
    let script = "
near = tun('tap0')
ready()
while True: os.read(near, 2000)
";
    let _reader = Script::start(&tap, script);
    tap.ip("link set tap0 up");
    tap.ip("addr add 10.9.0.1/24 dev tap0");
    let watches = all.map(|namespace| Watch::start(namespace, ""));
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(10) {
        for (namespace, watch) in all.iter().zip(&watches) {
            found(&lab, namespace, "", &[]);
            let moved = watch.next();
            assert!(moved.is_empty(), "{}: {moved:#?}", namespace.label());
        }
    }
}
