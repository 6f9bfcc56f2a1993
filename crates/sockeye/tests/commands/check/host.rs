//! `sockeye check` and what runs out: tables, memory, descriptors, of a namespace or of the whole host. Limits of the
//! host are left as they are; thresholds are set so low that what is really used is found.

use super::faults::remedies::rehearse;
use super::faults::{
    self, Script, commands, fact, found, found_soon, look, look_at_host, name, names, python,
};
use crate::fixtures::binary::{self, SOCKEYE};
use serde_json::Value;
use sockeye_lab::{Lab, Namespace, Skip, Toward, need, program, wait_for, wait_within};
use std::fs;
use std::time::{Duration, Instant};

fn alone(purpose: &str) -> Result<(Lab, Namespace), Skip> {
    program("python3")?;
    let lab = Lab::new(purpose)?;
    let here = lab.namespace("here");
    Ok((lab, here))
}

/// A number of a line of `sockstat`, in the host's first namespace.
fn sockstat(protocol: &str, name: &str) -> u64 {
    let text = fs::read_to_string("/proc/net/sockstat").unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(protocol)).unwrap();
    let mut words = line.split_whitespace();
    words.find(|word| *word == name).unwrap();
    words.next().unwrap().parse().unwrap()
}

fn setting(path: &str) -> Vec<u64> {
    let text = fs::read_to_string(format!("/proc/sys/net/{path}")).unwrap();
    text.split_whitespace()
        .map(|word| word.parse().unwrap())
        .collect()
}

/// Checks the host until the one finding of this rule agrees with the kernel's value; other processes use the host, too.
#[track_caller]
fn agrees(words: &str, now: impl Fn() -> u64, fact_name: &str) -> Value {
    wait_within(Duration::from_secs(20), words, || {
        let before = now();
        let list = look_at_host(words);
        let value = list.first().map(|finding| fact(finding, fact_name))?;
        assert_eq!(list.len(), 1, "{list:#?}");
        let range = before.min(now())..=before.max(now());
        range.contains(&value).then(|| list[0].clone())
    })
}

/// Connections that were closed a moment ago, by the end that stays in TIME_WAIT.
fn close_many(here: &Namespace, count: u32) {
    python(
        here,
        &format!(
            "
listener = socket.create_server(('127.0.0.1', 0), backlog=100)
for _ in range({count}):
    client = socket.create_connection(listener.getsockname())
    server, _ = listener.accept()
    client.close()
    server.close()
"
        ),
    );
}

#[test]
fn many_time_wait_sockets_are_found() {
    let (lab, here) = need!(alone("time_wait"));
    here.sysctl("ipv4/tcp_max_tw_buckets", "100");
    close_many(&here, 79);
    found(&lab, &here, "", &[]);
    let many = "--set time-wait.count=50";
    let list = found(&lab, &here, many, &["warning time-wait namespace"]);
    assert_eq!(fact(&list[0], "time_wait"), 79);
    assert_eq!(fact(&list[0], "other_tcp"), 0);
    close_many(&here, 16);
    // One fault, one finding.
    let list = found(&lab, &here, many, &["warning time-wait-max namespace"]);
    assert_eq!(fact(&list[0], "time_wait"), 95);
    assert_eq!(fact(&list[0], "time_wait_max"), 100);
    assert_eq!(fact(&list[0], "share_permille"), 950);
    let raise = format!(
        "sockeye ns exec {} sysctl -w net.ipv4.tcp_max_tw_buckets=400",
        here.name()
    );
    assert_eq!(commands(&list[0])[1], raise);
    found(&lab, &here, "--set time-wait-max.share=95.1%", &[]);
    found(
        &lab,
        &here,
        "--set time-wait-max.share=100% --set time-wait.count=96",
        &[],
    );
    here.sysctl("ipv4/tcp_max_tw_buckets", "400");
    found(&lab, &here, "", &[]);
}

#[test]
fn time_wait_ratio_counts_other_sockets() {
    let (lab, here) = need!(alone("time_wait_ratio"));
    close_many(&here, 40);
    let _pairs: Vec<_> = (0..3).map(|_| here.loopback().established()).collect();
    let inuse: u64 = here.tcp_rows().iter().filter(|row| row.inode != 0).count() as u64;
    let words = |ratio| format!("--set time-wait.count=10 --set time-wait.ratio={ratio}");
    let list = found(&lab, &here, &words(40 / inuse), &["warning time-wait namespace"]);
    assert_eq!(fact(&list[0], "other_tcp"), inuse);
    found(&lab, &here, &words(40 / inuse + 1), &[]);
}

