//! Behaviour of `sockeye netstat` apart from its listings: options and errors, terminals, unprivileged users, closed
//! output, full disks, continuous output.

use super::peer::{self, Outcome, SOCKEYE, both, compare, compare_with};
use crate::fixtures::terminal::Terminal;
use sockeye_lab::{Lab, Namespace, SocketOptions, UnixKind, need, program};
use std::fs::OpenOptions;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::symlink;
use std::process::{Command, Stdio};

#[test]
fn options_and_errors_are_those_of_netstat() {
    need!(peer::netstat());
    let lab = need!(Lab::new("netoptions"));
    let here = lab.namespace("here");
    let _listener = here.tcp_listener("127.0.0.1:0", &SocketOptions::new());
    for line in [
        "-h",
        "--help",
        "-V",
        "--version",
        "-?",
        "-G",
        "-tG",
        "--nope",
        "--nope=3",
        "--n",
        "--nu",
        "--num",
        "--in",
        "--ine",
        "--i",
        "--a",
        "--s",
        "--t",
        "--ud",
        "--udpl",
        "--ti",
        "--f",
        "--l",
        "--li -n",
        "--tcp=3",
        "-A",
        "-A foo",
        "-A inet,foo",
        "-Aunix -n",
        "-A inet -t -n",
        "--protocol",
        "--protocol=inet -n",
        "--prot unix",
        "-i -r",
        "-rs",
        "-Mi",
        "-M",
        "-cM",
        "--masquerade",
        "-Z",
        "--context",
        "-A ax25",
        "-A ipx",
        "-A x25",
        "-A rose",
        "-A netrom",
        "-A ddp -n",
        "-A econet -n",
        "-A ash -n",
        "-A bluetooth",
        "--bluetooth",
        "--l2cap",
        "-2",
        "-f",
        "--rfcomm",
        "--ax25",
        "--ipx",
        "--netrom",
        "--rose",
        "--x25",
        "--appletalk -n",
        "--ddp -n",
        "--tcpip -n",
        "--ip -n",
        "-S",
        "-SU",
        "-tS",
        "-Sx",
        "-d -n",
        "-dt -n",
        "-tn operand another",
        "-tn -- -u",
        "-C -n",
        "-F -n",
        "-vn",
        "-van",
        "-vtn",
        "-vxn",
        "-A ax25,ipx",
        "-tA ax25",
        "--sctp --verbose",
        "-V -G",
        "-G -V",
        "-h -A foo",
        "-A foo -h",
        "--wide --numeric --listening",
        "--extend --timers -n",
        "--programs --raw --all -n",
        "--udplite",
        "--symbolic -t",
        "--fib -r",
        "--cache -r",
        "-:",
        "-Wn",
        "- -n",
    ] {
        compare(&here, line, None);
    }
    // Where words are not cut at blanks.
    for words in [&["-A", ""][..], &["-A", "in et"], &["--=3"], &[""], &["-tn", " "]] {
        compare_with(words, None, &|command| {
            here.run(|| command.output()).unwrap().into()
        });
    }
}

#[test]
fn link_named_netstat_works() {
    let lab = need!(Lab::new("netlink"));
    let link = lab.directory().join("netstat");
    symlink(SOCKEYE, &link).unwrap();
    let output = Command::new(&link).arg("-V").output().unwrap();
    assert!(output.stdout.starts_with(b"net-tools 2.10\n"));
}

