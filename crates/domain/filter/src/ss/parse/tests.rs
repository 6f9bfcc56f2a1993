use super::super::HostError;
use super::*;
use sockeye_model::{Family, InterfaceIndex, Protocol};
use std::net::IpAddr;

struct Names;

impl Resolve for Names {
    fn service_of(&self, protocol: Protocol, name: &str) -> Option<u16> {
        match (name, protocol) {
            ("https", _) | ("torn", Protocol::Tcp) => Some(443),
            ("torn", Protocol::Udp) => Some(80),
            ("only-udp", Protocol::Udp) => Some(69),
            _ => None,
        }
    }
    fn host(&self, name: &str) -> Vec<IpAddr> {
        let addresses: &[&str] = match name {
            "web" => &["2001:db8::1", "10.0.0.1", "10.0.0.2"],
            "v6only" => &["2001:db8::2"],
            // Names that must not be resolved
            "0x100" | "256" | "1.2.3.4" => &["192.0.2.1"],
            _ => &[],
        };
        addresses.iter().filter_map(|text| text.parse().ok()).collect()
    }
    fn interface(&self, name: &str) -> Option<InterfaceIndex> {
        match name {
            "lo" => Some(InterfaceIndex(1)),
            "7" => Some(InterfaceIndex(9)),
            _ => None,
        }
    }
    fn cgroup(&self, path: &str) -> Option<CgroupId> {
        (path == "/a b").then_some(CgroupId(5))
    }
}

fn read(text: &str, preferred: Option<Family>) -> Result<Filter, ParseError> {
    let context = Context {
        preferred,
        udp: true,
        tcp: true,
        since_6_15: false,
    };
    parse(&[text.to_owned()], None, &context, &Names)
}

fn check_in(preferred: Option<Family>, text: &str, expected: &str, confined: Option<Family>) {
    match read(text, preferred) {
        Ok(filter) => {
            assert_eq!(filter.to_string(), expected, "{text}");
            assert_eq!(filter.family(), confined, "{text}");
            assert_eq!(filter.is_empty(), expected.is_empty());
        }
        Err(error) => panic!("{text}: {error}"),
    }
}

fn check(text: &str, expected: &str) {
    check_in(None, text, expected, None);
}

#[test]
fn conditions_join_from_left_to_right() {
    check("", "");
    check("autobound", "autobound");
    check("dev 1 or dev 2 and dev 3", "((dev 1 or dev 2) and dev 3)");
    check("dev 1 & dev 2 | dev 3", "((dev 1 and dev 2) or dev 3)");
    check("dev 1 dev 2 or dev 3", "((dev 1 and dev 2) or dev 3)");
    check("dev 1 or ( dev 2 and dev 3 )", "(dev 1 or (dev 2 and dev 3))");
    check("( dev 1 or dev 2 ) dev 3", "((dev 1 or dev 2) and dev 3)");
    check("not dev 1 or dev 2", "(not dev 1 or dev 2)");
    check("! ( dev 1 dev 2 ) dev 3", "(not (dev 1 and dev 2) and dev 3)");
    check("! ! not dev 1", "not dev 1");
    check("! ( ! ( dev 1 ) )", "dev 1");
    check("dev 1 ! dev 2", "(dev 1 and not dev 2)");
    check(
        "dev 1 && ( ( autobound ) ) || dev 2",
        "((dev 1 and autobound) or dev 2)",
    );
    check("\\( dev 1 \\)", "dev 1");
}

