//! `sockeye check` and connections that stand still: each fault made for real in namespaces, the one finding that says
//! so, and silence below the threshold.

use super::diagnosis::{self, check, check_inside, check_together, expect, given, until};
use sockeye_lab::{Impairment, Lab, Namespace, Skip, SocketOptions, Timer, Toward, need, wait_within};
use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

/// A lab with a client's and a server's namespace.
fn two(purpose: &str) -> Result<(Lab, Namespace, Namespace), Skip> {
    let lab = Lab::new(purpose)?;
    let (client, server) = (lab.namespace("client"), lab.namespace("server"));
    Ok((lab, client, server))
}

#[test]
fn idle_without_keepalive() {
    let (lab, client, server) = need!(two("no_keepalive"));
    let link = lab.link(&client, &server);
    let pair = link.net_path().established();
    // With keepalive an idle connection is no finding.
    let _guarded = link.net_path6().keepalive(Duration::from_secs(60));
    let (idler, sitter) = (
        given(&lab, "idler", pair.client),
        given(&lab, "sitter", pair.server),
    );
    let soon = ["--set", "no-keepalive.idle=1s"];
    // Neither end would notice that the other is gone.
    for (namespace, process) in [(&client, &idler), (&server, &sitter)] {
        let found = expect(namespace, &soon, &["no-keepalive"]);
        let found = found.the("no-keepalive").severity("warning").owned_by(process);
        found.about(1, &process.sockets()[0]);
        assert!(found.fact("idle_ms") >= 1000);
        found.remedy(&format!("pid = {}", process.pid()));
        check_inside(namespace, &[]).nothing();
    }
}

#[test]
fn idle_without_keepalive_on_one_host() {
    let lab = need!(Lab::new("no_keepalive_local"));
    let namespace = lab.namespace("alone");
    let pair = namespace.loopback6().established();
    let both = given(&lab, "both", pair.client);
    let found = until(&["no-keepalive"; 2], || {
        check_inside(&namespace, &["--set", "no-keepalive.idle=1s"])
    });
    // Another process has the other end; no middlebox is between them.
    for finding in &found.findings {
        assert_eq!(finding["severity"], "notice", "{finding}");
    }
    assert!(
        found
            .findings
            .iter()
            .any(|finding| finding["owners"][0]["pid"] == both.pid())
    );
}

#[test]
fn keepalive_that_comes_too_late() {
    let (lab, client, server) = need!(two("keepalive_late"));
    let link = lab.link(&client, &server);
    let net_path = link.net_path();
    let late = net_path
        .with_client(SocketOptions::new().keepalive(Duration::from_secs(7200)))
        .established();
    let _early = net_path.keepalive(Duration::from_secs(200));
    let owner = given(&lab, "late", late.client);
    let found = check(&client, &[]);
    assert_eq!(found.rules(), ["keepalive-late"], "{found}");
    let found = found.the("keepalive-late").severity("notice").owned_by(&owner);
    found.about(1, &owner.sockets()[0]);
    assert!((7_100_000..=7_200_000).contains(&found.fact("next_probe_ms")));
    // The other end has none, and is not old yet.
    check(&server, &[]).nothing();
    check_inside(&client, &["--set", "keepalive-late.after=3h"]).nothing();
    // On one host nothing stands between them that could forget.
    let _local = client.loopback().keepalive(Duration::from_secs(7200));
    assert_eq!(check(&client, &[]).rules(), ["keepalive-late"]);
    assert_eq!(check(&client, &[]).the("keepalive-late").0["sockets"], 1);
}

#[test]
fn unanswered_keepalive_probes_are_found() {
    let (lab, client, server) = need!(two("keepalive_unanswered"));
    let net_path = lab.link(&client, &server).net_path6();
    let options = SocketOptions::new().keepalive(Duration::from_secs(1));
    client.sysctl("ipv4/tcp_keepalive_intvl", "1");
    let pair = net_path.with_client(options).established();
    net_path.cut(Toward::Server);
    let owner = given(&lab, "prober", pair.client);
    let found = expect(&client, &[], &["keepalive-unanswered"]);
    let found = found
        .the("keepalive-unanswered")
        .severity("warning")
        .owned_by(&owner);
    found.about(1, &owner.sockets()[0]);
    assert!(found.fact("unanswered_probes") >= 2);
    check(&client, &["--set", "keepalive-unanswered.probes=100"]).nothing();
    // They are answered again, and all is well.
    net_path.mend(Toward::Server);
    expect(&client, &[], &[]);
}