#[test]
fn unknown_source_is_refused_with_the_known_ones() {
    let output = Command::new(SOCKEYE)
        .args(["netstat", "--source", "disk"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(3));
    assert_eq!(
        String::from_utf8_lossy(&output.stderr),
        "netstat: --source is one of auto, bpf, diag, diag-v2, procfs\n"
    );
}

#[test]
fn terminal_width_does_not_change_the_output() {
    need!(peer::netstat());
    let lab = need!(Lab::new("netwidths"));
    let here = lab.namespace("here");
    let _pair = here.loopback().established();
    let _six = here.loopback6().established();
    let _named = here.unix_bound(
        UnixKind::Stream,
        &lab.unix_abstract("a-name-longer-than-twenty-columns"),
    );
    for line in ["-an", "-aneop", "-anW", "-r", "-i", "-ie", "-s", "-g"] {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (mut real, mut ours) = both(&words, None);
        for columns in [0, 20, 80, 500] {
            for command in [&mut real, &mut ours] {
                command.env("COLUMNS", columns.to_string());
            }
            let expected = on_terminal(&here, columns, &mut real);
            let found = on_terminal(&here, columns, &mut ours);
            assert_eq!(found, expected, "{line}, {columns} columns");
        }
    }
}

#[test]
fn control_characters_reach_only_pipes() {
    need!(peer::netstat());
    let lab = need!(Lab::new("netescape"));
    let here = lab.namespace("here");
    let _named = here.unix_bound(UnixKind::Stream, &lab.unix_abstract(b"\x1b[2J\x9b1m"));
    compare(&here, "-anx", None);
    let (_, mut ours) = both(&["-anx"], None);
    let text = on_terminal(&here, 80, &mut ours);
    assert!(
        text.contains("\\x1b[2J\\x9b1m") && !text.contains('\x1b'),
        "{text}"
    );
}

#[test]
fn unprivileged_output_is_that_of_netstat() {
    need!(peer::netstat());
    let lab = need!(Lab::new("netnobody"));
    let setpriv = need!(program("setpriv"));
    let here = lab.namespace("here");
    let binary = lab.copy_for_all_users(SOCKEYE.as_ref());
    let unprivileged = |command: &Command| -> Outcome {
        let mut inside = Command::new(&setpriv);
        inside.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
        let own = command.get_program() == SOCKEYE;
        inside.arg(if own {
            binary.as_os_str()
        } else {
            command.get_program()
        });
        inside
            .args(command.get_args())
            .env("LC_ALL", "C")
            .stdin(Stdio::null());
        here.run(|| inside.output()).unwrap().into()
    };
    let _other = lab
        .process("other")
        .in_namespace(&here)
        .tcp_pair("127.0.0.1:0")
        .start();
    let lines = [
        "-an", "-atnp", "-lnp", "-aneo", "-s", "-r", "-i", "-ie", "-g", "-xap",
    ];
    let check = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        compare_with(&words, None, &|command| unprivileged(command));
    };
    lines.iter().for_each(|line| check(line));
    let _own = lab
        .process("own")
        .in_namespace(&here)
        .user(65534, 65534)
        .tcp_pair("127.0.0.1:0")
        .unix_listen(&lab.unix_path("own"))
        .start();
    lines.iter().for_each(|line| check(line));
}

#[test]
fn closed_output_exits_0_and_a_full_disk_fails() {
    let lab = need!(Lab::new("netpipe"));
    let here = lab.namespace("here");
    let (_, mut ours) = both(&["-an"], None);
    let (reader, writer) = rustix::pipe::pipe().unwrap();
    drop(reader);
    let output = here
        .run(|| {
            ours.stdout(writer)
                .stderr(Stdio::piped())
                .spawn()
                .unwrap()
                .wait_with_output()
        })
        .unwrap();
    assert_eq!((output.status.code(), output.stderr), (Some(0), Vec::new()));
    let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
    let output = here
        .run(|| ours.stdout(full).spawn().unwrap().wait_with_output())
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(
        String::from_utf8_lossy(&output.stderr),
        "netstat: write to standard output: No space left on device (os error 28)\n"
    );
}

#[test]
fn continuous_output_ends_with_its_reader() {
    let lab = need!(Lab::new("netrounds"));
    let here = lab.namespace("here");
    for (line, first) in [
        ("-ctn", "Active Internet connections (w/o servers)"),
        ("-rcn", "Kernel IP routing table"),
        (
            "-icn",
            "Iface             MTU    RX-OK RX-ERR RX-DRP RX-OVR    TX-OK TX-ERR TX-DRP TX-OVR Flg",
        ),
    ] {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (_, mut ours) = both(&words, None);
        let mut child = here.run(|| ours.stdout(Stdio::piped()).spawn()).unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        for _ in 0..2 {
            assert!(lines.any(|line| line.unwrap() == first), "{line}");
        }
        drop(lines);
        assert_eq!(child.wait().unwrap().code(), Some(0), "{line}");
    }
}

/// Runs it on a terminal of its own and gives all that the terminal got.
#[track_caller]
fn on_terminal(namespace: &Namespace, columns: u16, command: &mut Command) -> String {
    let terminal = Terminal::new(columns);
    command.stdout(terminal.stdio()).stderr(Stdio::null());
    let mut child = namespace.run(|| command.spawn()).unwrap();
    command.stdout(Stdio::null());
    let text = terminal.read_to_end();
    assert!(child.wait().unwrap().success());
    let text = String::from_utf8(text).unwrap();
    let mut lines: Vec<&str> = text.split("\r\n").collect();
    lines.sort_unstable();
    lines.join("\n")
}
