//! Who can read, attacked from outside.

use super::{Server, line};
use crate::fixtures::binary::{command, run};
use std::fs;
use std::os::unix::fs::PermissionsExt;

#[test]
fn url_works_once_and_becomes_a_cookie() {
    let mut server = Server::start(&[]);
    assert_eq!(server.get("/", "").status, 401);
    let cookie = server.log_in();
    let with = format!("Cookie: {cookie}\r\n");
    assert_eq!(server.get("/", &with).status, 200);
    // A second browser with the same URL, or a guess.
    let (_, path) = server.url.split_once("/?").unwrap();
    assert_eq!(server.get(&format!("/?{path}"), "").status, 401);
    for wrong in ["/?token=", "/?token=0", "/?TOKEN=x"] {
        assert_eq!(server.get(wrong, "").status, 401, "{wrong}");
    }
    // The next browser gets the next URL.
    server.url = line(&mut server.lines);
    let other = server.log_in();
    assert_ne!(cookie, other);
    assert_eq!(server.get("/", &with).status, 200);
}

#[test]
fn cookie_is_out_of_reach_of_scripts_and_other_sites() {
    let server = Server::start(&[]);
    let (_, token) = server.url.split_once("?token=").unwrap();
    let answer = server.get(&format!("/?token={token}"), "");
    let cookie = answer.header("set-cookie").unwrap();
    assert!(
        cookie.contains("; HttpOnly") && cookie.contains("; SameSite=Strict"),
        "{cookie}"
    );
    assert!(!cookie.contains("Domain"), "{cookie}");
    assert!(!cookie.contains(token), "the cookie is the token");
    assert_eq!(answer.header("location"), Some("/"));
}

#[test]
fn nothing_is_read_without_the_cookie() {
    let server = Server::start(&[]);
    let paths = [
        "/",
        "/api/flows",
        "/api/moments",
        "/api/timeline",
        "/api/findings",
        "/api/map",
        "/api/sockets",
        "/api/explain?text=x",
        "/api/live",
        "/api/none",
    ];
    for path in paths {
        for headers in ["", "Cookie: sockeye=1\r\n", "Authorization: Bearer x\r\n"] {
            let answer = server.get(path, headers);
            assert_eq!(answer.status, 401, "{path} {headers}");
            assert!(answer.body.len() < 200, "{path}: {answer:?}");
        }
    }
}

/// DNS rebinding: a page of a name that points at this address.
#[test]
fn other_names_are_refused_with_the_right_one() {
    let server = Server::start(&[]);
    let cookie = server.log_in();
    let port = server.address.port();
    let hosts = [
        "evil.example".to_owned(),
        format!("evil.example:{port}"),
        format!("localhost:{port}"),
        "127.0.0.1".to_owned(),
        format!("127.0.0.1:{port}.evil.example"),
        String::new(),
    ];
    for host in hosts {
        for path in ["/", "/api/flows", "/style.css"] {
            let request = format!(
                "GET {path} HTTP/1.1\r\nHost: {host}\r\nCookie: {cookie}\r\nConnection: close\r\n\r\n"
            );
            let answer = server.send(&request);
            assert!([400, 421].contains(&answer.status), "{host}: {answer:?}");
        }
    }
    let address = server.address;
    let twice = format!(
        "GET / HTTP/1.1\r\nHost: {address}\r\nHost: {address}\r\nCookie: {cookie}\r\nConnection: close\r\n\r\n"
    );
    assert!([400, 421].contains(&server.send(&twice).status));
    let localhost = server.send(&format!(
        "GET / HTTP/1.1\r\nHost: localhost:{port}\r\nConnection: close\r\n\r\n"
    ));
    assert!(
        localhost.body.contains(&format!("http://{address}/")),
        "{localhost:?}"
    );
}

