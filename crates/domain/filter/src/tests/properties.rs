//! What must be true of every filter and every socket.

use super::generate::{Names, Pool, Rng, owners, socket, subject};
use sockeye_filter::{Filter, KernelFeatures, NoResolve, parse};
use sockeye_model::Entry;
use sockeye_wire::bytecode::{audit, run};

const KERNELS: [KernelFeatures; 3] = [
    KernelFeatures::FULL,
    KernelFeatures::UNPRIVILEGED,
    KernelFeatures::OLDEST,
];

fn filter(text: &str) -> Filter {
    parse(text, &Names).unwrap_or_else(|error| panic!("{}", error.render(text)))
}

#[test]
fn program_accepts_what_the_tree_accepts() {
    let (mut rng, pool) = (Rng(1), Pool::default());
    let (mut exact, mut partial, mut accepted, mut rejected) = (0, 0, 0, 0);
    for _ in 0..4000 {
        let text = pool.filter(&mut rng);
        let filter = filter(&text);
        for kernel in KERNELS {
            let program = filter.program(kernel);
            if !program.bytecode.is_empty() {
                audit(&program.bytecode, kernel.net_admin)
                    .unwrap_or_else(|fault| panic!("{text}: {fault:?}"));
            }
            if program.exact {
                exact += 1;
            } else {
                partial += usize::from(!program.bytecode.is_empty());
            }
            for _ in 0..12 {
                let socket = socket(&mut rng);
                let Some(subject) = subject(&socket) else { continue };
                let owners = owners(&mut rng);
                let entry = Entry::with_owners(&socket, owners.as_deref());
                let matches = filter.matches(&entry);
                let listed = filter.states().is_none_or(|states| states.contains(socket.state))
                    && run(&program.bytecode, &subject);
                assert!(listed || !matches, "{text}: the program loses {socket:?}");
                assert!(
                    !program.exact || listed == matches,
                    "{text}: not exact for {socket:?}"
                );
                if listed {
                    accepted += 1;
                } else {
                    rejected += 1;
                }
            }
        }
    }
    // The generator has to produce all cases for this to mean anything.
    assert!(exact > 1000 && partial > 500 && accepted > 10_000 && rejected > 10_000);
}

#[test]
fn printed_filter_parses_back() {
    let (mut rng, pool) = (Rng(2), Pool::default());
    for _ in 0..20_000 {
        let text = pool.filter(&mut rng);
        let once = filter(&text);
        let printed = once.to_string();
        let twice =
            parse(&printed, &Names).unwrap_or_else(|error| panic!("{text}\n{}", error.render(&printed)));
        assert_eq!(once, twice, "{text}\n{printed}");
        assert_eq!(printed, twice.to_string());
    }
}

#[test]
fn requested_states_and_protocols_suffice() {
    let (mut rng, pool) = (Rng(3), Pool::default());
    for _ in 0..5000 {
        let text = pool.filter(&mut rng);
        let filter = filter(&text);
        for _ in 0..10 {
            let socket = socket(&mut rng);
            if filter.matches(&Entry::new(&socket)) {
                assert!(
                    filter.states().is_none_or(|states| states.contains(socket.state)),
                    "{text}: {socket:?}"
                );
                assert!(filter.may_match(socket.protocol), "{text}: {socket:?}");
                if let Some(netns) = socket.netns {
                    assert!(filter.may_match_in(netns), "{text}: {socket:?}");
                }
            }
        }
    }
}

#[test]
fn combined_filter_matches_the_intersection() {
    let (mut rng, pool) = (Rng(4), Pool::default());
    for _ in 0..3000 {
        let (a, b) = (filter(&pool.filter(&mut rng)), filter(&pool.filter(&mut rng)));
        let both = a.clone().and(b.clone());
        for _ in 0..10 {
            let socket = socket(&mut rng);
            let entry = Entry::new(&socket);
            assert_eq!(
                both.matches(&entry),
                a.matches(&entry) && b.matches(&entry),
                "({a}) and ({b})"
            );
        }
    }
}