#[test]
fn words_parse_as_in_ss() {
    for (text, expected) in [
        // Addresses
        ("src 10", "src 10.0.0.0/32"),
        ("src 10.1/16", "src 10.1.0.0/16"),
        ("dst = 10.1.2.3/255.255:80", "dst 10.1.2.3/16:80"),
        ("dst == 0x7f.1", "dst 127.1.0.0/32"),
        ("dst 1.2.3.4/any", "dst 1.2.3.4/0"),
        ("dst 256", "dst 0.0.1.0/32"),
        ("dst 10.256", "dst 10.0.1.0/32"),
        ("dst any", "dst *"),
        ("dst default:80", "dst *:80"),
        ("dst *", "dst *"),
        ("dst *80", "dst *:80"),
        ("dst :80", "dst *:80"),
        ("dst \\", "dst *"),
        ("dst [::1]", "dst [::1/128]"),
        ("dst [::1]80", "dst [::1/128]:80"),
        ("dst [fe80::/10]:80", "dst [fe80::/10]:80"),
        ("dst ::1:80", "dst [::1/128]:80"),
        ("dst fe80::/10:*", "dst [fe80::/10]"),
        ("dst ::ffff:1.2.3.4:1", "dst [::ffff:1.2.3.4/128]:1"),
        ("dst web", "dst 10.0.0.1/32,10.0.0.2/32,[2001:db8::1/128]"),
        ("dst v6only:https", "dst [2001:db8::2/128]:443"),
        // Ports
        ("sport = https", "src *:443"),
        ("sport only-udp", "src *:69"),
        ("sport :0x50", "src *:80"),
        ("sport [0120]", "src *:80"),
        ("sport 70000", "src *:70000"),
        ("sport -5", "src *:-5"),
        ("sport -1", "src *"),
        ("sport *:80", "src *"),
        ("dport != 80", "not dst *:80"),
        ("dport > 80", "not dport <= 80"),
        ("dport lt 80", "not dport >= 80"),
        ("dport geq *", "dport >= -1"),
        ("dport le 80", "dport <= 80"),
        // Others
        ("dev lo", "dev 1"),
        ("dev = 7", "dev 9"),
        ("dev ne 8", "not dev 8"),
        ("dev if7x", "dev 7"),
        ("fwmark 0x10/0xf0zz", "fwmark 0x10/0xf0"),
        ("fwmark -1", "fwmark 0xffffffff/0xffffffff"),
        ("fwmark != 1x", "not fwmark 0x1/0xffffffff"),
        ("cgroup /a\\ b", "cgroup /a b=5"),
        ("cgroup != /a\\ b", "not cgroup /a b=5"),
    ] {
        check(text, expected);
    }
}

#[test]
fn named_family_applies_to_later_words() {
    let (v4, v6) = (Some(Family::Inet), Some(Family::Inet6));
    let (unix, link) = (Some(Family::Unix), Some(Family::Packet));
    let (netlink, vsock) = (Some(Family::Netlink), Some(host::VSOCK));
    for (preferred, text, expected, confined) in [
        (None, "src inet:*", "src *", v4),
        (None, "src inet:any", "src 0.0.0.0/0", v4),
        (v6, "src any", "src [::/0]", v6),
        (v6, "sport 80", "src *:80", v6),
        (v6, "dev 1", "dev 1", None),
        (
            None,
            "src inet6:web src web",
            "(src [2001:db8::1/128] and src [2001:db8::1/128])",
            v6,
        ),
        (v6, "src inet:web", "src 10.0.0.1/32,10.0.0.2/32", v4),
        (
            None,
            "src unix:/run/* sport = b",
            "(src unix:/run/* and src unix:b)",
            unix,
        ),
        (unix, "sport >= 80", "sport >= -1", unix),
        (
            unix,
            "src inet:10 src 10",
            "(src 10.0.0.0/32 and src 10.0.0.0/32)",
            v4,
        ),
        (link, "src ARP:lo", "src Packet=2054/32:1", link),
        (link, "src :-3", "src Packet=0/0:-3", link),
        (link, "sport :lo", "src Packet=0/0:1", link),
        (None, "src link:0x9000", "src Packet=36864/32", link),
        (None, "src netlink:genl:kernel", "src Netlink=16/32:0", netlink),
        (None, "sport = netlink:-4", "src Netlink=0/0:-4", netlink),
        // 5, since the last call returned it.
        (
            netlink,
            "src genl src 5 src genl",
            "((src Netlink=16/32 and src Netlink=5/32) and src Netlink=5/32)",
            netlink,
        ),
        (vsock, "src 3:22", "src Unknown(40)=0/0:22", vsock),
        (None, "dport = vsock:4294967295", "dst Unknown(40)=0/0", vsock),
        (
            Some(Family::Unknown(30)),
            "src all:5",
            "src Unknown(30)=0/0:5",
            Some(Family::Unknown(30)),
        ),
    ] {
        check_in(preferred, text, expected, confined);
    }
}