#[test]
fn peers_that_vanish_while_data_is_sent() {
    let (lab, client, server) = need!(two("peer_silent"));
    let link = lab.link(&client, &server);
    let pair = link.net_path().retransmitting(100);
    // Full-sized segments do not make it a matter of size, as long as nothing at all comes back.
    let big = link.net_path6().retransmitting(50_000);
    let (small, big) = (given(&lab, "small", pair.client), given(&lab, "big", big.client));
    check(&client, &["--set", "peer-silent.retransmissions=100"]).nothing();
    let found = expect(&client, &[], &["peer-silent"; 2]);
    for owner in [&small, &big] {
        let mut all = found.findings.iter().map(diagnosis::Found);
        let found = all.find(|found| found.0["owners"][0]["pid"] == owner.pid());
        let found = found.expect("one of each").severity("critical").owned_by(owner);
        found.about(1, &owner.sockets()[0]);
        assert!(found.fact("retransmissions") >= 4);
        assert!(found.fact("sendq_bytes") >= 100);
        // Where the first copy is still queued on this host a retransmission counts, but makes no pause longer.
        assert!(found.fact("stalled_ms") >= 200, "{}", found.0);
        assert!(
            found.fact("last_ack_recv_ms") + 500 >= found.fact("stalled_ms"),
            "{}",
            found.0
        );
        found.remedy("kill 'src = ").remedy("ping");
    }
    // What the server never saw it cannot miss.
    check(&server, &[]).nothing();
}

/// The kernel itself ends what its program has closed.
#[test]
fn peers_that_vanish_while_we_close() {
    let (lab, client, server) = need!(two("peer_silent_orphan"));
    let net_path = lab.link(&client, &server).net_path();
    let pair = net_path.fin_wait1();
    let (own, peer) = (pair.client.local, pair.client.peer);
    drop(pair.client);
    let found = expect(&client, &[], &["peer-silent"]);
    let found = found.the("peer-silent").severity("notice").without_owner();
    let example = found.counted(1);
    assert_eq!(example["state"], "fin_wait_1");
    assert!(example["inode"].is_null());
    assert_eq!(
        (
            diagnosis::end(&example["local"]),
            diagnosis::end(&example["peer"])
        ),
        (own, peer)
    );
    check(&server, &[]).nothing();
}

#[test]
fn unanswered_connects_are_found() {
    let (lab, client, server) = need!(two("connect_unanswered"));
    let link = lab.link(&client, &server);
    let caller = given(&lab, "caller", link.net_path().syn_sent());
    check(&client, &["--set", "connect-unanswered.retransmissions=100"]).nothing();
    let found = expect(&client, &[], &["connect-unanswered"]);
    let found = found
        .the("connect-unanswered")
        .severity("warning")
        .owned_by(&caller);
    found.about(1, &caller.sockets()[0]).remedy("nc -vz");
    assert!(found.fact("retransmissions") >= 2);
    check(&server, &[]).nothing();
}

#[test]
fn a_server_that_does_not_accept_is_the_cause() {
    let (lab, client, server) = need!(two("accept_queue_cause"));
    let full = lab.link(&client, &server).net_path().full_accept_queue(3);
    let caller = given(&lab, "caller", full.left_out);
    let listener = given(&lab, "sleeper", full.listener);
    // From the client alone only the missing answer is visible ...
    let found = expect(&client, &[], &["connect-unanswered"]);
    found
        .the("connect-unanswered")
        .owned_by(&caller)
        .about(1, &caller.sockets()[0]);
    // ... and who sees both ends why.
    let found = check_together(&[&client, &server], &[]);
    assert_eq!(found.rules(), ["accept-queue"], "{found}");
    let found = found.the("accept-queue").severity("critical").owned_by(&listener);
    found.listener(&listener.sockets()[0]);
    assert_eq!(found.0["netns"], server.name());
}