#[test]
fn full_connection_tracking_table_is_found() {
    let (lab, here) = need!(alone("conntrack"));
    need!(program("nft"));
    let table =
        "table inet t { chain c { type filter hook input priority 0; ct state established accept; }; }";
    here.output("nft", &[table]);
    let max = setting("netfilter/nf_conntrack_max")[0];
    let count = max / 1000 + 10;
    python(
        &here,
        &format!(
            "
receiver = udp()
receiver.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8000000)
receiver.bind(('127.0.0.1', 0))
for port in range({count}):
    sender = udp()
    sender.bind(('127.0.0.1', 20000 + port))
    sender.sendto(b'x', receiver.getsockname())
    receiver.recv(1)
"
        ),
    );
    found(&lab, &here, "", &[]);
    let list = found(
        &lab,
        &here,
        "--set conntrack.share=0.1%",
        &["warning conntrack namespace"],
    );
    let current: u64 = here
        .run(|| fs::read_to_string("/proc/sys/net/netfilter/nf_conntrack_count"))
        .unwrap()
        .trim()
        .parse()
        .unwrap();
    assert_eq!(
        (fact(&list[0], "entries"), fact(&list[0], "entries_max")),
        (current, max)
    );
    assert!(current >= count);
}

#[test]
fn full_neighbour_table_is_found() {
    let (lab, here) = need!(alone("neighbours"));
    here.ip("link add left type veth peer name right");
    here.ip("link set left up");
    here.ip("addr add 10.9.0.1/16 dev left");
    let max = setting("ipv4/neigh/default/gc_thresh3")[0];
    // Permanent entries are not counted.
    let add = |state: &str, third: u32, count: u64| {
        let script: String = (0..count)
            .map(|number| {
                format!(
                    "neigh add 10.9.{}.{} lladdr 02:00:00:00:00:02 nud {state} dev left\\n",
                    u64::from(third) + number / 200,
                    number % 200 + 2
                )
            })
            .collect();
        python(
            &here,
            &format!(
                "import subprocess\nsubprocess.run(['ip', '-batch', '-'], input={script:?}.encode().replace(b'\\\\n', b'\\n'), check=True)"
            ),
        );
    };
    let only = |share: u64| format!("--only neighbours --set neighbours.share={share}%");
    let before = look_at_host(&only(0));
    let used = before.first().map_or(0, |finding| fact(finding, "entries"));
    add("reachable", 0, max / 4);
    let list = look_at_host(&only(20));
    assert_eq!(names(&list), ["warning neighbours arp_cache"], "{list:#?}");
    let entries = fact(&list[0], "entries");
    assert!(entries.abs_diff(used + max / 4) <= 60, "{used} {entries}");
    assert_eq!(fact(&list[0], "entries_max"), max);
    assert!(list[0].get("netns").is_none());
    rehearse(&lab, &here, &list[0]);
    assert_eq!(look_at_host(&only(80)), [] as [Value; 0]);
    // All namespaces share the table: a check of one reports it, too.
    assert_eq!(names(&look(&here, &only(20))), ["warning neighbours arp_cache"]);
    assert_eq!(look(&here, &only(80)), [] as [Value; 0]);
}

#[test]
fn memory_of_tcp() {
    let (lab, here) = need!(alone("tcp_memory"));
    let limits = setting("ipv4/tcp_mem");
    let page = 4096;
    let bytes = limits[1] * page / 1000 + 4_000_000;
    let script = format!(
        "
listener = socket.create_server(('127.0.0.1', 0))
listener.setsockopt(socket.SOL_SOCKET, 33, {bytes})
client = socket.create_connection(listener.getsockname())
server, _ = listener.accept()
client.settimeout(2)
try: client.sendall(bytes({bytes} * 2))
except TimeoutError: pass
ready()
sys.stdin.read()
"
    );
    let _holder = Script::start(&here, &script);
    let words = "--only tcp-memory --set tcp-memory.share=0.1%";
    let finding = agrees(words, || sockstat("TCP:", "mem") * page, "used_bytes");
    assert_eq!(name(&finding), "warning tcp-memory host");
    assert!(fact(&finding, "used_bytes") > 1_000_000);
    assert_eq!(
        (fact(&finding, "pressure_bytes"), fact(&finding, "max_bytes")),
        (limits[1] * page, limits[2] * page)
    );
    rehearse(&lab, &here, &finding);
    assert_eq!(look_at_host("--only tcp-memory"), [] as [Value; 0]);
    assert_eq!(look(&here, words), [] as [Value; 0], "the host's is not reported");
}

