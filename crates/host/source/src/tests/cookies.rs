//! Cookies of sockets in a walk: the kernel creates them when it is first asked.

use crate::bpf::BpfEngine;
use crate::query::{Choice, Families, Query};
use crate::{Detail, Ends, NetnsScope, SourceKind, list};
use sockeye_lab::{Lab, Skip, need};
use sockeye_model::{Cookie, Endpoint, Protocol, ProtocolSet, StateSet};
use std::collections::BTreeMap;
use std::net::{TcpListener, TcpStream};
use std::ops::ControlFlow;

type Cookies = BTreeMap<String, Option<Cookie>>;

/// Lists the connections of this namespace; returns them with the source that was used.
fn cookies(engine: &BpfEngine, choice: Choice) -> Result<(Option<SourceKind>, Cookies), String> {
    let query = Query {
        protocols: ProtocolSet::of(&[Protocol::Tcp]),
        families: Families::BOTH,
        states: StateSet::ALL,
        detail: Detail::INODE | Detail::COOKIE,
        program: &[],
        ends: Ends::ANYWHERE,
        choice,
        scope: NetnsScope::Own,
        quiet: None,
        announce: None,
    };
    let mut found = Cookies::new();
    let end = |end: &Endpoint| format!("{end:?}");
    let outcome = list(engine, &query, &mut |socket, _| {
        let key = format!("{} {}", end(&socket.local), end(&socket.peer));
        found.insert(key, socket.cookie);
        ControlFlow::Continue(())
    })
    .map_err(|error| error.to_string())?;
    Ok((outcome.used.first().and_then(|used| used.source), found))
}

fn connect() -> (TcpListener, TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let server = listener.accept().unwrap().0;
    (listener, client, server)
}

#[test]
fn walk_after_a_dump_has_all_cookies() {
    let lab = need!(Lab::new("walk_cookies"));
    let namespace = lab.namespace("a");
    let found = namespace.run(|| -> Result<_, String> {
        let engine = BpfEngine::default();
        let _first = connect();
        // None of them is there yet.
        if let Ok((source, _)) = cookies(&engine, Choice::Bpf) {
            assert_ne!(source, Some(SourceKind::Walk));
        }
        let (source, by_dump) = cookies(&engine, Choice::Diag).unwrap();
        assert_ne!(source, Some(SourceKind::Walk));
        // Of a new connection no one has asked for them.
        let _second = connect();
        let walked = cookies(&engine, Choice::Bpf)?;
        Ok((by_dump, walked, cookies(&engine, Choice::Diag).unwrap().1))
    });
    let (by_dump, (source, walked), all): (Cookies, _, Cookies) = match found {
        Ok(found) => found,
        Err(reason) => return Skip::new(format!("no walk here: {reason}")).print(),
    };
    assert_eq!(source, Some(SourceKind::Walk));
    assert_eq!((by_dump.len(), walked.len()), (3, 6));
    assert!(walked.values().all(Option::is_some), "{walked:?}");
    assert_eq!(walked, all);
}
