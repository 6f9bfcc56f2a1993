//! `ss` and our reading of its language, put to the same test.
//!
//! The version it is written after is 6.1.0; others are not asked.

use super::generate::{Names, Rng, socket, subject};
use super::live::{Sockets, dump};
use sockeye_filter::ss::{self, Context, Filter, ParseError};
use sockeye_filter::{KernelFeatures, Resolve};
use sockeye_model::{
    CgroupId, Endpoint, Entry, Family, Inode, InterfaceIndex, Protocol, Socket, State, StateSet, UnixName,
};
use sockeye_wire::bytecode::run;
use std::collections::BTreeSet;
use std::net::IpAddr;
use std::process::{Command, Output};
use std::sync::LazyLock;

/// Knows of this host what every host has.
struct Here;

impl Resolve for Here {
    fn service_of(&self, protocol: Protocol, name: &str) -> Option<u16> {
        match (name, protocol) {
            ("ssh", Protocol::Tcp) => Some(22),
            ("https", Protocol::Tcp) => Some(443),
            _ => None,
        }
    }
    fn host(&self, name: &str) -> Vec<IpAddr> {
        match name {
            "localhost" => vec![[127, 0, 0, 1].into()],
            _ => Vec::new(),
        }
    }
    fn interface(&self, name: &str) -> Option<InterfaceIndex> {
        (name == "lo").then_some(InterfaceIndex(1))
    }
    fn cgroup(&self, _: &str) -> Option<CgroupId> {
        None
    }
}

const TCP: Context = Context {
    preferred: None,
    udp: false,
    tcp: true,
    since_6_15: false,
};

fn read(text: &str, context: &Context) -> Result<Filter, ParseError> {
    ss::parse(&[text.to_owned()], None, context, &Here)
}

/// `None`, aloud, where there is no `ss` of that version.
fn ask(options: &str, words: &[&str]) -> Option<Output> {
    static VERSION: LazyLock<Result<(), String>> = LazyLock::new(|| {
        let output = Command::new("ss").arg("-V").output();
        let output = output.map_err(|error| error.to_string())?;
        let version = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        match version.ends_with("iproute2-6.1.0") {
            true => Ok(()),
            false => Err(format!("{version} is another one")),
        }
    });
    if let Err(reason) = &*VERSION {
        println!("SKIP: ss: {reason}");
        return None;
    }
    Some(Command::new("ss").arg(options).args(words).output().unwrap())
}

/// Whether `ss` ends as we say it would; `None`: there is none.
fn ends_alike(text: &str) -> Option<Result<(), String>> {
    let output = ask("-tH", &[text])?;
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    let (code, expected) = match read(text, &TCP) {
        // The tables of other families are not read.
        Ok(filter) if filter.is_refused() && may_be_inet(&filter) => {
            (0, "RTNETLINK answers: Invalid argument\n".repeat(2))
        }
        Ok(_) => (0, String::new()),
        Err(error) => (error.exit_code().into(), format!("{error}\n")),
    };
    let shows_usage = read(text, &TCP).is_err_and(|error| error.shows_usage());
    let said = match stderr.find("Usage: ss [ OPTIONS ]") {
        Some(usage) if shows_usage => &stderr[..usage],
        _ => &stderr,
    };
    // Of an address evaluated as the name of a UNIX socket ss may die, if a socket has the wrong one; nothing can be
    // compared then.
    let died = output.status.code().is_none() && code == 0;
    Some(
        if died || (output.status.code() == Some(code) && said == expected) {
            Ok(())
        } else {
            let ours = read(text, &TCP).map(|filter| filter.to_string());
            Err(format!(
                "{text:?}: {:?} {said:?}, ours {code} {ours:?}",
                output.status
            ))
        },
    )
}

fn may_be_inet(filter: &Filter) -> bool {
    matches!(filter.family(), None | Some(Family::Inet | Family::Inet6))
}

