use super::*;
use sockeye_model::{Age, AgeFrom, NetnsInode, NetnsName};

fn web() -> Namespace {
    let mut web = Namespace::new(NetnsInode(4_026_532_177));
    web.names = vec![NetnsName::new("web1").unwrap(), NetnsName::new("alias").unwrap()];
    web.label = Some("web1".into());
    web.processes = Some(0);
    web.threads = Some(0);
    web.sockets = Some(3);
    web.interfaces = Some(1);
    web.id = Some(7);
    web.age = Some(Age {
        seconds: 7200,
        from: AgeFrom::Mount,
    });
    web
}

fn container() -> Namespace {
    let mut container = Namespace::new(NetnsInode(4_026_532_178));
    container.container = Some("shop".into());
    container.label = Some("shop".into());
    container.processes = Some(2);
    container.threads = Some(2000);
    container
}

#[track_caller]
fn check(text: &str, of_web: bool, of_container: bool) {
    let filter = parse(text).unwrap_or_else(|error| panic!("{}", error.render(text)));
    assert_eq!(
        (filter.matches(&web()), filter.matches(&container())),
        (of_web, of_container),
        "{text}"
    );
}

#[test]
fn each_condition_matches_its_namespace() {
    check("", true, true);
    check("name = web1", true, false);
    check("name web1", true, false);
    check("name = alias", true, false);
    check("name != alias", false, true);
    check("name ~ web*", true, false);
    check("name ~ eb", true, false);
    check("name !~ web*", false, true);
    check("name = shop", false, true);
    check("container = shop", false, true);
    check("container != nginx", false, true); // web has none, and an absent value does not match !=
    check("not container = shop", true, false);
    check("inode = 4026532177", true, false);
    check("id = 7", true, false);
    check("id >= 0", true, false);
    check("pids = 0", true, false);
    check("processes > 0", false, true);
    check("threads >= 2k", false, true);
    check("sockets > 0", true, false);
    check("sockets = 0", false, false);
    check("sockets != 3", false, false);
    check("interfaces <= 1", true, false);
    check("age = 2h", true, false);
    check("age > 90m and age < 1d", true, false);
    check("age < 10m", false, false);
    check("leaked", true, false);
    check("not leaked", false, true);
    check("named", true, false);
    check("own", false, false);
}

#[test]
fn conditions_join_from_left_to_right() {
    check("named or own and own", false, false);
    check("named or ( own and own )", true, false);
    check("named pids=0", true, false);
    check("(pids>0)||!(sockets<1)", true, true);
    check("named or ".repeat(5000).trim_end_matches("or "), true, false);
    check(
        &format!("{}named{}", "(".repeat(100), ")".repeat(100)),
        true,
        false,
    );
}

#[test]
fn errors_have_their_position() {
    for (text, expected) in [
        (
            "sockets ~ 5",
            "expected '=', '!=', '<', '<=', '>' or '>=' after 'sockets', found '~'",
        ),
        (
            "name > web",
            "expected '=', '!=', '~' or '!~' after 'name', found '>'",
        ),
        ("pids = many", "expected a number after '=', found 'many'"),
        (
            "pids =",
            "expected a number after '=', found the end of the expression",
        ),
        (
            "age > 10",
            "expected a time with a unit (30s, 10m, 2h, 3d) after '>', found '10' (which unit?)",
        ),
        (
            "socket > 0",
            "expected a condition (name, pids, sockets, age, leaked, ...), found 'socket' (did you mean 'sockets'?)",
        ),
        (
            "named )",
            "expected 'and', 'or', a condition or the end, found ')'",
        ),
        (
            "( named",
            "expected ')', 'and' or 'or', found the end of the expression",
        ),
        (
            "named and",
            "expected a condition, '(' or 'not', found the end of the expression",
        ),
        (
            "name = \u{1b}[31m )",
            "expected 'and', 'or', a condition or the end, found ')'",
        ),
    ] {
        let error = parse(text).unwrap_err();
        assert_eq!(error.to_string(), expected, "{text}");
        assert!(!error.render(text).contains('\u{1b}'));
    }
    let deep = "(".repeat(100_000);
    assert!(
        parse(&deep)
            .unwrap_err()
            .to_string()
            .contains("levels of nesting")
    );
    assert!(
        parse(&"not ".repeat(100_000))
            .unwrap_err()
            .to_string()
            .contains("levels of nesting")
    );
}

#[test]
fn container_condition_needs_containers() {
    let needs = |text| parse(text).unwrap().needs().containers;
    assert!(needs("sockets > 0 and not ( container ~ x )"));
    assert!(!needs("name = container"));
}