#[test]
fn memory_of_udp() {
    let (lab, here) = need!(alone("udp_memory"));
    let limits = setting("ipv4/udp_mem");
    let page = 4096;
    let bytes = limits[1] * page / 1000 + 4_000_000;
    let script = format!(
        "
receivers = []
left = {bytes}
while left > 0:
    receiver = udp()
    receiver.setsockopt(socket.SOL_SOCKET, 33, 4000000)
    receiver.bind(('127.0.0.1', 0))
    receivers.append(receiver)
    sender = udp()
    for _ in range(60): sender.sendto(bytes(60000), receiver.getsockname())
    left -= 60 * 60000
ready()
sys.stdin.read()
"
    );
    let _holder = Script::start(&here, &script);
    let words = "--only udp-memory --set udp-memory.share=0.1%";
    let finding = agrees(words, || sockstat("UDP:", "mem") * page, "used_bytes");
    assert_eq!(name(&finding), "warning udp-memory host");
    assert_eq!(
        (fact(&finding, "pressure_bytes"), fact(&finding, "max_bytes")),
        (limits[1] * page, limits[2] * page)
    );
    rehearse(&lab, &here, &finding);
    assert_eq!(look_at_host("--only udp-memory"), [] as [Value; 0]);
}

#[test]
fn many_orphans_are_found() {
    let (lab, here) = need!(alone("orphans"));
    let there = lab.namespace("there");
    let link = lab.link(&here, &there);
    let net_path = link.net_path();
    let listener = net_path.listener();
    let pairs: Vec<_> = (0..30).map(|_| net_path.established_to(&listener)).collect();
    net_path.cut(Toward::Server);
    for pair in pairs {
        // Closed with unsent data, to an address without a host.
        use std::io::Write;
        let mut stream: std::net::TcpStream = pair.client.duplicate().into();
        stream.write_all(b"gone").unwrap();
        drop((stream, pair));
    }
    let words = "--only orphans --set orphans.share=0%";
    let finding = agrees(words, || sockstat("TCP:", "orphan"), "orphans");
    assert_eq!(name(&finding), "warning orphans host");
    assert!(fact(&finding, "orphans") >= 30, "{finding:#}");
    assert_eq!(fact(&finding, "orphans_max"), setting("ipv4/tcp_max_orphans")[0]);
    rehearse(&lab, &here, &finding);
    assert_eq!(look_at_host("--only orphans"), [] as [Value; 0]);
}

#[test]
fn process_near_its_limit_of_files_is_found() {
    let (lab, here) = need!(alone("open_files"));
    let script = "
import resource
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 128))
listener = socket.create_server(('127.0.0.1', 0), backlog=100)
pairs = [listener]
def more(count):
    while len(os.listdir('/proc/self/fd')) - 1 < count: pairs.append(udp())
more(51)
with open('/proc/self/comm', 'w') as comm: comm.write('a b\\x1b[31m)')
ready()
for line in sys.stdin:
    more(int(line))
    report('done')
";
    let mut holder = Script::start(&here, script);
    found(&lab, &here, "", &[]);
    assert_eq!(holder.ask("52"), "done");
    for (count, severity) in [
        (52, "warning"),
        (60, "warning"),
        (61, "critical"),
        (64, "critical"),
    ] {
        // The last one looks for itself.
        if count < 64 {
            assert_eq!(holder.ask(&count.to_string()), "done");
        }
        let list = found(&lab, &here, "", &[&format!("{severity} open-files process")]);
        let finding = &list[0];
        let open = fs::read_dir(format!("/proc/{}/fd", holder.pid()))
            .unwrap()
            .count();
        assert_eq!(fact(finding, "open_files"), open as u64);
        assert_eq!(fact(finding, "open_files_max"), 64);
        assert_eq!(finding["owners"][0]["pid"], holder.pid());
        assert_eq!(finding["owners"][0]["comm"], "a b\x1b[31m)", "{finding:#}");
        let raise = format!("prlimit --pid {} --nofile=128:", holder.pid());
        assert!(commands(finding).contains(&raise.as_str()), "{finding:#}");
        if count == 61 {
            break;
        }
    }
    let outcome = here.output(SOCKEYE, &["check", "--only", "open-files"]);
    binary::assert_harmless(outcome.as_bytes());
    assert!(
        outcome.contains(&format!("a b\\x1b[31m)({})", holder.pid())),
        "{outcome}"
    );
    found(&lab, &here, "--set open-files.share=100%", &[]);
}

