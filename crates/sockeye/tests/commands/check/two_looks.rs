//! `sockeye check` and faults that two looks prove: listeners that accept nothing, half-closed connections that nothing
//! closes, and the healthy hosts that look alike.

use super::faults::{Script, commands, fact, found, found_soon, look, name, names, python};
use crate::fixtures::binary::{command, run};
use sockeye_lab::{DEADLINE, Lab, Namespace, need, wait_within};

fn alone(purpose: &str) -> Result<(Lab, Namespace), sockeye_lab::Skip> {
    let lab = Lab::new(purpose)?;
    let here = lab.namespace("here");
    Ok((lab, here))
}

/// A server that accepts what it is asked to, and three clients of it, which send ten bytes each.
const QUEUE: &str = "
listener = socket.create_server(('127.0.0.1', 8080), backlog=100)
clients = [socket.create_connection(('127.0.0.1', 8080)) for _ in range(3)]
for client in clients: client.sendall(bytes(10))
accepted = []
ready()
for line in sys.stdin:
    accepted.append(listener.accept()[0])
    report('done')
";

#[test]
fn listener_that_accepts_nothing_is_found_and_one_that_accepts_is_not() {
    let (lab, here) = need!(alone("accepts_nothing"));
    let mut server = Script::start(&here, QUEUE);
    let words = "--only accept-queue";
    let list = found_soon(&lab, &here, words, &["warning accept-queue listener"]);
    assert_eq!(fact(&list[0], "waiting"), 3);
    assert_eq!(fact(&list[0], "unread_bytes"), 30);
    assert!(fact(&list[0], "longest_wait_ms") >= 2000);
    assert_eq!(list[0]["owners"][0]["pid"], server.pid());
    assert_eq!(list[0]["owner_state"]["letter"], "S", "{:#}", list[0]);
    for _ in 0..3 {
        assert_eq!(server.ask("one"), "done");
    }
    found(&lab, &here, words, &[]);
}

#[test]
fn one_look_at_a_queue_is_a_suspicion() {
    let (lab, here) = need!(alone("one_look"));
    let _server = Script::start(&here, QUEUE);
    let words = "--only accept-queue --second-look 0";
    found_soon(&lab, &here, words, &["notice accept-queue listener"]);
    let mut once = command();
    once.args(["check", "--format", "json", "--netns", here.name()]);
    let outcome = run(once.args(words.split(' ')).args(["--fail-on", "warning"]));
    // There is no warning, but something was not judged.
    assert_eq!(outcome.code, Some(3), "{outcome}");
    let gaps = outcome.report()["not_judged"].clone();
    assert_eq!(gaps[0]["kind"], "second_look", "{gaps:#}");
}

#[test]
fn stopped_listener_is_named_as_stopped() {
    let (_lab, here) = need!(alone("stopped"));
    let server = Script::start(&here, QUEUE);
    python(
        &here,
        &format!("import signal\nos.kill({}, signal.SIGSTOP)", server.pid()),
    );
    // The shell itself runs the remedy: it is not rehearsed.
    let list = wait_within(DEADLINE, "the stopped listener to be found", || {
        let list = look(&here, "--only accept-queue");
        (names(&list) == ["critical accept-queue listener"]).then_some(list)
    });
    assert_eq!(list[0]["owner_state"]["name"], "stopped", "{:#}", list[0]);
    let resume = format!("kill -CONT {}", server.pid());
    assert_eq!(commands(&list[0])[0], resume);
}

/// Clients that end their sending side and wait, and handlers that have read the request and work on it; or which do
/// nothing any more.
fn half_closed(answers: bool) -> String {
    format!(
        "
listener = socket.create_server(('127.0.0.1', 8080), backlog=100)
pairs = []
for _ in range(20):
    client = socket.create_connection(('127.0.0.1', 8080))
    server = listener.accept()[0]
    client.sendall(b'question')
    server.recv(100)
    if {answers}: server.sendall(b'answer'); client.recv(100)
    client.shutdown(socket.SHUT_WR)
    pairs.append((client, server))
ready()
sys.stdin.read()
",
        answers = if answers { "True" } else { "False" }
    )
}

#[test]
fn half_closed_connections_are_a_leak_unless_a_handler_works() {
    let (lab, here) = need!(alone("half_closed"));
    let works = Script::start(&here, &half_closed(false));
    let words = "--only close-wait,fin-wait2";
    // Older than the leak below is when it is found.
    let old = "--only close-wait --set close-wait.age=2s";
    super::faults::found_soon(&lab, &here, old, &["warning close-wait sockets"]);
    assert_eq!(look(&here, words), [] as [serde_json::Value; 0]);
    drop(works);
    let leaks = Script::start(&here, &half_closed(true));
    let list = found_soon(&lab, &here, "--only close-wait", &["warning close-wait sockets"]);
    assert_eq!((fact(&list[0], "drained"), &list[0]["sockets"]), (0, &20.into()));
    assert_eq!(list[0]["owners"][0]["pid"], leaks.pid());
    assert!(names(&list).contains(&name(&list[0])));
}

/// A program whose connections were reset by their clients, and never closed: no table has its sockets.
#[test]
fn descriptors_of_reset_connections_are_found() {
    let (lab, here) = need!(alone("reset_sockets"));
    let holder = Script::start(
        &here,
        "
import resource
resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100))
listener = socket.create_server(('127.0.0.1', 8080), backlog=100)
accepted = []
for _ in range(80):
    client = socket.create_connection(('127.0.0.1', 8080))
    accepted.append(listener.accept()[0])
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))
    client.close()
listener.close()
ready()
sys.stdin.read()
",
    );
    let list = found(&lab, &here, "--only open-files", &["warning open-files process"]);
    assert_eq!(list[0]["owners"][0]["pid"], holder.pid());
    assert_eq!(fact(&list[0], "dead_sockets"), 80);
}

/// The tables of the kernel come a page at a time: sockets behind the first page were taken for dead.
#[test]
fn descriptors_of_many_live_connections_are_not_dead() {
    let (lab, here) = need!(alone("live_sockets"));
    let holder = Script::start(
        &here,
        "
import resource
resource.setrlimit(resource.RLIMIT_NOFILE, (1000, 1000))
listener = socket.create_server(('127.0.0.1', 8080), backlog=100)
connected = []
for _ in range(450):
    client = socket.create_connection(('127.0.0.1', 8080))
    connected.append((client, listener.accept()[0]))
ready()
sys.stdin.read()
",
    );
    let list = found(&lab, &here, "--only open-files", &["warning open-files process"]);
    assert_eq!(list[0]["owners"][0]["pid"], holder.pid());
    assert_eq!(fact(&list[0], "sockets"), 901);
    assert!(list[0]["facts"].get("dead_sockets").is_none(), "{:#}", list[0]);
}
