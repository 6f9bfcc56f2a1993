//! The map of many hosts on the page of `serve --fleet`.

use super::{FROM_OUTSIDE, Fleet, SENT_SAMPLES};
use crate::commands::serve::{Browser, Server};
use crate::fixtures::http::Answer;
use serde_json::{Value, json};
use sockeye_lab::{Skip, need};

/// A page of a server with two hosts, who asks with a password.
fn served(test: &str) -> Result<(Fleet, Server), Skip> {
    let fleet = Fleet::new(test)?;
    for host in [&fleet.web, &fleet.db] {
        fleet.send(host);
    }
    let file = fleet.folder.0.join("password");
    std::fs::write(&file, format!("{PASSWORD}\n")).expect("a file");
    let (url, file) = (fleet.engine.url(), file.display().to_string());
    let server = Server::start(&[
        "--check-interval",
        "0",
        "--fleet",
        &url,
        "--fleet-user",
        "shipper",
        "--fleet-password-file",
        &file,
    ]);
    Ok((fleet, server))
}

/// Returns the edges of a map, each as CLIENT SERVER PORT.
fn edges(map: &Value) -> Vec<String> {
    let label = |edge: &Value, end: &str| {
        let number = edge[end].as_u64().expect("a number") as usize;
        map["nodes"][number]["label"]
            .as_str()
            .expect("a label")
            .to_owned()
    };
    let edges = map["edges"].as_array().expect("edges").iter();
    edges
        .map(|edge| {
            format!(
                "{} {} {}",
                label(edge, "client_node"),
                label(edge, "server_node"),
                edge["port"]
            )
        })
        .collect()
}

#[test]
fn map_has_services_or_hosts_and_the_browser_never_learns_who_asks() {
    let (fleet, server) = need!(served("page-data"));
    let cookie = server.log_in();
    let since = (fleet.begin_ms - 1_000) * 1_000;
    let map = |query: &str| server.json(&format!("/api/fleet/map?from={since}&{query}"), &cookie);
    let services = map("by=service");
    assert_eq!(
        edges(&services),
        [
            "webshop postgres 5432",
            "192.0.2.9 telnetd 23",
            "webshop 127.0.0.1 6379"
        ]
    );
    let hosts = map("by=host");
    assert_eq!(
        edges(&hosts),
        ["web1 db1 5432", "192.0.2.9 db1 23", "web1 web1 6379"]
    );
    for (edge, pairs_of_both) in [(0, 1), (1, 0)] {
        assert_eq!(hosts["edges"][edge]["pairs_of_both"], pairs_of_both, "{hosts}");
    }
    assert_eq!(
        hosts["edges"][1]["response_bytes"],
        FROM_OUTSIDE.sent * SENT_SAMPLES
    );
    assert_eq!(edges(&map("by=host&filter=port+%3D+23")), ["192.0.2.9 db1 23"]);
    let refused = |query: &str| {
        let path = format!("/api/fleet/map?from={since}&{query}");
        let answer = server.get(&path, &format!("Cookie: {cookie}\r\n"));
        assert_eq!(answer.status, 400, "{query}: {answer:?}");
    };
    for query in ["by=port", "filter=dport+%3D+1", "until=x"] {
        refused(query);
    }
    // Nothing that a browser can ask for has the password, and without a login nothing is answered.
    let get = |path: &str| server.get(path, &format!("Cookie: {cookie}\r\n"));
    let no_secret = |answer: &Answer| {
        let text = format!("{}{}", answer.head, answer.body);
        assert!(
            !text.contains(PASSWORD) && !text.contains(&fleet.engine.url()),
            "{text}"
        );
    };
    for path in ["/", "/api/fleet", "/api/moments", "/app.js"] {
        no_secret(&get(path));
    }
    no_secret(&get(&format!("/api/fleet/map?from={since}")));
    assert_eq!(server.get("/api/fleet/map", "").status, 401);
    // The server that answers no more is named without who asked.
    let mut fleet = fleet;
    fleet.engine.kill();
    let answer = get_of(&server, &cookie);
    assert_eq!(answer.status, 502, "{answer:?}");
    assert!(!format!("{answer:?}").contains(PASSWORD), "{answer:?}");
}

