//! Every TCP maker against `ss`, over every kind of path.

use super::ss;
use sockeye_lab::{Family, Lab, Link, Namespace, NetPath, Pair, SocketOptions, State, Timer, Toward, need};
use sockeye_lab::{congestion_control, program, wait_until};
use std::time::Duration;

/// A lab with two linked namespaces.
fn linked(purpose: &str) -> Result<(Lab, Namespace, Namespace, Link), sockeye_lab::Skip> {
    program("ss")?;
    let lab = Lab::new(purpose)?;
    let (client, server) = (lab.namespace("client"), lab.namespace("server"));
    let link = lab.link(&client, &server);
    Ok((lab, client, server, link))
}

fn link_paths(link: &Link) -> [NetPath; 3] {
    [link.net_path(), link.net_path6(), link.net_path_mapped()]
}

fn every_path(client: &Namespace, link: &Link) -> Vec<NetPath> {
    let mut paths = vec![client.loopback(), client.loopback6(), client.loopback_mapped()];
    paths.extend(link_paths(link));
    paths
}

#[track_caller]
fn check_pair(pair: &Pair, client: State, server: State) {
    assert_eq!((pair.client.state, pair.server.state), (client, server));
    ss::check(&pair.client);
    ss::check(&pair.server);
}

#[test]
fn established_sockets_match_ss() {
    let (_lab, client, _server, link) = need!(linked("established"));
    for net_path in every_path(&client, &link) {
        let pair = net_path.established();
        check_pair(&pair, State::Established, State::Established);
        ss::check(pair.listener.as_ref().unwrap());
        let second = net_path.established_to(pair.listener.as_ref().unwrap());
        check_pair(&second, State::Established, State::Established);
    }
    let pair = link.net_path_mapped().established();
    assert_eq!(
        (pair.client.family, pair.server.family),
        (Family::Inet, Family::Inet6)
    );
    assert_eq!(pair.client.pid, Some(std::process::id()));
}

#[test]
fn proc_and_inet_diag_agree() {
    let (_lab, client, server, link) = need!(linked("agree"));
    let listener = server.tcp_listener("[::]:0", &SocketOptions::new());
    let pairs = [
        link.net_path().unread(5),
        link.net_path_mapped().unread(6),
        link.net_path6().half_closed(),
    ];
    let (gone, calling) = (link.net_path_mapped().time_wait(), link.net_path6().syn_sent());
    let mut all: Vec<_> = pairs
        .iter()
        .flat_map(Pair::lab_sockets)
        .chain([&gone, &calling, &listener])
        .collect();
    let rows = [client.tcp_rows(), server.tcp_rows()].concat();
    assert_eq!(rows.len(), all.len());
    all.retain(|lab_socket| lab_socket.state != State::SynSent);
    for lab_socket in all {
        let mut row = lab_socket.row().unwrap();
        if row.state == State::Listen {
            row.send_queue = 0;
        }
        assert!(rows.contains(&row), "{row:?} not in {rows:#?}");
    }
}

#[test]
fn link_local_sockets_have_their_values() {
    let (_lab, client, server, link) = need!(linked("link_local"));
    let pair = link.net_path_link_local().established();
    let filter = format!("sport = :{}", pair.server.port());
    let outcome = server.output("ss", &["-Htane", "state", "established", &filter]);
    let words: Vec<&str> = outcome.split_whitespace().collect();
    let (client_device, server_device) = link.devices();
    let ip = |lab_socket: &sockeye_lab::LabSocket| lab_socket.local.unwrap().ip();
    assert_eq!(
        words[2],
        format!("[{}]%{server_device}:{}", ip(&pair.server), pair.server.port())
    );
    assert_eq!(words[3], format!("[{}]:{}", ip(&pair.client), pair.client.port()));
    assert!(
        client
            .output("ss", &["-Htan"])
            .contains(&format!("%{client_device}:"))
    );
    assert_eq!(pair.client.row().unwrap().inode, pair.client.inode);
    assert_eq!(
        link.net_path_link_local().half_closed().server.state,
        State::CloseWait
    );
    assert_eq!(link.net_path_link_local().syn_recv().server.state, State::SynRecv);
    assert_eq!(
        link.net_path_link_local().udp_connected().server.state,
        State::Established
    );
}