#[test]
fn a_reader_that_does_not_read() {
    let (lab, client, server) = need!(two("zero_window"));
    let pair = lab.link(&client, &server).net_path().zero_window();
    let (writer, reader) = (
        given(&lab, "writer", pair.client),
        given(&lab, "reader", pair.server),
    );
    let words = ["--set", "zero-window.for=1s", "--set", "unread.for=1s"];
    // At the writer's end the peer does not read ...
    let found = expect(&client, &words, &["zero-window"]);
    let found = found.the("zero-window").severity("warning").owned_by(&writer);
    found.about(1, &writer.sockets()[0]);
    assert!(found.fact("stalled_ms") >= 1000);
    assert!(found.fact("sendq_bytes") > 0);
    // ... at the other we know who.
    let found = expect(&server, &words, &["unread"]);
    let found = found.the("unread").severity("warning").owned_by(&reader);
    found.about(1, &reader.sockets()[0]);
    assert!(found.fact("waiting_ms") >= 1000);
    assert_eq!(
        found.fact("recvq_bytes"),
        u64::from(reader.sockets()[0].recv_queue)
    );
    found.remedy(&format!("/proc/{}/status", reader.pid()));
    let found = check_together(&[&client, &server], &words);
    assert_eq!(found.rules(), ["unread"], "{found}");
    found.the("unread").owned_by(&reader);
    for namespace in [&client, &server] {
        check_inside(
            namespace,
            &["--set", "zero-window.for=1h", "--set", "unread.for=1h"],
        )
        .nothing();
    }
}

#[test]
fn a_few_bytes_unread() {
    let (lab, client, server) = need!(two("unread"));
    let pair = lab.link(&client, &server).net_path6().unread(1000);
    let reader = given(&lab, "reader", pair.server);
    let words = ["--set", "unread.for=500ms"];
    let found = expect(&server, &words, &["unread"]);
    let found = found.the("unread").owned_by(&reader);
    found.about(1, &reader.sockets()[0]);
    assert_eq!(found.fact("recvq_bytes"), 1000);
    check(&server, &[words[0], words[1], "--set", "unread.bytes=1001"]).nothing();
    check(&client, &words).nothing();
}

/// Retransmission timers may be so long that nothing was sent again yet.
#[test]
fn data_that_waits_without_being_sent_again() {
    let (lab, client, server) = need!(two("send_stuck"));
    client.sysctl("ipv4/tcp_rto_min_us", "60000000");
    let net_path = lab.link(&client, &server).net_path();
    let pair = net_path.established();
    // An answer before, so that the timer is measured and not the first one of a second.
    let mut socket = pair.client.socket();
    socket.write_all(b"hello").expect("send");
    pair.client
        .wait_row("an answer", |row| row.send_queue == 0 && row.timer == Timer::Off);
    net_path.cut(Toward::Server);
    socket.write_all(&[b'x'; 5000]).expect("send");
    let owner = given(&lab, "sender", pair.client);
    let found = expect(&client, &["--set", "send-stuck.for=2s"], &["send-stuck"]);
    let found = found.the("send-stuck").severity("warning").owned_by(&owner);
    found.about(1, &owner.sockets()[0]);
    assert!(found.fact("stalled_ms") >= 2000);
    assert!(found.fact("last_ack_recv_ms") >= 2000);
    assert_eq!(found.fact("sendq_bytes"), 5000);
    check(&client, &[]).nothing();
}

/// That nothing was heard for long before something was sent proves nothing.
#[test]
fn data_just_sent_after_a_long_silence() {
    let (lab, client, server) = need!(two("send_not_stuck"));
    let middlebox = lab.middlebox(&client, &server, 1);
    let pair = middlebox.net_path().established();
    middlebox.set_both(Impairment {
        delay: Duration::from_secs(5),
        ..Impairment::default()
    });
    // Time is what is tested: the silence.
    std::thread::sleep(Duration::from_millis(1500));
    let mut socket = pair.client.socket();
    socket.write_all(b"hello").expect("send");
    let sent = Instant::now();
    // As if a second were long: the first retransmissions come sooner than that.
    let words = [
        "--set",
        "send-stuck.for=1s",
        "--set",
        "peer-silent.retransmissions=100",
    ];
    let found = check(&client, &words);
    if sent.elapsed() < Duration::from_secs(1) {
        found.nothing();
    }
    let found = expect(&client, &words, &["send-stuck"]);
    let found = found.the("send-stuck");
    assert!(found.fact("last_ack_recv_ms") >= found.fact("stalled_ms") + 1000);
}

