//! Connections whose data stand still: for each fault, where the data are, and what is said of it.

mod connecting;
mod readers;
mod senders;

use super::check_schema;
use crate::commands::check::faults::Script;
use crate::fixtures::binary::{command, run};
use serde_json::Value;
use sockeye_lab::{DEADLINE, Lab, Namespace, Skip, program, wait_within};

/// Two namespaces with a link: 10.9.0.1 on `left`, here, and 10.9.0.2 on `right`, there.
fn ends(purpose: &str) -> Result<(Lab, Namespace, Namespace), Skip> {
    program("python3")?;
    let lab = Lab::new(purpose)?;
    let (here, there) = (lab.namespace("here"), lab.namespace("there"));
    for namespace in [&here, &there] {
        namespace.sysctl("ipv6/conf/default/disable_ipv6", "1");
        namespace.ip("link set lo up");
    }
    here.ip(&format!(
        "link add left type veth peer name right netns {}",
        there.name()
    ));
    here.ip("addr add 10.9.0.1/24 dev left");
    there.ip("addr add 10.9.0.2/24 dev right");
    here.ip("link set left up");
    there.ip("link set right up");
    Ok((lab, here, there))
}

/// A server at 10.9.0.2 that takes one connection, and then does this.
fn server(there: &Namespace, port: u16, reads: &str) -> Script {
    let text = format!(
        "
listener = socket.create_server(('0.0.0.0', {port}))
def read():
    taken = listener.accept()[0]
    {reads}
threading.Thread(target=read, daemon=True).start()
ready()
sys.stdin.read()
"
    );
    Script::start(there, &text)
}

/// What a server does that reads everything, and one that reads nothing.
const READS: &str = "while taken.recv(65536): pass";
const READS_NOTHING: &str = "time.sleep(1000)";

/// A client at 10.9.0.1 that has written what was acknowledged, and after a line writes so many bytes at once, without end.
fn client(here: &Namespace, to: &str, port: u16, bytes: u32) -> Script {
    let text = format!(
        "
connection = socket.create_connection(('{to}', {port}))
connection.sendall(bytes(1000))
while struct.unpack('i', fcntl.ioctl(connection, 0x5411, bytes(4)))[0]: time.sleep(0.01) # SIOCOUTQ: until it is acknowledged
ready()
sys.stdin.readline()
report('writes')
connection.setblocking(False)
while True:
    try: connection.send(bytes({bytes}))
    except BlockingIOError: pass
    time.sleep(0.05)
"
    );
    Script::start(here, &text)
}

/// Follows packets until the first sentence has this code; returns the document.
#[track_caller]
fn stands_still(code: &str, line: &str) -> Value {
    let mut last = Value::Null;
    wait_within(DEADLINE * 2, format_args!("{code}"), || {
        let mut path = command();
        path.args(["path", "-d", "1.5", "--format", "json"]);
        last = run(path.args(line.split_whitespace())).json();
        check_schema(&last);
        let is_it = last["sentences"][0]["code"] == code;
        if !is_it {
            eprintln!("not {code}: {last:#}");
        }
        is_it.then_some(())
    });
    last
}

/// The text of the first sentence, which must have these words.
#[track_caller]
fn says<'a>(document: &'a Value, words: &[&str]) -> &'a str {
    let text = document["sentences"][0]["text"].as_str().unwrap();
    for words in words {
        assert!(text.contains(words), "{words}: {text}");
    }
    text
}

/// Whether one of the commands of the first sentence is this, or begins with it.
#[track_caller]
fn commands(document: &Value, begin: &str) {
    let all = document["sentences"][0]["remedies"].as_array().unwrap();
    let is_it = |command: &Value| command.as_str().is_some_and(|command| command.starts_with(begin));
    assert!(all.iter().any(is_it), "{begin}: {all:#?}");
}

/// The row of a connection or a listener whose data stand still, for a second at least.
#[track_caller]
fn row<'a>(document: &'a Value, cause: &str) -> &'a Value {
    let rows = document["hops"].as_array().unwrap();
    let row = rows.iter().find(|row| row["waits_for"] == cause);
    let row = row.unwrap_or_else(|| panic!("no row {cause}: {document:#}"));
    let waits_ns = row["stands_still_ns"].as_u64().unwrap();
    assert!(waits_ns >= 1_000_000_000, "{row:#}");
    row
}
