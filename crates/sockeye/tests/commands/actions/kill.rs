//! `sockeye kill` on real sockets: what is closed, and what is not.

use crate::fixtures::binary::asked::Asked;
use crate::fixtures::binary::{SOCKEYE, command, run, sockets, words, words_in};
use crate::fixtures::processes::{holder, without_reader, words_unprivileged};
use sockeye_lab::{Lab, LabSocket, Namespace, Pair, SocketOptions, UnixKind, need, wait_until};
use std::io::{Read, Write};
use std::process::Command;
use std::time::Duration;

/// Whether there is a TCP socket in this namespace with this local port, and this peer's unless it is 0.
fn is_there(namespace: &Namespace, port: u16, peer: u16) -> bool {
    let rows = namespace.tcp_rows();
    rows.iter()
        .any(|row| row.local.port() == port && row.peer.port() == peer)
}

fn is_open(lab_socket: &LabSocket, namespace: &Namespace) -> bool {
    is_there(
        namespace,
        lab_socket.port(),
        lab_socket.peer.map_or(0, |peer| peer.port()),
    )
}

/// What reading from it says, within some seconds.
fn read_error(lab_socket: &LabSocket) -> Option<i32> {
    let socket = lab_socket.socket();
    socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let read = (&*socket).read_exact(&mut [0; 8]);
    read.err().and_then(|error| error.raw_os_error())
}

#[test]
fn owner_and_peer_get_errors_and_no_other_connection() {
    let lab = need!(Lab::new("killerr"));
    let (client, server) = (lab.namespace("client"), lab.namespace("server"));
    let link = lab.link(&client, &server);
    for net_path in [link.net_path(), link.net_path6(), link.net_path_mapped()] {
        let listener = net_path.listener();
        let (pair, other) = (
            net_path.established_to(&listener),
            net_path.established_to(&listener),
        );
        let line = format!(
            "kill --yes --own-session -N {} sport = :{}",
            client.name(),
            pair.client.port()
        );
        let outcome = words(&line);
        assert!(outcome.ok().ends_with("1 connection closed\n"), "{outcome}");
        assert_eq!(read_error(&pair.client), Some(103), "ECONNABORTED");
        assert_eq!(read_error(&pair.server), Some(104), "ECONNRESET");
        let mut socket = other.client.socket();
        socket.write_all(b"x").unwrap();
        let mut socket = other.server.socket();
        socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        socket.read_exact(&mut [0]).expect("the other one lives");
        assert!(is_open(&listener, &server));
    }
}

#[test]
fn sockets_outside_the_filter_stay_open() {
    let lab = need!(Lab::new("killnot"));
    let here = lab.namespace("here");
    let process = holder(&lab, &here);
    let [listener, client, _] = process.sockets() else {
        panic!("three sockets")
    };
    let port = client.port();
    for (line, why) in [
        ("kill".to_owned(), "a FILTER is required"),
        ("kill -y -N all".to_owned(), "a FILTER is required"),
        ("kill -y -l".to_owned(), "a FILTER is required"),
        (format!("kill sport = :{port}"), "--yes confirms it"),
        (format!("kill -y sport == == :{port}"), "expected"),
        (format!("kill --yess sport = :{port}"), "--yes"),
    ] {
        assert!(words_in(&here, &line).failed(2).contains(why), "{line}");
    }
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("exec {SOCKEYE} kill sport = :{port} <&-")]);
    assert!(here.run(|| run(&mut shell)).failed(2).contains("--yes"));
    let outcome = words_in(&here, &format!("kill --dry-run sport = :{port}"));
    assert!(outcome.ok().contains(&format!(":{port} ")), "{outcome}");
    assert!(
        outcome
            .error()
            .contains("1 connection would be closed; nothing was changed"),
        "{outcome}"
    );
    let outcome = words_in(&here, "kill -y sport = :1");
    assert!(
        outcome.ok().is_empty() && outcome.error().contains("nothing matches the filter"),
        "{outcome}"
    );
    // A listener is no connection, unless its state is named.
    let mine = format!("sport = :{}", listener.port());
    assert!(is_open(client, &here) && is_open(listener, &here));
    assert!(
        words_in(&here, &format!("kill -y {mine}"))
            .ok()
            .ends_with("1 connection closed\n")
    );
    assert!(is_open(listener, &here));
    assert!(
        words_in(&here, &format!("kill -y state listening {mine}"))
            .ok()
            .ends_with("1 socket closed\n")
    );
    assert!(!is_open(listener, &here));
}