#[test]
fn listeners_sockets_match_ss() {
    let (_lab, client, _server, link) = need!(linked("listeners"));
    let plain = SocketOptions::new();
    let v6_only = SocketOptions::new().v6_only(true);
    let (own, own6) = link.client_addresses();
    let shown = |local: &str, options: &SocketOptions| ss::check(&client.tcp_listener(local, options)).local;
    assert_eq!(shown("0.0.0.0:8001", &plain), "0.0.0.0:8001");
    assert_eq!(shown("[::]:8002", &plain), "*:8002");
    assert_eq!(shown("[::]:8003", &v6_only), "[::]:8003");
    assert_eq!(shown(&format!("{own}:8004"), &plain), format!("{own}:8004"));
    assert_eq!(shown(&format!("[{own6}]:8005"), &plain), format!("[{own6}]:8005"));
    let small = ss::check(&client.tcp_listener("127.0.0.1:0", &SocketOptions::new().backlog(5)));
    assert_eq!(small.send_queue, 5);
}

#[test]
fn time_wait_and_half_closed_sockets_match_ss() {
    let (_lab, client, _server, link) = need!(linked("time_wait"));
    for net_path in every_path(&client, &link) {
        let gone = net_path.time_wait();
        assert_eq!((gone.state, gone.inode), (State::TimeWait, 0));
        ss::check(&gone);
        check_pair(&net_path.half_closed(), State::FinWait2, State::CloseWait);
        check_pair(&net_path.orphaned(), State::FinWait2, State::CloseWait);
    }
}

#[test]
fn syn_sent_sockets_match_ss() {
    let (_lab, _client, _server, link) = need!(linked("syn_sent"));
    for net_path in link_paths(&link) {
        ss::check(&net_path.syn_sent());
    }
}

#[test]
fn syn_recv_sockets_match_ss() {
    let (_lab, _client, _server, link) = need!(linked("syn_recv"));
    for net_path in link_paths(&link) {
        check_pair(&net_path.syn_recv(), State::SynSent, State::SynRecv);
    }
}

#[test]
fn fins_lost_on_the_way_sockets_match_ss() {
    let (_lab, _client, _server, link) = need!(linked("fins"));
    for net_path in link_paths(&link) {
        check_pair(&net_path.fin_wait1(), State::FinWait1, State::Established);
    }
    for net_path in link_paths(&link) {
        check_pair(&net_path.closing(), State::Closing, State::FinWait1);
    }
    for net_path in link_paths(&link) {
        check_pair(&net_path.last_ack(), State::FinWait2, State::LastAck);
    }
}

#[test]
fn cut_path_can_be_mended() {
    let (_lab, _client, _server, link) = need!(linked("mend"));
    for net_path in [link.net_path(), link.net_path6()] {
        let pair = net_path.fin_wait1();
        net_path.mend(Toward::Server);
        pair.client
            .wait_row("the retransmitted FIN", |row| row.state == State::FinWait2);
        assert_eq!(ss::line_of(&pair.server).state, "CLOSE-WAIT");
    }
}

#[test]
fn queues_of_known_length_sockets_match_ss() {
    let (_lab, client, _server, link) = need!(linked("queues"));
    for net_path in every_path(&client, &link) {
        let pair = net_path.unread(1234);
        assert_eq!(pair.server.recv_queue, 1234);
        check_pair(&pair, State::Established, State::Established);
    }
}

#[test]
fn retransmitting_sockets_match_ss() {
    let (_lab, _client, _server, link) = need!(linked("retransmitting"));
    for net_path in [link.net_path(), link.net_path6()] {
        let pair = net_path.retransmitting(777);
        let line = ss::check(&pair.client);
        assert_eq!(line.send_queue, 777);
        // timer:(on,TIME,RETRANSMISSIONS)
        let retransmissions = line
            .word("timer")
            .unwrap()
            .trim_end_matches(')')
            .rsplit(',')
            .next()
            .unwrap();
        assert!(retransmissions.parse::<u32>().unwrap() > 0, "{line:?}");
    }
}