fn get_of(server: &Server, cookie: &str) -> Answer {
    server.get("/api/fleet/map", &format!("Cookie: {cookie}\r\n"))
}

#[test]
fn page_draws_the_map_and_its_link_shows_the_same() {
    let (_fleet, server) = need!(served("page-browser"));
    let mut browser = need!(Browser::start("fleet"));
    browser.resize(1440, 900);
    browser.open(&server.url);
    browser.run("return until(() => !document.querySelector('nav [data-view=fleet]').hidden)");
    for (width, height) in [(1440, 900), (390, 844)] {
        browser.resize(width, height);
        let seen = browser.run(
            "location.hash = 'view=fleet&range=1h'; \
             await until(() => document.querySelectorAll('#view-fleet svg circle').length === 5); \
             return { dashed: document.querySelectorAll('#view-fleet svg path[stroke-dasharray]').length, \
               texts: [...document.querySelectorAll('#view-fleet svg text')].map((one) => one.textContent).sort(), \
               wide: document.documentElement.scrollWidth - innerWidth, \
               line: document.getElementById('status').textContent.includes('5 services, 3 edges') };",
        );
        assert_eq!(
            seen,
            json!({ "dashed": 2, "texts": ["127.0.0.1", "192.0.2.9", "postgres", "telnetd", "webshop"], "wide": 0, "line": true }),
            "{width}"
        );
        if let Some(folder) = std::env::var_os("SCREENSHOTS") {
            browser.screenshot(&std::path::Path::new(&folder).join(format!("fleet-{width}.png")));
        }
    }
    // A choice is in the URL, and the URL alone shows it again.
    let hash = browser.run(
        "const choose = document.getElementById('fleet-nodes'); choose.value = 'host'; choose.dispatchEvent(new Event('change')); \
         await until(() => document.querySelector('#view-fleet svg text')?.textContent && [...document.querySelectorAll('#view-fleet svg text')].some((one) => one.textContent === 'db1')); \
         [...document.querySelectorAll('#view-fleet svg g[role=link]')].find((one) => one.textContent === 'db1').dispatchEvent(new Event('click')); \
         await until(() => document.getElementById('fleet-filter').value === 'host = db1'); \
         return location.hash;",
    );
    let hash = hash.as_str().expect("a text").to_owned();
    assert!(hash.contains("nodes=host") && hash.contains("edges="), "{hash}");
    let (origin, _) = server.url.split_once("/?").expect("a token");
    browser.open("about:blank");
    browser.open(&format!("{origin}/{hash}"));
    let seen = browser.run(
        "await until(() => document.querySelectorAll('#view-fleet svg circle').length === 3); \
         return { filter: document.getElementById('fleet-filter').value, list: document.querySelectorAll('#view-fleet .edges li').length };",
    );
    assert_eq!(seen, json!({ "filter": "host = db1", "list": 2 }));
    assert_eq!(browser.errors(), Vec::<String>::new());
    // An error of the filter is shown, and no picture that is not its answer.
    let seen = browser.run(
        "const filter = document.getElementById('fleet-filter'); filter.value = 'dport = 1'; filter.form.requestSubmit(); \
         await until(() => document.getElementById('filter-error').textContent.includes('dport')); \
         return document.querySelectorAll('#view-fleet svg').length;",
    );
    assert_eq!(seen, json!(0));
}

#[test]
fn page_without_fleet_has_no_such_view() {
    let server = Server::start(&["--check-interval", "0"]);
    let cookie = server.log_in();
    let get = |path: &str| server.get(path, &format!("Cookie: {cookie}\r\n")).status;
    assert_eq!((get("/api/fleet"), get("/api/fleet/map")), (204, 404));
}

/// What the engine takes for `shipper`.
const PASSWORD: &str = "correct horse";
