//! Body of the fuzz target `netns_filters`, and of the test that replays its corpus: filters of `ns list`.

use sockeye_filter::netns::parse;
use sockeye_model::{Age, AgeFrom, Namespace, NetnsInode, NetnsName};

/// Parses an expression: the error can be printed, or the filter matches as its negation does not.
pub(crate) fn netns_filters(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let filter = match parse(&text) {
        Ok(filter) => filter,
        Err(error) => {
            assert!(text.get(error.span.clone()).is_some(), "{error:?}");
            let rendered = error.render(&text);
            assert_eq!(rendered.lines().count(), 3, "{rendered:?}");
            assert!(
                !rendered.contains(|c: char| c.is_control() && c != '\n'),
                "{rendered:?}"
            );
            return;
        }
    };
    // It is written in parentheses, unless it is nested too deeply already, empty, or ends inside a comment or escape.
    let negation = parse(&format!("not ( {text} )"));
    for namespace in namespaces() {
        let matches = filter.matches(&namespace);
        if let Ok(negation) = &negation
            && !text.contains(['#', '\\', '"'])
        {
            assert_eq!(negation.matches(&namespace), !matches, "{text}");
        }
        assert!(matches || !filter.is_empty());
        if !filter.needs().containers {
            let without = Namespace {
                container: None,
                ..namespace
            };
            assert_eq!(filter.matches(&without), matches, "{text}");
        }
    }
}

fn namespaces() -> [Namespace; 3] {
    let unknown = Namespace::new(NetnsInode(4_026_531_840));
    let mut named = Namespace::new(NetnsInode(4_026_532_177));
    named.names.extend(
        ["web1", "a-b"]
            .into_iter()
            .filter_map(|name| NetnsName::new(name).ok()),
    );
    named.container = Some("web".into());
    named.label = Some("web1".into());
    (named.id, named.processes, named.threads) = (Some(3), Some(2), Some(70_000));
    (named.sockets, named.interfaces, named.is_own) = (Some(u64::MAX), Some(1), true);
    named.age = Some(Age {
        seconds: u64::MAX,
        from: AgeFrom::Mount,
    });
    let mut leaked = Namespace::new(NetnsInode(0));
    (leaked.processes, leaked.threads, leaked.id) = (Some(0), Some(0), Some(-1));
    leaked.label = Some("1234/nginx \u{1b}".into());
    [unknown, named, leaked]
}
