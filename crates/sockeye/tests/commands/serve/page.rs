//! The page in a real browser.

use super::browser::Browser;
use super::{Server, line};
use crate::fixtures::binary::SOCKEYE;
use serde_json::{Value, json};
use sockeye_lab::{Skip, need};
use std::io::BufReader;
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};

/// Connections of this process, one flow for each of many addresses.
fn connections(number: u16) -> (Vec<TcpListener>, Vec<TcpStream>) {
    let (mut listeners, mut streams) = (Vec::new(), Vec::new());
    for nth in 0..number {
        let listener = TcpListener::bind(format!("127.9.{}.{}:0", nth / 200, 1 + nth % 200)).unwrap();
        streams.push(TcpStream::connect(listener.local_addr().unwrap()).unwrap());
        streams.push(listener.accept().unwrap().0);
        listeners.push(listener);
    }
    (listeners, streams)
}

fn opened(server: &Server, purpose: &str) -> Result<Browser, Skip> {
    let mut browser = Browser::start(purpose)?;
    browser.resize(1440, 900);
    browser.open(&server.url);
    browser.run(
        "return until(() => document.querySelector('#view-flows .space .row [data-col=local]')?.textContent)",
    );
    Ok(browser)
}

#[test]
fn every_view_opens_at_every_size_without_errors() {
    let (_listeners, _streams) = connections(300);
    let server = Server::start(&["--check-interval", "10"]);
    let mut browser = need!(opened(&server, "views"));
    for (width, height) in [(1440, 900), (1024, 768), (390, 844)] {
        browser.resize(width, height);
        for (view, shows) in [
            ("flows", "#view-flows .space .row [data-col=local]"),
            ("map", "#view-map svg circle"),
            ("sockets", "#view-sockets .space .row [data-col=local]"),
            ("findings", "#view-findings article, #view-findings .empty"),
        ] {
            let seen = browser.run(&format!(
                "location.hash = 'view={view}'; await until(() => document.querySelector('{shows}')?.getBoundingClientRect().width); \
                 await until(() => document.querySelector('#chart canvas')); \
                 return {{ wide: document.documentElement.scrollWidth - innerWidth, title: document.querySelector('nav [aria-current]').dataset.view, \
                   nameless: [...document.querySelectorAll('button, select, input')].filter((one) => one.offsetParent && \
                     !(one.textContent.trim() || one.getAttribute('aria-label') || one.labels?.length || one.closest('[data-col=direction]'))).length }}"
            ));
            assert_eq!(
                seen,
                json!({ "wide": 0, "title": view, "nameless": 0 }),
                "{width} {view}"
            );
        }
    }
    assert_eq!(browser.errors(), Vec::<String>::new());
}

#[test]
fn phone_shows_peer_and_process_of_each_row() {
    let (_listeners, _streams) = connections(210);
    let server = Server::start(&[]);
    let mut browser = need!(opened(&server, "phone"));
    browser.resize(390, 844);
    // Connections have the descriptor behind the process: only its name is sure to fit.
    for (view, whole) in [
        ("flows", "['local', 'peer', 'owners']"),
        ("sockets", "['local', 'peer']"),
    ] {
        let seen = browser.run(&format!(
            "location.hash = 'view={view}&filter=pid+%3D+{}'; \
             const rows = () => [...document.querySelectorAll('#view-{view} .space .row:not([hidden]):not(.waiting)')]; \
             await until(() => rows().length > 5 && rows().every((row) => row.getBoundingClientRect().height > 40 && row.querySelector('[data-col=owners]').textContent)); \
             const cut = (cell) => !cell || !cell.textContent || !cell.getBoundingClientRect().width || cell.scrollWidth > cell.clientWidth; \
             const [first, second] = rows().map((row) => row.getBoundingClientRect()); \
             return {{ cut: rows().flatMap((row) => {whole}.map((col) => row.querySelector(`[data-col=${{col}}]`)).filter(cut)).map((cell) => cell?.textContent), \
               apart: Math.abs(second.top - first.top) >= first.height - 1, wide: document.documentElement.scrollWidth - innerWidth }};",
            std::process::id()
        ));
        assert_eq!(seen, json!({ "cut": [], "apart": true, "wide": 0 }), "{view}");
    }
    assert_eq!(browser.errors(), Vec::<String>::new());
}