#[test]
fn pages_of_other_sites_get_nothing() {
    let server = Server::start(&[]);
    let cookie = server.log_in();
    for site in ["cross-site", "same-site"] {
        let answer = server.get(
            "/api/flows",
            &format!("Cookie: {cookie}\r\nSec-Fetch-Site: {site}\r\n"),
        );
        assert_eq!(answer.status, 403, "{site}");
    }
    // A link opens the page, which asks for data itself; a frame or a script gets nothing.
    let from_link = |path, destination| {
        let headers = format!("Sec-Fetch-Site: cross-site\r\nSec-Fetch-Dest: {destination}\r\n");
        server.get(path, &headers).status
    };
    assert_eq!(from_link("/", "document"), 200);
    assert_eq!(from_link("/", "iframe"), 403);
    assert_eq!(from_link("/api/flows", "document"), 403);
    let answer = server.get(
        "/api/moments",
        &format!("Cookie: {cookie}\r\nOrigin: https://evil.example\r\n"),
    );
    assert_eq!(answer.header("access-control-allow-origin"), None);
}

#[test]
fn every_answer_has_the_headers_that_protect() {
    let server = Server::start(&[]);
    let cookie = format!("Cookie: {}\r\n", server.log_in());
    for (path, headers) in [
        ("/", ""),
        ("/", cookie.as_str()),
        ("/app.js", ""),
        ("/api/moments", &cookie),
        ("/nothing", &cookie),
    ] {
        let answer = server.get(path, headers);
        let policy = answer.header("content-security-policy").unwrap();
        assert!(
            policy.starts_with("default-src 'none'") && !policy.contains("unsafe"),
            "{policy}"
        );
        for (name, value) in [
            ("x-content-type-options", "nosniff"),
            ("x-frame-options", "DENY"),
            ("referrer-policy", "no-referrer"),
            ("cache-control", "no-store"),
        ] {
            assert_eq!(answer.header(name), Some(value), "{path} {name}");
        }
        assert!(answer.header("content-type").is_some(), "{path}");
    }
}

#[test]
fn everything_is_read_only() {
    let server = Server::start(&[]);
    let cookie = server.log_in();
    for method in ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"] {
        for path in ["/", "/api/flows", "/api/sockets"] {
            let request = format!(
                "{method} {path} HTTP/1.1\r\nHost: {}\r\nCookie: {cookie}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
                server.address
            );
            assert_eq!(server.send(&request).status, 405, "{method} {path}");
        }
    }
}

#[test]
fn other_addresses_need_a_proxy_and_a_secret() {
    let folder = std::env::temp_dir().join(format!("sockeye-serve-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let file = folder.join("secret");
    let serve = |words: &str| {
        let words = words.replace("FILE", file.to_str().unwrap());
        run(command().arg("serve").args(words.split(' ')))
    };
    let open = "--listen 0.0.0.0:0";
    for words in [
        open.to_owned(),
        format!("{open} --public-url https://a.example"),
        format!("{open} --behind-proxy --public-url https://a.example"),
        format!("{open} --behind-proxy"),
        format!("{open} --behind-proxy --public-url http://a.example --secret-file FILE"),
        format!("{open} --secret-file FILE"),
        "--public-url https://a.example/path".to_owned(),
        "--sample-interval 0.01".to_owned(),
    ] {
        serve(&words).failed(2);
    }
    let guarded = format!("{open} --behind-proxy --public-url https://a.example --secret-file FILE");
    fs::write(&file, "correct horse battery\n").unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    let error = serve(&guarded);
    assert!(error.failed(1).contains("chmod 600"), "{error:?}");
    fs::write(&file, "short\n").unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    assert!(serve(&guarded).failed(1).contains("fewer than 16"), "{guarded}");
    fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn secret_logs_in() {
    let folder = std::env::temp_dir().join(format!("sockeye-serve-secret-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let file = folder.join("secret");
    fs::write(&file, "correct horse battery\n").unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    let server = Server::start(&["--secret-file", file.to_str().unwrap()]);
    fs::remove_dir_all(&folder).unwrap();
    let form = |secret: &str| {
        let body = format!("secret={secret}");
        server.send(&format!(
            "POST /login HTTP/1.1\r\nHost: {}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
            server.address,
            body.len()
        ))
    };
    assert!(server.get("/", "").body.contains("<form"));
    assert_eq!(form("wrong").status, 401);
    let answer = form("correct+horse%20battery");
    assert_eq!(answer.status, 303, "{answer:?}");
    let cookie = answer.header("set-cookie").unwrap().split(';').next().unwrap();
    assert_eq!(server.get("/", &format!("Cookie: {cookie}\r\n")).status, 200);
    assert_eq!(
        server
            .get("/api/moments", "Authorization: Bearer correct horse battery\r\n")
            .status,
        200
    );
}