#[test]
fn errors_have_the_text_of_ss() {
    let check = |text: &str, expected: &str, explanation: &str| match read(text, None) {
        Ok(filter) => panic!("{text}: {filter}"),
        Err(error) => {
            assert_eq!(error.to_string(), expected, "{text}");
            assert_eq!(error.explanation(), explanation, "{text}");
            let is_syntax = expected.starts_with("ss: bison");
            assert_eq!(error.exit_code(), if is_syntax { 255 } else { 1 });
            assert_eq!(error.shows_usage(), is_syntax);
        }
    };
    for (text, explanation) in [
        ("10.0.0.1", "expected a condition, found '10.0.0.1'"),
        (
            "dst",
            "expected an address after 'dst', found the end of the filter",
        ),
        ("dst )", "expected an address after 'dst', found ')'"),
        ("dst > 10", "expected an address after 'dst', found '>'"),
        ("dst != 10", "expected an address after 'dst', found '!='"),
        ("sport = = 80", "expected a port after '=', found '='"),
        ("dev < 1", "expected an interface after 'dev', found '<'"),
        (
            "( dev 1",
            "expected ')', 'and', 'or' or another condition after '1', found the end of the filter",
        ),
        (
            "dev 1 )",
            "expected 'and', 'or' or another condition after '1', found ')'",
        ),
        (
            "dev 1 2",
            "expected 'and', 'or' or another condition after '1', found '2'",
        ),
        ("( )", "expected a condition after '(', found ')'"),
        ("dev 1 and or", "expected a condition after 'and', found 'or'"),
        ("!", "expected a condition after '!', found the end of the filter"),
        (
            "autobound = 1",
            "expected 'and', 'or' or another condition after 'autobound', found '='",
        ),
    ] {
        check(text, SYNTAX, explanation);
    }
    for (text, expected, explanation) in [
        (
            "foo",
            "Error: an inet prefix is expected rather than \"foo\".\nCannot parse dst/src address.",
            "expected an address or the name of a host, found 'foo'",
        ),
        (
            "src foo:80",
            "Error: an inet prefix is expected rather than \"foo\".\nCannot parse dst/src address.",
            "expected an address or the name of a host, found 'foo' in 'foo:80'",
        ),
        (
            "src foo:bar",
            "Error: \"bar\" does not look like a port.\nCannot parse dst/src address.",
            "expected a port or a service of what is listed, found 'bar' in 'foo:bar'",
        ),
        (
            "sport 10.0.0.1:80",
            "Error: \"10.0.0.1:80\" does not look like a port.\nCannot parse dst/src address.",
            "expected a port or a service of what is listed, found '10.0.0.1:80'",
        ),
        (
            "sport torn",
            "Error: ambiguous port \"torn\".\nCannot parse dst/src address.",
            "expected a service that is the same in TCP and UDP, found 'torn'",
        ),
        (
            "src [::1",
            "Cannot parse dst/src address.",
            "expected an address in [ ], found '[::1'",
        ),
        (
            "src vsock:3:",
            "Cannot parse dst/src address.",
            "expected a vsock port, found 'vsock:3:'",
        ),
        (
            "dev no",
            "Cannot parse device.",
            "expected the name or index of an interface, found 'no'",
        ),
        (
            "fwmark 1x/2",
            "Cannot parse mark 1x/2.",
            "expected a mark (NUMBER or NUMBER/MASK), found '1x/2'",
        ),
        (
            "cgroup /no",
            "Failed to get cgroup2 ID: No such file or directory\nCannot parse cgroup /no.",
            "expected the path of a cgroup v2, found '/no'",
        ),
        (
            "cgroup \\",
            "Invalid cgroup2 path\nCannot parse cgroup .",
            "expected the path of a cgroup v2, found ''",
        ),
    ] {
        check(text, expected, explanation);
    }
    for address in [
        "08",
        "0x100",
        "10.",
        "::1",
        "[1.2.3.4.5]",
        "inet6:1.2.3.4",
        "inet:[::1]",
        "any/8",
        "10/33",
        "1.2.3.4/255.0.255.0",
        "[fe80::1%lo]",
        "web/8",
    ] {
        let Err(ParseError::Host { error, .. }) = read(&format!("src {address}"), None) else {
            panic!("{address}");
        };
        assert!(
            matches!(error, HostError::NotAnAddress(_)),
            "{address}: {error:?}"
        );
    }
}