#[test]
fn ss_accepts_the_same_expressions() {
    for text in EXPRESSIONS {
        match ends_alike(text) {
            None => return,
            Some(Ok(())) => {}
            Some(Err(difference)) => panic!("{difference}"),
        }
    }
}

const EXPRESSIONS: &[&str] = &[
    "",
    "   ",
    "foo",
    "10.0.0.1",
    "src",
    "src )",
    "src = = 10",
    "src > 10",
    "src != 10",
    "src 10",
    "src 10/33",
    "src 10.1.2.3.4",
    "src 10.0.0.0/255.0.255.0",
    "src 10.0.0.0/any",
    "src any/8",
    "src default",
    "src 256",
    "src 10.256",
    "src 4294967296",
    "src 08",
    "src 0x100",
    "src -1",
    "src localhost",
    "src localhost:ssh",
    "src inet6:10.0.0.1",
    "src inet:[::1]",
    "src ::1",
    "src ::",
    "src [::1",
    "src [::1]x",
    "src [::1]80",
    "src *80",
    "src *x",
    "src \\",
    "src :",
    "src ::1/129",
    "src fe80::/10",
    "src fe80::1%lo",
    "sport",
    "sport x",
    "sport 0x50",
    "sport 080",
    "sport 65536",
    "sport -1",
    "sport 99999999999",
    "sport :ssh",
    "sport = [80]",
    "sport = [80",
    "sport = 10.0.0.1:80",
    "sport = *x",
    "sport = and",
    "sport = 80 81",
    "sport = 80 and",
    "sport = 80 or or",
    "( sport = 80",
    "sport = 80 )",
    "( sport = 80 )",
    "(sport = 80)",
    "( )",
    "! sport = 80",
    "!sport = 80",
    "not",
    "dport ge 80 and dport le 90",
    "dport geq ssh",
    "dport => 80",
    "dev lo",
    "dev nosuch",
    "dev 4294967295",
    "dev 4294967296",
    "dev -1",
    "dev if7x",
    "dev if",
    "dev > 1",
    "dev \\",
    "fwmark x",
    "fwmark 1/x",
    "fwmark x/1",
    "fwmark 1x/1",
    "fwmark /1",
    "cgroup /no/such/group",
    "cgroup \\",
    "cgroup > x",
    "autobound",
    "autobound 80",
    "autobound = 80",
    "autobound x",
    "src unix:/x",
    "src unix:/x src inet:*",
    "src link:ip:nosuch",
    "src link:nosuch",
    "src link:ip:lo",
    "src netlink:genl:x",
    "src netlink:256",
    "src netlink:-1",
    "src netlink:genl:kernel",
    "src netlink:route",
    "src vsock:3:",
    "src vsock:x:3",
    "src vsock:3:-1",
    "src vsock:3:4294967295",
    "sport = vsock:",
    "sport = link:",
    "src netlink:genl src inet:*",
    "src vsock:3:3 dev 1 src inet:*",
];

#[test]
fn ss_accepts_the_same_random_tokens() {
    const TOKENS: &[&str] = &[
        "src",
        "dst",
        "sport",
        "dport",
        "dev",
        "fwmark",
        "autobound",
        "and",
        "or",
        "not",
        "(",
        ")",
        "!",
        "=",
        "!=",
        ">=",
        "lt",
        "10.0.0.1",
        "80",
        "[::1]:80",
        "inet6:*",
        "inet:10",
        "\\(",
        "1/8",
        ":80",
        "*",
        "[::1",
        "dport = 80",
        "src 10",
        "( dev 1 )",
        "= 7",
    ];
    let mut rng = Rng(11);
    let (mut good, mut bad) = (0, 0);
    for _ in 0..400 {
        let tokens: Vec<_> = (0..=rng.below(5)).map(|_| rng.pick(TOKENS)).collect();
        let text = tokens.join(" ");
        match ends_alike(&text) {
            None => return,
            Some(Ok(())) => {}
            Some(Err(difference)) => panic!("{difference}"),
        }
        if read(&text, &TCP).is_ok() {
            good += 1;
        } else {
            bad += 1;
        }
    }
    assert!(good > 10 && bad > 100, "{good} {bad}");
}