/// The receiver's rules take their time, on another processor than the sender's.
#[test]
fn overloaded_processor_is_found() {
    let (lab, here) = need!(alone("softnet"));
    need!(program("nft"));
    let there = lab.namespace("there");
    here.ip(&format!(
        "link add left type veth peer name right address 02:00:00:00:00:02 netns {}",
        there.name()
    ));
    here.ip("link set left up");
    there.ip("link set right up");
    here.ip("addr add 10.9.0.1/24 dev left");
    there.ip("addr add 10.9.0.2/24 dev right");
    here.ip("neigh replace 10.9.0.2 lladdr 02:00:00:00:00:02 nud permanent dev left");
    let (rules, jumps) = ("udp sport 1 drop; ".repeat(100), "jump slow; ".repeat(200));
    let table = format!(
        "table ip t {{ chain slow {{ {rules} }}; \
         chain c {{ type filter hook prerouting priority 0; {jumps} udp dport 9 drop; }}; }}"
    );
    let file = lab.directory().join("rules");
    fs::write(&file, table).unwrap();
    there.output("nft", &["-f", file.to_str().unwrap()]);
    // A new mount of sysfs shows the devices of the namespace.
    let own = "mount -t sysfs sysfs /sys && echo 2 >/sys/class/net/right/queues/rx-0/rps_cpus";
    let mut steer = there.command("unshare", &["-m", "sh", "-c", own]);
    if !steer.status().unwrap().success() || std::thread::available_parallelism().unwrap().get() < 2 {
        Skip::new("packets cannot be steered to another processor").print();
        return;
    }
    let mut sender = Script::start(
        &here,
        "
os.sched_setaffinity(0, {0})
sender = udp()
# What waits for the other processor is the sender's still.
sender.setsockopt(socket.SOL_SOCKET, 32, 8000000) # SO_SNDBUFFORCE
ready()
for line in sys.stdin:
    for _ in range(int(line)): sender.sendto(b'x', ('10.9.0.2', 9))
    report('sent')
",
    );
    // What is dropped is counted for as long as the host runs: few packets more than have room.
    let mut while_sending = |packets: &str, words: &str, expected: &str| {
        wait_for(expected, || {
            std::thread::scope(|scope| {
                let look = scope.spawn(|| look_at_host(words));
                // In the middle of the second between two samples: time is what is tested.
                std::thread::sleep(Duration::from_millis(500));
                assert_eq!(sender.ask(packets), "sent");
                let list = look.join().unwrap();
                list.into_iter().find(|finding| name(finding) == expected)
            })
        })
    };
    let dropped = || -> u64 {
        let text = fs::read_to_string("/proc/net/softnet_stat").unwrap();
        let line = text.lines().nth(1).unwrap();
        u64::from_str_radix(line.split_whitespace().nth(1).unwrap(), 16).unwrap()
    };
    let before = dropped();
    let words =
        "--only softnet,softnet-squeezed --watch 1 --count 1 --set softnet.count=1 --set softnet.share=0.1%";
    let finding = while_sending("1500", words, "warning softnet processor 1");
    assert!(
        (1..=dropped() - before).contains(&fact(&finding, "dropped")),
        "{finding:#}"
    );
    rehearse(&lab, &here, &finding);
    let words = "--only softnet,softnet-squeezed --watch 1 --count 1 --set softnet-squeezed.count=1 \
                 --set softnet-squeezed.share=0% --set softnet.count=100000000";
    let finding = while_sending("900", words, "notice softnet-squeezed processor 1");
    assert!(fact(&finding, "squeezed") >= 1);
    rehearse(&lab, &here, &finding);
}

#[test]
fn recreated_device_is_not_compared_with_the_old_one() {
    let (lab, here) = need!(alone("anew"));
    here.sysctl("ipv6/conf/default/disable_ipv6", "1");
    let make = |count: u32| {
        here.ip("link add left index 77 type veth peer name right");
        here.ip("link set left up");
        here.ip("link set right up");
        here.ip("link set right mtu 1000");
        here.ip("addr add 10.9.0.1/24 dev left");
        here.ip("neigh replace 10.9.0.2 lladdr 02:00:00:00:00:02 nud permanent dev left");
        python(
            &here,
            &format!("for _ in range({count}): udp().sendto(bytes(1200), ('10.9.0.2', 9))"),
        );
    };
    make(50);
    let watch = faults::watch::Watch::start(&here, "--only device-drops,qdisc-drops");
    assert!(watch.next().is_empty());
    here.ip("link del left");
    make(20);
    let begun = Instant::now();
    loop {
        let sample = watch.next();
        if let Some(finding) = sample
            .iter()
            .find(|finding| name(finding).ends_with("device-drops left"))
        {
            assert!((10..=20).contains(&fact(finding, "tx_dropped")), "{finding:#}");
            break;
        }
        assert!(begun.elapsed() < Duration::from_secs(20));
    }
    let _ = &lab;
    let _ = found_soon;
}