#[test]
fn link_to_the_fleet_without_one_says_so() {
    let server = Server::start(&[]);
    let mut browser = need!(opened(&server, "no-fleet"));
    let seen = browser.run(
        "location.hash = 'view=fleet'; \
         const error = () => document.getElementById('filter-error'); \
         await until(() => !error().hidden); \
         await new Promise((done) => setTimeout(done, 2500)); \
         const shown = { error: error().textContent, hidden: error().hidden, status: document.getElementById('status').textContent }; \
         location.hash = 'view=map'; \
         await until(() => error().hidden); \
         return shown;",
    );
    let expected =
        json!({ "error": "sockeye serve was started without --fleet", "hidden": false, "status": "" });
    assert_eq!(seen, expected);
    assert_eq!(browser.errors(), Vec::<String>::new());
}

#[test]
fn widths_and_numbers_are_what_the_legend_says() {
    let server = Server::start(&[]);
    let mut browser = need!(opened(&server, "words"));
    let seen = browser.run(
        "const { widths } = await import('/map.js'); const { counted } = await import('/format.js'); \
         const { width, most } = widths([100, 40000]); \
         return { share: width(100) / width(40000) < 0.2, four: Math.round(width(40000) / width(10000)), most, \
           counted: [counted(1, 'node'), counted(2, 'node'), counted('1.2k', 'edge'), counted(0, 'flow')] };",
    );
    let expected = json!({ "share": true, "four": 2, "most": 100_000,
        "counted": ["1 node", "2 nodes", "1.2k edges", "0 flows"] });
    assert_eq!(seen, expected);
}

#[test]
fn few_rows_have_elements_and_all_can_be_reached() {
    let (_listeners, _streams) = connections(700);
    let server = Server::start(&[]);
    let mut browser = need!(opened(&server, "rows"));
    let seen = browser.run(
        "const body = document.querySelector('#view-flows .body'); \
         await until(() => body.scrollHeight > 700 * 28); \
         body.scrollTop = body.scrollHeight; \
         const last = await until(() => [...body.querySelectorAll('.row:not([hidden]):not(.waiting)')].find((row) => Number(row.ariaRowIndex) === Number(body.parentNode.ariaRowCount))); \
         return { last: last.textContent, elements: body.querySelectorAll('.row').length };",
    );
    assert!(seen["elements"].as_u64().unwrap() < 120, "{seen}");
    assert!(!seen["last"].as_str().unwrap().is_empty(), "{seen}");
    assert_eq!(browser.errors(), Vec::<String>::new());
}

/// Names from outside are text: of a process, and of the host.
#[test]
fn names_are_never_markup() {
    let own = format!("/proc/{}/comm", std::process::id());
    std::fs::write(own, "<img src=x>\"'&").unwrap();
    let (_listeners, _streams) = connections(3);
    let host = "<img src=x onerror=window.injected=1>";
    let child = Command::new("unshare")
        .args([
            "--uts",
            "sh",
            "-c",
            "printf %s \"$HOST\" > /proc/sys/kernel/hostname; exec \"$0\" serve --listen 127.0.0.1:0 --sample-interval 0.5",
            SOCKEYE,
        ])
        .env("HOST", host)
        .env("SOCKEYE_CONFIG", "")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let Some(server) = started(child) else {
        return Skip::new("no other host name can be set here").print();
    };
    let mut browser = need!(opened(&server, "names"));
    let seen = browser.run(&format!(
        "const shown = {{}}; \
         for (const view of ['flows', 'map', 'sockets']) {{ \
           location.hash = 'filter=pid+%3D+{}&view=' + view; \
           shown[view] = await until(() => document.getElementById('view-' + view).textContent.includes('<img src=x>')); \
         }} \
         location.hash = ''; \
         await until(() => document.getElementById('host').textContent); \
         return {{ ...shown, host: document.getElementById('host').textContent, images: document.images.length, injected: 'injected' in window }};",
        std::process::id()
    ));
    assert_eq!(
        seen,
        json!({ "flows": true, "map": true, "sockets": true, "host": host, "images": 0, "injected": false })
    );
    assert_eq!(browser.errors(), Vec::<String>::new());
    // Markup from text is refused even to a script of the page.
    let refused =
        browser.run("try { document.body.innerHTML = '<b>x</b>'; return false } catch { return true }");
    assert_eq!(refused, Value::Bool(true));
}