/// Bison's stack, where it ends.
#[test]
fn ss_has_the_same_length_limit() {
    for (count, rest) in [
        (9995, "src = *"),
        (9996, "src = *"),
        (9997, "autobound"),
        (9998, "autobound"),
        (9998, ""),
        (9999, ""),
    ] {
        match ends_alike(&format!("{}{rest}", "( ".repeat(count))) {
            None => return,
            Some(ended) => assert_eq!(ended, Ok(()), "{count} {rest}"),
        }
    }
}

#[test]
fn ss_reads_filter_files_the_same_way() {
    let path = std::env::temp_dir().join(format!("sockeye-filter-{}", std::process::id()));
    for file in [
        "",
        "\n\n# x\nsport = 80\n0 x\n",
        "sport\n=\n80",
        "sport = 80\nx",
        " # x\n",
        &format!("{}\n", " ".repeat(1021)),
        &format!("{}\n", " ".repeat(1022)),
        &" ".repeat(1022),
        &" ".repeat(1023),
        &format!(")\n{}\n", "#".repeat(1022)),
    ] {
        std::fs::write(&path, file).unwrap();
        let Some(output) = ask("-tHF", &[path.to_str().unwrap(), "sport != 1"]) else {
            return;
        };
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let (code, expected) = match ss::parse(&["sport != 1".to_owned()], Some(file), &TCP, &Here) {
            Ok(_) => (0, String::new()),
            Err(error) => (error.exit_code().into(), format!("{error}\n")),
        };
        assert_eq!(output.status.code(), Some(code), "{file:?} {said}");
        assert!(
            said.starts_with(&expected) && expected.is_empty() == said.is_empty(),
            "{file:?} {said}"
        );
    }
    std::fs::remove_file(&path).unwrap();
}

/// What the kernel listed and we accept is what `ss` lists.
#[test]
fn ss_lists_the_same_inet_sockets() {
    if ask("-V", &[]).is_none() {
        return;
    }
    let sockets = Sockets::make();
    let mut rng = Rng(12);
    let mut found = 0;
    let ports: Vec<u16> = sockets.ports.iter().copied().collect();
    for round in 0..300 {
        let text = match LISTED.get(round) {
            Some(text) => text
                .replace("PORT0", &sockets.listening[0].to_string())
                .replace("PORT3", &sockets.listening[3].to_string()),
            None => random(&mut rng, &ports),
        };
        let filter = read(&text, &TCP).unwrap_or_else(|error| panic!("{text}: {error}"));
        let program = filter.kernel().program(KernelFeatures::FULL);
        assert!(program.exact, "{text}");
        let mut agreed = false;
        for _ in 0..3 {
            let listed = match dump(&program.bytecode, StateSet::ALL) {
                // As `ss` then does.
                Err(1) if filter.needs().mark => dump(&[], StateSet::ALL),
                listed => listed,
            };
            let ours: BTreeSet<_> = listed
                .unwrap()
                .iter()
                .filter(|socket| filter.family().is_none_or(|family| family == socket.family))
                .filter(|socket| sockets.is_ours(socket) && filter.accepts(socket))
                .map(|socket| {
                    let port = |end: Endpoint| end.port().map_or(0, |port| port.0);
                    (socket.state.to_string(), port(socket.local), port(socket.peer))
                })
                .collect();
            let theirs: BTreeSet<_> = super::live::ss(&text)
                .into_iter()
                .filter(|(_, local, peer)| {
                    sockets.listening.contains(local) || sockets.listening.contains(peer)
                })
                .collect();
            found += ours.len();
            agreed = ours == theirs;
            if agreed {
                break;
            }
            eprintln!("{text}\nours {ours:?}\nss's {theirs:?}");
        }
        assert!(agreed, "{text}");
    }
    assert!(found > 1000, "{found}");
}