#[test]
fn services_depend_on_listed_protocols() {
    let read = |udp, tcp| {
        let words = ["sport torn".to_owned()];
        parse(
            &words,
            None,
            &Context {
                preferred: None,
                udp,
                tcp,
                since_6_15: false,
            },
            &Names,
        )
        .map(|filter| filter.to_string())
    };
    assert_eq!(read(true, false).as_deref(), Ok("src *:80"));
    assert_eq!(read(false, true).as_deref(), Ok("src *:443"));
    assert!(read(true, true).is_err() && read(false, false).is_err());
}

#[test]
fn file_continues_the_words() {
    let words = ["sport = 1 or".to_owned()];
    let filter = parse(
        &words,
        Some("# no\nsport\n= 2\n0 no\n"),
        &Context::default(),
        &Names,
    );
    assert_eq!(
        filter.map(|filter| filter.to_string()).as_deref(),
        Ok("(src *:1 or src *:2)")
    );
    // Errors come in the order of reading.
    let long = format!("sport\n{}", "a".repeat(2000));
    for (words, expected) in [("", "Too long line in filter"), (")", SYNTAX)] {
        let error = parse(&[words.to_owned()], Some(&long), &Context::default(), &Names);
        assert_eq!(error.map_err(|error| error.to_string()), Err(expected.to_owned()));
    }
}

/// The limits are those of bison's stack in `ss` 6.1.0.
#[test]
fn nesting_limit_is_that_of_ss() {
    let check = |open: &str, count: usize, rest: &str, expected: &str| {
        let found = read(&format!("{}{rest}", open.repeat(count)), None);
        let found = found.map_or_else(|error| error.to_string(), |filter| filter.to_string());
        assert_eq!(found, expected, "{open}{count} {rest}");
    };
    check("( ", 9995, "src = *", SYNTAX);
    check("( ", 9996, "src = *", EXHAUSTED);
    check("( ", 9997, "autobound", SYNTAX);
    check("( ", 9998, "autobound", EXHAUSTED);
    check("( ", 9998, "", SYNTAX);
    check("( ", 9999, "", EXHAUSTED);
    check("! ", 9996, "dev 1", EXHAUSTED);
    check("! ", 9994, "dev 1", "dev 1");
    check("( ", 9000, &format!("dev 1{}", " )".repeat(9000)), "dev 1");
    check("! ( ", 4000, &format!("dev 1{}", " )".repeat(4000)), "dev 1");
    // Cases in which our own limit is lower.
    check("dev 1 ( ", 300, &format!("dev 1{}", " )".repeat(300)), EXHAUSTED);
    // A long list is not deep, whatever its connectives.
    let long = read(&("sport 1 or sport 2 and ".repeat(50_000) + "sport 3"), None);
    assert_eq!(long.map(|filter| filter.kernel().is_empty()), Ok(true));
}

const SYNTAX: &str = "ss: bison bellows (while parsing filter): \"syntax error!\" Sorry.";
const EXHAUSTED: &str = "ss: bison bellows (while parsing filter): \"memory exhausted!\" Sorry.";