#[test]
fn zero_window_sockets_have_their_values() {
    let (_lab, client, _server, link) = need!(linked("zero_window"));
    for net_path in [client.loopback(), link.net_path(), link.net_path6()] {
        let pair = net_path.zero_window();
        assert_eq!(pair.client.timer, Timer::Persist);
        let line = ss::line_of(&pair.client);
        assert_eq!((line.timer(), line.recv_queue), ("persist", 0), "{line:?}");
        assert!(line.send_queue > 0, "{line:?}");
        assert!(ss::line_of(&pair.server).recv_queue > 0);
    }
}

#[test]
fn keepalive_sockets_match_ss() {
    let (_lab, client, _server, link) = need!(linked("keepalive"));
    for net_path in [client.loopback(), link.net_path6()] {
        let pair = net_path.keepalive(Duration::from_secs(3600));
        let line = ss::check(&pair.client);
        // The whole hour, if the look is quick.
        let timer = line.word("timer").unwrap();
        assert!(
            timer.starts_with("(keepalive,59min") || timer.starts_with("(keepalive,60min"),
            "{line:?}"
        );
        ss::check(&pair.server);
    }
}

#[test]
fn full_accept_queue_sockets_match_ss() {
    let (_lab, client, _server, link) = need!(linked("full_queue"));
    for net_path in [client.loopback(), link.net_path_mapped()] {
        let full = net_path.full_accept_queue(1);
        let line = ss::check(&full.listener);
        assert_eq!((line.recv_queue, line.send_queue), (2, 1));
        assert_eq!((full.queued.len(), full.unaccepted.len()), (2, 2));
        full.queued
            .iter()
            .chain(&full.unaccepted)
            .for_each(|lab_socket| drop(ss::check(lab_socket)));
        ss::check(&full.left_out);
    }
}

#[test]
fn options_are_set() {
    let (_lab, client, _server, link) = need!(linked("options"));
    let device = link.devices().0;
    let marked = SocketOptions::new().mark(0x1234);
    let pair = client.loopback().with_client(marked).established();
    assert_eq!(ss::check(&pair.client).word("fwmark"), Some("0x1234"));
    assert_eq!(ss::check(&pair.server).word("fwmark"), None);

    let tied = client.tcp_listener("0.0.0.0:8100", &SocketOptions::new().device(device));
    let lines = ss::lines(&client, "-t");
    assert!(
        lines
            .iter()
            .any(|line| line.local == format!("0.0.0.0%{device}:8100")),
        "{lines:#?}"
    );
    assert_eq!(tied.row().unwrap().state, State::Listen);

    for name in ["cubic", "reno", "bbr"] {
        if let Err(skip) = congestion_control(name) {
            skip.print();
            continue;
        }
        let pair = client
            .loopback()
            .with_client(SocketOptions::new().congestion(name))
            .established();
        let filter = format!("sport = :{}", pair.client.port());
        let outcome = client.output("ss", &["-HOtin", "state", "established", &filter]);
        assert!(
            outcome.split_whitespace().any(|word| word == name),
            "{name} not in {outcome}"
        );
    }
}

#[test]
fn bound_and_idle_sockets_have_their_values() {
    let (_lab, client, _server, _link) = need!(linked("bound"));
    let idle = client.tcp_bound("127.0.0.1:8200", &SocketOptions::new());
    assert_eq!((idle.state, idle.port()), (State::Close, 8200));
    assert!(idle.row().is_none());
    let twice = client.run(|| std::net::TcpListener::bind("127.0.0.1:8200").map(drop));
    assert!(twice.is_err(), "the port is taken");
}

#[test]
fn mptcp_sockets_have_their_values() {
    let (_lab, client, _server, link) = need!(linked("mptcp"));
    for net_path in [client.loopback(), link.net_path()] {
        let pair = need!(net_path.mptcp());
        for end in pair.lab_sockets() {
            let line = ss::line_of(end);
            assert_eq!(line.state, end.state.ss_word(), "{line:?}");
            assert_eq!(line.word("ino"), Some(&end.inode.to_string()[..]), "{line:?}");
        }
        let tcp = ss::lines(net_path.client(), "-t");
        let subflow = pair.client.local.unwrap().to_string();
        wait_until("the subflow", || tcp.iter().any(|line| line.local == subflow));
    }
}