/// Where the two judgements, or `ss` and anybody's expectation, part.
const LISTED: &[&str] = &[
    "",
    "src 0.0.0.0",
    "not src 0.0.0.0",
    "src ::/0",
    "not src ::/0",
    "not src 0/0",
    "dev = 0 src 0.0.0.0",
    "dev 0 or sport 1",
    "dev != 0",
    "src [::ffff:127.0.0.1]",
    "not src [::ffff:127.0.0.1]",
    "src [7f00:1::]",
    "src inet6:*",
    "src inet:*",
    "src inet6:any",
    "not src inet6:any",
    "src inet:any sport != PORT0",
    "src inet6:[::1] or sport = inet:PORT0",
    "src netlink:rtnl src inet6:*",
    "src 127 or src netlink:rtnl or src inet:10",
    "autobound",
    "not autobound",
    "dev 0 autobound",
    "dev 0 not autobound",
    "sport >= *",
    "sport > *",
    "sport <= *",
    "sport = -1",
    "sport >= 65536",
    "sport <= 131071",
    "sport = 65616",
    "dst localhost",
    "not dst localhost",
    "fwmark 0",
    "fwmark != 0",
    "fwmark 0/1 or autobound",
    "sport PORT0 or sport PORT3 and dport PORT0",
    "sport PORT0 or ( sport PORT3 and src [::1] )",
    "! ! src 127",
    "! ( src 127 or not dst ::/0 )",
];

fn random(rng: &mut Rng, ports: &[u16]) -> String {
    let mut text = String::new();
    let mut open = 0;
    for place in 0..=rng.below(4) {
        if place > 0 {
            text.push_str(rng.pick(&[" and ", " or ", " ", " or "]));
        }
        if rng.one_in(3) {
            text.push_str("not ");
        }
        if rng.one_in(4) {
            text.push_str("( ");
            open += 1;
        }
        let port = rng.pick(ports);
        text.push_str(&match rng.below(8) {
            0 | 1 => format!(
                "{} {} {port}",
                rng.pick(&["sport", "dport"]),
                rng.pick(&["=", "!=", "<", ">=", "gt"])
            ),
            2 => "autobound".into(),
            3 if rng.one_in(3) => rng.pick(&["dev = 0", "dev != lo"]).into(),
            4 => format!("src *:{port}"),
            _ => format!(
                "{} {}",
                rng.pick(&["src", "dst"]),
                rng.pick(&[
                    "127.0.0.1",
                    "127.0.0.2",
                    "127/8",
                    "0/0",
                    "::/0",
                    "[::1]",
                    "0.0.0.0",
                    "[::]",
                    "::ffff:0:0/96:*"
                ])
            ),
        });
        if open > 0 && rng.one_in(2) {
            text.push_str(" )");
            open -= 1;
        }
    }
    text + &" )".repeat(open)
}