#[test]
fn both_ends_are_counted_as_closed() {
    let lab = need!(Lab::new("killboth"));
    let here = lab.namespace("here");
    let process = lab
        .process("holder")
        .in_namespace(&here)
        .tcp_pair("127.0.0.1:0")
        .tcp_pair("[::1]:0")
        .tcp_pair("[::]:0")
        .start();
    let done = words_in(&here, "kill -y --format json state established").json();
    assert_eq!(
        (&done["closed"], &done["gone"], &done["failed"], &done["dry_run"]),
        (&6.into(), &0.into(), &0.into(), &false.into()),
        "{done}"
    );
    assert!(
        sockets(&done).iter().all(|row| row["outcome"] == "closed"),
        "{done}"
    );
    for socket in process.sockets() {
        assert_eq!(is_open(socket, &here), socket.peer.is_none(), "{socket:?}");
    }
}

#[test]
fn sockets_are_closed_in_their_own_namespaces() {
    let lab = need!(Lab::new("killns"));
    let (one, two, three) = (lab.namespace("one"), lab.namespace("two"), lab.namespace("three"));
    let start = |namespace| {
        lab.process("holder")
            .in_namespace(namespace)
            .tcp_pair("127.0.0.1:7072")
            .start()
    };
    let all = [start(&one), start(&two), start(&three)];
    let clients: Vec<_> = all.iter().map(|process| process.sockets()[1].port()).collect();
    let filter = format!(
        "dport = :7072 and ( netns = {} or netns = {} )",
        one.name(),
        two.name()
    );
    let outcome = words(&format!("kill -y -N all --format json {filter}"));
    assert_eq!(
        (outcome.json()["closed"].clone(), outcome.json()["failed"].clone()),
        (2.into(), 0.into()),
        "{outcome}"
    );
    assert!(!is_there(&one, clients[0], 7072) && !is_there(&two, clients[1], 7072));
    assert!(is_there(&three, clients[2], 7072));
    let outcome = words(&format!("kill -y -N {} dport = :7072", three.name()));
    assert!(outcome.ok().ends_with("1 connection closed\n"), "{outcome}");
    assert!(!is_there(&three, clients[2], 7072));
}

#[test]
fn newer_socket_with_the_same_addresses_stays_open() {
    let lab = need!(Lab::new("killcookie"));
    let here = lab.namespace("here");
    let net_path = here.loopback();
    let listener = net_path.listener();
    let Pair { client, server, .. } = net_path.established_to(&listener);
    let (from, to) = (client.local.unwrap(), listener.local.unwrap());
    let asked = Asked::after(&here, &format!("kill --own-session sport = :{}", from.port()));
    // Reset, so that nothing is left of it.
    client.socket().set_linger(Some(Duration::ZERO)).unwrap();
    drop((client, server));
    wait_until("the first to be gone", || {
        !is_there(&here, from.port(), to.port())
    });
    let second = here.run(|| {
        let socket = rustix::net::socket(
            rustix::net::AddressFamily::INET,
            rustix::net::SocketType::STREAM,
            None,
        )
        .unwrap();
        rustix::net::bind(&socket, &from).unwrap();
        rustix::net::connect(&socket, &to).unwrap();
        socket
    });
    let (text, code) = asked.answer("y\n");
    assert!(text.contains("1 connection had gone meanwhile"), "{text}");
    assert_eq!(code, Some(0), "{text}");
    assert!(is_there(&here, from.port(), to.port()), "{text}");
    drop(second);
}

#[test]
fn kill_skips_own_session() {
    let lab = need!(Lab::new("killown"));
    let here = lab.namespace("here");
    // This process is the one that it is started from.
    let pair = here.loopback().established();
    let port = pair.client.port();
    let outcome = words_in(&here, &format!("kill -y sport = :{port}"));
    assert_eq!(
        (outcome.code, &outcome.stdout[..]),
        (Some(0), &b""[..]),
        "{outcome}"
    );
    assert!(
        outcome
            .error()
            .contains("left out: this session needs it; --own-session closes it nevertheless"),
        "{outcome}"
    );
    assert!(is_open(&pair.client, &here));
    let dry = words_in(&here, &format!("kill --dry-run --format json sport = :{port}")).json();
    assert_eq!(dry["sockets"][0]["outcome"], "left_out", "{dry}");

    // By the connection of the login, in any process; SSH_CONNECTION may be only in the environment of an ancestor.
    let process = lab
        .process("sshd")
        .in_namespace(&here)
        .tcp_pair("127.0.0.1:0")
        .start();
    let [listener, client, server] = process.sockets() else {
        panic!("three sockets")
    };
    let login = format!("127.0.0.1 {} 127.0.0.1 {}", client.port(), listener.port());
    let filter = format!("sport = :{} or dport = :{}", listener.port(), listener.port());
    let mut sudo = Command::new("sh");
    let line = format!("env -u SSH_CONNECTION {SOCKEYE} kill -y '{filter}'; exit $?");
    sudo.args(["-c", &line]).env("SSH_CONNECTION", &login);
    let mut direct = command();
    direct.args(["kill", "-y", &filter]).env("SSH_CONNECTION", &login);
    for command in [&mut sudo, &mut direct] {
        let outcome = here.run(|| run(command));
        assert!(
            outcome.ok().is_empty() && outcome.error().contains("2 connections of sshd"),
            "{outcome}"
        );
        assert!(is_open(client, &here) && is_open(server, &here));
    }
    let outcome = here.run(|| {
        run(command()
            .args(["kill", "-y", "--own-session", &filter])
            .env("SSH_CONNECTION", &login))
    });
    assert!(outcome.ok().ends_with("2 connections closed\n"), "{outcome}");
}