#[test]
fn arbitrary_text_does_not_panic() {
    const PIECES: &[&str] = &[
        "state",
        "exclude",
        "src",
        "dst",
        "sport",
        "dport",
        "dev",
        "fwmark",
        "cgroup",
        "and",
        "or",
        "not",
        "(",
        ")",
        "!",
        "!=",
        "=",
        ">=",
        "~",
        "&",
        "||",
        ":",
        "*",
        "/",
        "[",
        "]",
        "::1",
        "10.0.0.1",
        "80",
        "-",
        "\\",
        "#",
        "\n",
        "unix:",
        "inet6:",
        "netlink:",
        "link:",
        "vsock:",
        "\u{0}",
        "\u{202e}",
        "é",
        "0x",
        "65536",
        "rtt",
        "1.5",
        "ms",
        "owner",
        " ",
        "\t",
        "99999999999999999999999",
        "%",
        "established",
        "..",
        "timer",
        "peers",
    ];
    let mut rng = Rng(5);
    let (mut good, mut bad) = (0, 0);
    for _ in 0..30_000 {
        let mut text = String::new();
        for _ in 0..rng.below(12) {
            text.push_str(rng.pick(PIECES));
            if rng.one_in(2) {
                text.push(' ');
            }
        }
        match parse(&text, &NoResolve) {
            Ok(filter) => {
                good += 1;
                assert_eq!(
                    parse(&filter.to_string(), &NoResolve).as_ref(),
                    Ok(&filter),
                    "{text:?}"
                );
            }
            Err(error) => {
                bad += 1;
                assert!(text.get(error.span.clone()).is_some(), "{text:?} {error:?}");
                let rendered = error.render(&text);
                assert_eq!(rendered.lines().count(), 3, "{text:?}");
                assert!(!rendered.contains(['\u{0}', '\u{202e}', '\t']), "{rendered:?}");
            }
        }
    }
    assert!(good > 500 && bad > 10_000, "{good} {bad}");
    for _ in 0..10_000 {
        let bytes: Vec<u8> = (0..rng.below(40)).map(|_| rng.next() as u8).collect();
        let text = String::from_utf8_lossy(&bytes);
        if let Err(error) = parse(&text, &NoResolve) {
            let _ = error.render(&text);
        }
    }
}

#[test]
fn too_long_filter_is_an_error_or_evaluated_by_us() {
    // Deep: an error, not the end of the stack.
    for text in [
        "(".repeat(100_000),
        format!("{}autobound", "! ".repeat(100_000)),
        format!("{}autobound{}", "( ".repeat(100_000), ")".repeat(100_000)),
        "sport 1 or sport 2 and ".repeat(50_000) + "sport 3",
        "not ( sport 1 or not ( sport 2 and ".repeat(5_000),
    ] {
        let error = parse(&text, &NoResolve).unwrap_err();
        assert!(error.to_string().contains("levels of nesting"), "{error}");
        assert!(error.render(&text).len() < 500);
    }
    // Nearly too deep: all that recurses.
    let deep = "not ( sport 1 and ".repeat(60) + "sport 2" + &" )".repeat(60);
    let filter = parse(&deep, &NoResolve).unwrap();
    assert!(filter.program(KernelFeatures::OLDEST).exact);
    assert_eq!(parse(&filter.to_string(), &NoResolve).unwrap(), filter);
    // Long: no program, and still an answer.
    let long = "sport 1 or ".repeat(100_000) + "dport 443";
    let filter = parse(&long, &NoResolve).unwrap();
    assert_eq!(
        filter.program(KernelFeatures::FULL),
        sockeye_filter::Program::default()
    );
    let mut rng = Rng(6);
    while !filter.matches(&Entry::new(&socket(&mut rng))) {}
    // As long as fits: jumps over the whole program.
    let fits = "sport 1 or ".repeat(4000) + "dport 443";
    let program = parse(&fits, &NoResolve).unwrap().program(KernelFeatures::FULL);
    assert!(program.exact && program.bytecode.len() > 60_000);
    assert_eq!(audit(&program.bytecode, false), Ok(()));
}