/// The listing without a filter is what the filter is then tried on.
#[test]
fn ss_lists_the_same_other_sockets() {
    for (options, of_line, expressions) in [
        ("-Hxan", unix as fn(&[&str]) -> Option<Socket>, UNIX),
        ("-HanAunix", unix, UNIX_NUMBERS),
        ("-HanAnetlink", netlink, NETLINK),
    ] {
        let preferred = (options == "-Hxan").then_some(Family::Unix);
        let context = Context {
            preferred,
            udp: false,
            tcp: false,
            since_6_15: false,
        };
        let lines = |words: &[&str]| {
            let output = ask(options, words)?;
            let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
            // Without what changes from one moment to the next: the queues, and how wide columns are.
            let narrow = |line: &str| {
                let mut columns: Vec<_> = line.split_whitespace().collect();
                let is_number = |column: &&str| column.parse::<u32>().is_ok();
                if let Some(queue) = columns.iter().position(is_number) {
                    columns.drain(queue..(queue + 2).min(columns.len()));
                }
                columns.join(" ")
            };
            Some(stdout.lines().map(narrow).collect::<BTreeSet<_>>())
        };
        let Some(before) = lines(&[]) else { return };
        let sample = before.iter().next().cloned().unwrap_or_default();
        let number = sample
            .split_whitespace()
            .find(|word| word.len() > 3 && word.parse::<u32>().is_ok());
        let mut found = 0;
        for text in expressions {
            let text = text.replace("NUMBER", number.unwrap_or("1"));
            let filter = read(&text, &context).unwrap_or_else(|error| panic!("{text}: {error}"));
            let mut differing = Vec::new();
            for _ in 0..3 {
                let (before, theirs) = (lines(&[]).unwrap(), lines(&[&text]).unwrap());
                let after = lines(&[]).unwrap();
                // What is there all the time
                differing = before
                    .intersection(&after)
                    .filter_map(|line| Some((line, of_line(&line.split(' ').collect::<Vec<_>>())?)))
                    .inspect(|_| found += 1)
                    .filter(|(line, socket)| filter.accepts(socket) != theirs.contains(*line))
                    .map(|(line, _)| line.clone())
                    .collect();
                if differing.is_empty() {
                    break;
                }
            }
            assert!(differing.is_empty(), "{options} {text}: {differing:#?}");
        }
        if found == 0 {
            println!("SKIP: ss {options} lists nothing");
        }
    }
}

/// `u_str LISTEN /run/x 4711 * 0`
fn unix(columns: &[&str]) -> Option<Socket> {
    let [_, _, name, inode, _, peer] = columns else {
        return None; // a name with blanks
    };
    let mut socket = Socket::new(Protocol::UnixStream, State::Established);
    socket.family = Family::Unix;
    let inode = Some(Inode(inode.parse().ok()?));
    let name = (*name != "*").then(|| match name.strip_prefix('@') {
        Some(rest) => UnixName::joined(b"\0", rest.as_bytes()),
        None => UnixName::new(name.as_bytes()),
    });
    socket.inode = inode;
    socket.local = Endpoint::Unix { name, inode };
    socket.peer = Endpoint::Unix {
        name: None,
        inode: Some(Inode(peer.parse().ok()?)),
    };
    Some(socket)
}

/// `UNCONN 16:-4100 *`
fn netlink(columns: &[&str]) -> Option<Socket> {
    let local = columns.iter().find(|column| column.contains(':'))?;
    let (protocol, port) = local.split_once(':')?;
    let mut socket = Socket::new(Protocol::Netlink, State::Close);
    socket.family = Family::Netlink;
    socket.local = Endpoint::Netlink {
        protocol: protocol.parse().ok()?,
        port: if port == "*" {
            -1
        } else {
            port.parse::<i32>().ok()?
        }
        .cast_unsigned(),
        group: None,
    };
    Some(socket)
}

const UNIX: &[&str] = &[
    "",
    "src *",
    "src ?*",
    "src \\",
    "src unix:/RUN/*",
    "src /*",
    "src @*",
    "not src /* not src @*",
    "dst *",
    "dst ?*",
    "sport x",
    "sport >= 5",
    "sport <= 5",
    "autobound",
    "not autobound",
    "dev 0 fwmark 0",
    "src *[0-9]* or src [/]tmp*",
];

const UNIX_NUMBERS: &[&str] = &[
    "sport = NUMBER",
    "sport != NUMBER",
    "sport > NUMBER",
    "dport > NUMBER",
    "dport = 0",
    "sport >= *",
    "src 0/0",
    "src *:NUMBER",
    "not autobound sport < NUMBER",
];