#[test]
fn kill_skips_peers_of_own_session() {
    let lab = need!(Lab::new("killends"));
    let here = lab.namespace("here");
    // This process, of the session, accepts; the other end is another's, as it is of `ssh localhost` and of a proxy.
    // It is a v6 socket, and its peer's is v4.
    for (listens, address) in [
        ("127.0.0.1:9400", "[::ffff:127.0.0.1]:9400"),
        ("[::1]:9401", "[::1]:9401"),
    ] {
        let listener = here.tcp_listener(listens, &SocketOptions::new());
        let accepted = std::thread::scope(|scope| {
            let accepting = scope.spawn(|| {
                let socket = listener.fd().unwrap().try_clone_to_owned().unwrap();
                rustix::net::accept(&socket).unwrap()
            });
            let client = lab
                .process("client")
                .in_namespace(&here)
                .tcp_connect(address.parse().unwrap())
                .start();
            (accepting.join().unwrap(), client)
        });
        let (socket, client) = accepted;
        let [end] = client.sockets() else {
            panic!("one socket")
        };
        let port = listener.port();
        // Whether or not the filter names the session's own end.
        for filter in [
            "sport >= :1 or dport >= :1".to_owned(),
            format!("dport = :{port}"),
        ] {
            let outcome = words_in(&here, &format!("kill -a --yes {filter}"));
            assert_eq!(
                (outcome.code, &outcome.stdout[..]),
                (Some(0), &b""[..]),
                "{outcome}"
            );
            assert!(
                outcome.error().contains("1 connection of client (")
                    && outcome.error().contains("left out: this session needs it"),
                "{outcome}"
            );
            assert!(is_open(end, &here), "{outcome}");
        }
        let outcome = words_in(&here, &format!("kill --yes --own-session dport = :{port}"));
        assert!(outcome.ok().ends_with("1 connection closed\n"), "{outcome}");
        drop((socket, client));
    }
}

#[test]
fn other_protocols_are_closed_if_selected() {
    let lab = need!(Lab::new("killudp"));
    let here = lab.namespace("here");
    let process = lab
        .process("holder")
        .in_namespace(&here)
        .udp_bind("127.0.0.1:7073")
        .udp_bind("127.0.0.1:7074")
        .start();
    let udp = |port| format!("kill -y -u -a sport = :{port}");
    assert!(
        words_in(&here, "kill -y sport = :7073")
            .error()
            .contains("nothing matches")
    );
    // What is not connected takes -a, and the note says so.
    let outcome = words_in(&here, "kill -y -u sport = :7073");
    assert!(
        outcome
            .error()
            .contains("it matches 1 socket that is not connected; -a includes them"),
        "{outcome}"
    );
    assert!(words_in(&here, &udp(7073)).ok().ends_with("1 socket closed\n"));
    let pair = here.loopback().udp_connected();
    let outcome = words_in(
        &here,
        &format!("kill -y --own-session -u sport = :{}", pair.client.port()),
    );
    assert!(outcome.ok().ends_with("1 socket closed\n"), "{outcome}");
    assert!(outcome.error().contains("its port stays bound"), "{outcome}");
    assert_eq!(read_error(&pair.client), Some(103), "ECONNABORTED");
    assert!(pair.client.socket().peer_addr().is_err(), "it has lost its peer");
    assert!(pair.server.socket().peer_addr().is_ok() || pair.server.peer.is_none());

    let raw = here.raw(1, false);
    let outcome = words_in(&here, "kill -y --own-session -w -a inode > 0");
    // Without raw_diag in the kernel only /proc lists it.
    assert!(
        outcome.error().contains("its source has no cookies") || outcome.ok().contains("1 socket closed"),
        "{outcome}"
    );
    drop(raw);

    // What the kernel does not close is left out beforehand.
    let unix = here.unix_bound(UnixKind::Stream, &lab.unix_abstract("killed"));
    let filter = format!("--own-session -x -a inode = {}", unix.inode);
    let reason = "the kernel closes TCP, UDP and RAW sockets only";
    for (flag, code) in [("--dry-run", 0), ("-y", 1)] {
        let outcome = words_in(&here, &format!("kill {flag} {filter}"));
        assert_eq!(outcome.code, Some(code), "{outcome}");
        assert!(
            outcome.error().contains("left out: ") && outcome.error().contains(reason),
            "{outcome}"
        );
        assert!(!outcome.error().contains("1 socket would be closed"), "{outcome}");
        let outcome = words_in(&here, &format!("kill {flag} --format json {filter}"));
        let document: serde_json::Value = serde_json::from_slice(&outcome.stdout).unwrap();
        assert_eq!(
            (&document["left_out"], &document["failed"], &document["closed"]),
            (&1.into(), &0.into(), &0.into()),
            "{outcome}"
        );
        let row = &document["sockets"][0];
        assert_eq!(row["outcome"], "left_out", "{outcome}");
        assert!(row["reason"].as_str().unwrap().contains(reason), "{outcome}");
    }
    drop(process);
}

