//! Processes that hold sockets: names, users, groups, shared sockets.

use super::ss;
use sockeye_lab::{Lab, Process, SocketOptions, State, need, program};
use std::io::Write;
use std::process::{Command, Stdio};

/// The inodes of a process's sockets, by its descriptors.
fn inodes(process: &Process) -> Vec<u64> {
    let descriptors = std::fs::read_dir(format!("/proc/{}/fd", process.pid())).unwrap();
    let links = descriptors.filter_map(|entry| std::fs::read_link(entry.unwrap().path()).ok());
    let socket = |link: std::path::PathBuf| {
        link.to_str()?
            .strip_prefix("socket:[")?
            .strip_suffix(']')?
            .parse()
            .ok()
    };
    links.filter_map(socket).collect()
}

#[test]
fn comm_may_have_escapes_and_newlines() {
    let lab = need!(Lab::new("evil"));
    let namespace = lab.namespace("one");
    let evil = "evil\x1b[31m\nname";
    let process = lab
        .process(evil)
        .in_namespace(&namespace)
        .tcp_listen("0.0.0.0:0")
        .start();
    assert_eq!(process.comm(), evil.as_bytes());
    assert_eq!(
        std::fs::read(format!("/proc/{}/comm", process.pid())).unwrap(),
        format!("{evil}\n").as_bytes()
    );
    assert_eq!(inodes(&process), [process.sockets()[0].inode]);
    ss::check(&process.sockets()[0]);
    let long = lab.process("a-name-of-more-than-15-bytes").start();
    assert_eq!(long.comm(), b"a-name-of-more-");
}

#[test]
fn process_of_another_user_and_group_opens_all_sockets() {
    let lab = need!(Lab::new("other_user"));
    let namespace = lab.namespace("one");
    let path = lab.unix_path("other\nuser");
    let hidden = lab.unix_abstract("other_user");
    let listener = namespace.tcp_listener("[::]:0", &SocketOptions::new());
    let to = format!("[::1]:{}", listener.port()).parse().unwrap();
    let process = lab
        .process("other_user")
        .in_namespace(&namespace)
        .user(65534, 65534)
        .own_group()
        .tcp_listen("[::1]:0")
        .tcp_connect(to)
        .tcp_pair("127.0.0.1:0")
        .udp_bind("0.0.0.0:0")
        .udp_connect("127.0.0.1:53".parse().unwrap())
        .unix_listen(&path)
        .unix_listen(&hidden)
        .start();
    assert_eq!((process.group(), process.uid()), (process.pid(), 65534));
    let sockets = process.sockets();
    assert_eq!(sockets.len(), 9);
    let mut expected: Vec<u64> = sockets.iter().map(|lab_socket| lab_socket.inode).collect();
    let mut found = inodes(&process);
    expected.sort_unstable();
    found.sort_unstable();
    assert_eq!(found, expected);
    for lab_socket in &sockets[..7] {
        assert_eq!((lab_socket.uid, lab_socket.pid), (65534, Some(process.pid())));
        ss::check(lab_socket);
    }
    assert_eq!(
        (sockets[7].name.as_ref(), sockets[8].name.as_ref()),
        (Some(&path), Some(&hidden))
    );

    let accepted = listener.accept();
    assert_eq!(
        (accepted.peer, accepted.state),
        (sockets[1].local, State::Established)
    );
}

#[test]
fn socket_is_shared_by_two_processes() {
    need!(program("ss"));
    let lab = need!(Lab::new("shared"));
    let namespace = lab.namespace("one");
    let listener = namespace.tcp_listener("127.0.0.1:0", &SocketOptions::new());
    let inode = listener.inode;
    let first = lab.process("first").sharing(&listener).start();
    let second = lab.process("second").taking(listener).start();
    assert_eq!((inodes(&first), inodes(&second)), (vec![inode], vec![inode]));
    let lab_socket = &second.sockets()[0];
    assert_eq!((lab_socket.pid, lab_socket.inode), (Some(second.pid()), inode));
    assert!(lab_socket.fd().is_none());
    let outcome = namespace.output("ss", &["-Htlnp"]);
    for process in [&first, &second] {
        assert!(outcome.contains(&format!("pid={},", process.pid())), "{outcome}");
    }
    assert!(
        !outcome.contains(&format!("pid={},", std::process::id())),
        "this process let go: {outcome}"
    );
    first.end();
    second.end();
    assert_eq!(namespace.tcp_rows(), []);
}

#[test]
fn a_holder_ends_with_its_parent() {
    let holder = || {
        Command::new(env!("LAB_HOLDER"))
            .arg("x")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
    };
    let mut child = holder().unwrap();
    child.stdin.take().unwrap().write_all(b"not the end yet").unwrap();
    assert!(child.wait().unwrap().success());
}