const NETLINK: &[&str] = &[
    "",
    "sport = 0",
    "sport < 0",
    "sport > 0",
    "dport = 0",
    "dport < 0",
    "autobound",
    "src 0.0.0.0",
    "src 16.0.0.0",
    "src 0/8",
    "dst 0.0.0.0",
    "src netlink:genl",
    "src netlink:rtnl:kernel or src netlink:15",
    "src netlink:*:0",
    "sport = netlink:kernel",
    "src netlink:genl src netlink:0 or src netlink:genl",
    "dev 0 fwmark 0",
];

#[test]
fn random_tokens_do_not_panic() {
    const PIECES: &[&str] = &[
        "src",
        "dst",
        "sport",
        "dport",
        "dev",
        "fwmark",
        "cgroup",
        "autobound",
        "and",
        "or",
        "not",
        "(",
        ")",
        "!",
        "=",
        "!=",
        ">",
        "le",
        "&&",
        "|",
        "unix:",
        "link:",
        "netlink:",
        "vsock:",
        "inet:",
        "inet6:",
        ":",
        "::",
        "/",
        "[",
        "]",
        "*",
        "\\",
        " ",
        "\t",
        "\n",
        "\0",
        "10",
        "1.2.3.4",
        "80",
        "-1",
        "0x",
        "08",
        "65536",
        "4294967295",
        "99999999999999999999",
        "-9223372036854775808",
        "kernel",
        "genl",
        "if",
        "é",
        "lo",
        "web",
        "any",
        "default",
        "#",
        "0",
        "%",
        "\u{202e}",
    ];
    let mut rng = Rng(13);
    let (mut good, mut bad) = (0, 0);
    for _ in 0..60_000 {
        let text = |rng: &mut Rng| {
            let mut text = String::new();
            for _ in 0..rng.below(9) {
                text.push_str(rng.pick(PIECES));
                if rng.one_in(2) {
                    text.push(' ');
                }
            }
            text
        };
        let words: Vec<_> = (0..rng.below(3)).map(|_| text(&mut rng)).collect();
        let file = rng.one_in(4).then(|| text(&mut rng));
        let family = rng.pick(&[0, 1, 2, 10, 16, 17, 30, 40]);
        let context = Context {
            preferred: (family != 0).then(|| Family::from_number(family)),
            udp: rng.one_in(2),
            tcp: rng.one_in(2),
            since_6_15: false,
        };
        match ss::parse(&words, file.as_deref(), &context, &Names) {
            Ok(filter) => {
                good += 1;
                for _ in 0..4 {
                    let socket = socket(&mut rng);
                    let accepted = filter.accepts(&socket);
                    assert!(accepted || !filter.is_empty());
                }
                assert!(filter.kernel().program(KernelFeatures::FULL).exact, "{words:?}");
                let _ = (filter.to_string(), filter.needs(), filter.is_refused());
            }
            Err(error) => {
                bad += 1;
                let explanation = error.explanation();
                let harmful = ['\0', '\n', '\t', '\u{202e}'];
                assert!(!explanation.contains(harmful), "{explanation:?}");
                assert!(!error.to_string().is_empty() && error.exit_code() != 0);
            }
        }
    }
    assert!(good > 1000 && bad > 10_000, "{good} {bad}");
}

/// The kernel's part selects the same sockets, run as a program and as our own filter.
#[test]
fn kernel_program_selects_the_same_as_its_filter() {
    let mut rng = Rng(14);
    let mut accepted = 0;
    for _ in 0..3000 {
        let text = random(&mut rng, &[0, 22, 80, 32768, 65535]).replace("autobound", "fwmark 1/1");
        let filter = read(&text, &TCP).unwrap();
        let program = filter.kernel().program(KernelFeatures::FULL);
        for _ in 0..5 {
            let socket = socket(&mut rng);
            let Some(subject) = subject(&socket) else { continue };
            let listed = run(&program.bytecode, &subject);
            assert_eq!(listed, filter.kernel().matches(&Entry::new(&socket)), "{text}");
            accepted += usize::from(listed && filter.accepts(&socket));
        }
    }
    assert!(accepted > 500, "{accepted}");
}