#[test]
fn listeners_that_share_a_port_are_all_closed() {
    let lab = need!(Lab::new("killreuse"));
    let here = lab.namespace("here");
    let options = SocketOptions::new().reuse_port();
    let all: Vec<_> = (0..5)
        .map(|_| here.tcp_listener("127.0.0.1:7075", &options))
        .collect();
    let outcome = words_in(&here, "kill -y --own-session state listening sport = :7075");
    assert!(outcome.ok().ends_with("5 sockets closed\n"), "{outcome}");
    assert!(!is_there(&here, 7075, 0));
    drop(all);
}

#[test]
fn waiting_states_are_closed_if_the_kernel_can() {
    let lab = need!(Lab::new("killtw"));
    let here = lab.namespace("here");
    let waiting = here.loopback().time_wait();
    let port = waiting.port();
    let peer = waiting.peer.unwrap().port();
    assert!(is_there(&here, port, peer));
    let outcome = words_in(&here, &format!("kill -y state time-wait sport = :{port}"));
    // Linux 6.8 and later close it; earlier ones report that they do not.
    if outcome.code == Some(0) {
        assert!(!is_there(&here, port, peer), "{outcome}");
    } else {
        assert!(
            outcome
                .error()
                .contains("this kernel closes no tcp sockets in this state"),
            "{outcome}"
        );
    }
}

#[test]
fn unprivileged_kill_fails_with_the_reason() {
    let lab = need!(Lab::new("killnobody"));
    let here = lab.namespace("here");
    let binary = lab.copy_for_all_users(SOCKEYE.as_ref());
    let process = lab
        .process("holder")
        .in_namespace(&here)
        .user(65534, 65534)
        .tcp_pair("127.0.0.1:0")
        .start();
    let client = &process.sockets()[1];
    let outcome = words_unprivileged(&here, &binary, &format!("kill -y sport = :{}", client.port()));
    assert_eq!(outcome.code, Some(1), "{outcome}");
    assert!(
        outcome.error().contains("1 connection") && outcome.error().contains("CAP_NET_ADMIN"),
        "{outcome}"
    );
    assert!(is_open(client, &here));
}

#[test]
fn socket_the_kernel_does_not_find_is_not_counted_as_closed() {
    let lab = need!(Lab::new("killbound"));
    let here = lab.namespace("here");
    let bound = here.tcp_bound("127.0.0.1:7076", &SocketOptions::new());
    let outcome = words_in(&here, "kill -y --own-session state bound-inactive sport = :7076");
    if outcome.error().contains("nothing matches") {
        return; // before Linux 6.8 no source lists it
    }
    assert_eq!(outcome.code, Some(1), "{outcome}");
    assert!(
        outcome.error().contains("does not find it by its addresses"),
        "{outcome}"
    );
    assert!(
        String::from_utf8_lossy(&outcome.stdout).contains("0 sockets closed"),
        "{outcome}"
    );
    drop(bound);
}

#[test]
fn confirmed_kill_continues_without_a_reader() {
    let lab = need!(Lab::new("killread"));
    let here = lab.namespace("here");
    let process = holder(&lab, &here);
    let mut command = command();
    command.args(["kill", "--yes", "state", "established"]);
    let output = without_reader(&here, &mut command);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(!is_open(&process.sockets()[1], &here));
}

#[test]
fn closed_output_exits_0() {
    let lab = need!(Lab::new("killpipe"));
    let here = lab.namespace("here");
    let process = holder(&lab, &here);
    let mut command = command();
    command.args(["kill", "--dry-run", "state", "established"]);
    let output = without_reader(&here, &mut command);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(
        !String::from_utf8_lossy(&output.stderr).contains("panicked"),
        "{output:?}"
    );
    assert_eq!(
        process
            .sockets()
            .iter()
            .filter(|socket| is_open(socket, &here))
            .count(),
        3
    );
}