fn started(mut child: std::process::Child) -> Option<Server> {
    let mut lines = BufReader::new(child.stdout.take()?);
    let url = line(&mut lines);
    let address = url
        .split("//")
        .nth(1)
        .and_then(|rest| rest.split('/').next()?.parse().ok());
    match address {
        Some(address) => Some(Server {
            child,
            lines,
            url,
            address,
        }),
        None => {
            drop(child.kill());
            drop(child.wait());
            None
        }
    }
}

#[test]
fn state_is_in_the_url_and_keys_move_it() {
    let (listeners, _streams) = connections(3);
    let port = listeners[0].local_addr().unwrap().port();
    let server = Server::start(&[]);
    let mut browser = need!(opened(&server, "state"));
    let filtered = browser.run(&format!(
        "location.hash = 'filter=dport+%3D+%3A{port}&sort=peer'; \
         await until(() => /^[1-9][0-9]* of /.test(document.getElementById('status').textContent)) \
             .catch((error) => {{ throw new Error(`${{error.message}}: ${{document.getElementById('status').textContent}}, ${{location.hash}}`) }}); \
         return [document.getElementById('filter').value, document.querySelector('#view-flows [aria-sort=ascending]').dataset.col];"
    ));
    assert_eq!(filtered, json!([format!("dport = :{port}"), "peer"]));
    let error = browser.run(
        "location.hash = 'filter=dport+%3D+%29'; \
         return until(() => !document.getElementById('filter-error').hidden && document.getElementById('filter-error').textContent);",
    );
    assert!(
        error.as_str().unwrap().contains("expected a port after '='"),
        "{error}"
    );
    assert_eq!(browser.errors(), Vec::<String>::new());
    browser.run(&format!(
        "location.hash = 'filter=sport+%3D+%3A{port}'; document.activeElement.blur(); \
         await until(() => document.getElementById('filter-error').hidden)"
    ));
    browser.key("3");
    browser.run("await until(() => location.hash.includes('view=sockets') && document.querySelector('#view-sockets .space .row [data-col=local]')?.textContent)");
    browser.run("document.querySelector('#view-sockets .table').focus()");
    browser.key("ArrowDown");
    browser.key("Enter");
    let details = browser.run("await until(() => document.querySelector('#details[open] dl')); return [location.hash.includes('socket='), document.querySelector('#details-body').textContent.includes('tcp_info')]");
    assert_eq!(details, json!([true, true]));
    browser.key("Escape");
    browser.run("await until(() => !location.hash.includes('socket='))");
    browser.key("1");
    // The sample before the newest.
    browser.run("await until(() => !location.hash.includes('view=')); document.activeElement.blur()");
    browser.key("[");
    let past = browser.run("await until(() => location.hash.includes('at=')); return document.getElementById('live').ariaPressed");
    assert_eq!(past, "false");
    browser.key("l");
    browser.run("await until(() => document.getElementById('live').ariaPressed === 'true')");
    assert_eq!(browser.errors(), Vec::<String>::new());
}