#[test]
fn a_path_that_swallows_full_sized_segments() {
    let lab = need!(Lab::new("black_hole"));
    let [client, near, far, server] = ["client", "near", "far", "server"].map(|name| lab.namespace(name));
    let (first, middle, last) = (
        lab.link(&client, &near),
        lab.link(&near, &far),
        lab.link(&far, &server),
    );
    for (router, route) in [
        (&near, "10.77.2.0/24 via 10.77.1.2"),
        (&far, "10.77.0.0/24 via 10.77.1.1"),
    ] {
        router.sysctl("ipv4/ip_forward", "1");
        router.ip(&format!("route add {route}"));
    }
    client.ip("route add 10.77.2.0/24 via 10.77.0.2");
    server.ip("route add 10.77.0.0/24 via 10.77.2.1");
    // Between the routers: what is longer than the device takes that it comes in by is dropped without a word.
    far.ip(&format!("link set {} mtu 1300", middle.devices().1));
    client.ip(&format!("link set {} gso_max_segs 1", first.devices().0));
    let listener = server
        .run(|| TcpListener::bind((last.server_addresses().0, 0)))
        .expect("listen");
    let to = listener.local_addr().expect("an address");
    let open = || {
        let stream = client.run(|| TcpStream::connect(to)).expect("connect");
        (stream, listener.accept().expect("accept").0)
    };
    // What fits gets through, all the time.
    let (mut short, _short) = open();
    let (mut long, _long) = open();
    let own = long.local_addr().expect("an address");
    long.write_all(&[b'x'; 20_000]).expect("send");
    let mut talk = || {
        short.write_all(b"still there?").expect("send");
        check(&client, &[])
    };
    let found = wait_within(diagnosis::SOON, "the black hole", || {
        let found = talk();
        let rules = found.rules();
        assert!(rules.is_empty() || rules == ["mtu-black-hole"], "{found}");
        (!rules.is_empty()).then_some(found)
    });
    let found = found.the("mtu-black-hole").severity("critical");
    let example = found.counted(1);
    assert_eq!(
        (
            diagnosis::end(&example["local"]),
            diagnosis::end(&example["peer"])
        ),
        (Some(own), Some(to))
    );
    assert_eq!(found.0["owners"][0]["pid"], std::process::id());
    assert!(found.fact("retransmissions") >= 3);
    assert!(found.fact("snd_mss_bytes") > 1260);
    found.remedy("tcp_mtu_probing").remedy("tracepath");
    check(&server, &["--set", "unread.for=1h"]).nothing();
}

#[test]
fn servers_that_do_not_close() {
    let (lab, client, server) = need!(two("close_wait"));
    let net_path = lab.link(&client, &server).net_path();
    let pair = net_path.half_closed();
    let leaker = given(&lab, "leaker", pair.server);
    let waiter = given(&lab, "waiter", pair.client);
    // One is found when it is old ...
    let words = ["--set", "close-wait.age=1s", "--set", "fin-wait2.age=1s"];
    let found = expect(&server, &words, &["close-wait"]);
    let found = found.the("close-wait").severity("warning").owned_by(&leaker);
    found.about(1, &leaker.sockets()[0]);
    assert!(found.fact("age_ms") >= 1000);
    found.remedy("state close-wait");
    // ... and so is its other end, whose program waits as long.
    let found = expect(&client, &words, &["fin-wait2"]);
    let found = found.the("fin-wait2").severity("warning").owned_by(&waiter);
    found.about(1, &waiter.sockets()[0]);
    assert!(found.fact("age_ms") >= 1000);
    check_inside(&server, &[]).nothing();
    check_inside(&client, &[]).nothing();
    // An orphan the kernel itself ends.
    let _orphaned = net_path.orphaned();
    let found = expect(&client, &words, &["fin-wait2"]);
    assert_eq!(found.the("fin-wait2").0["sockets"], 1);
}

#[test]
fn servers_that_leave_many_open() {
    let (lab, client, server) = need!(two("close_wait_many"));
    let net_path = lab.link(&client, &server).net_path6();
    let pairs: Vec<_> = (0..10).map(|_| net_path.half_closed()).collect();
    let found = expect(&server, &[], &["close-wait"]);
    assert_eq!(found.the("close-wait").0["sockets"], 10);
    assert_eq!(
        found.the("close-wait").0["examples"].as_array().map(Vec::len),
        Some(5)
    );
    let found = expect(&client, &[], &["fin-wait2"]);
    let found = found.the("fin-wait2");
    assert_eq!(found.0["sockets"], 10);
    assert_eq!(found.0["owners"][0]["pid"], std::process::id());
    drop(pairs);
}
