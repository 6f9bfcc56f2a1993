//! Body of the fuzz target `saved_sockets`, and of the test that replays its corpus: files of `ss -D`, which `TCPDIAG_FILE` names.

use super::output::{SsLayout, SsLevel, SsNames, SsOwners, SsRow, SsWriter};
use sockeye_model::{Comm, DiagDetails, Names, Protocol, Socket};
use sockeye_source::saved::{Broken, END, message, read};

/// The first byte chooses the layout; the rest is the file.
pub(crate) fn saved_sockets(bytes: &[u8]) {
    let Some((&first, bytes)) = bytes.split_first() else {
        return;
    };
    let layout = SsLayout {
        level: SsLevel::ALL[usize::from(first >> 4) % SsLevel::ALL.len()],
        queues: first & 0x40 == 0,
        processes: first & 0x80 == 0,
        netid: first & 1 != 0,
        state: first & 2 != 0,
        timers: true,
        extended: true,
        memory: true,
        info: true,
        service_class: true,
        cgroup: true,
        options: true,
        bpf: true,
        one_line: first & 4 != 0,
        numeric: true,
        width: (first & 8 != 0).then_some(80),
        terminal: true,
    };
    let mut writer = SsWriter::new(Vec::new(), layout);
    writer.header();
    let (mut sockets, mut again) = (Vec::new(), Vec::new());
    let outcome = read(&mut &bytes[..], &mut |socket, context| {
        let payload = context.message.expect("a message of the file");
        let row = SsRow {
            socket,
            diag_details: &DiagDetails::read(socket.protocol, payload),
            owners: SsOwners::None,
            is_brief: false,
        };
        writer.row(&row, &NoNames).expect("a vector takes it");
        // It has nothing of those before it.
        let alone = [&message(payload)[..], &END].concat();
        let read_alone = read(&mut &alone[..], &mut |alone, _| assert_eq!(alone, socket));
        assert_eq!(read_alone, Ok(()));
        sockets.push(socket.clone());
        again.extend(message(payload));
    });
    match &outcome {
        Ok(()) | Err(Broken::Error(_)) => assert!(bytes.len() >= 16 + 72 * sockets.len()),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
    // Written again, it has the same sockets.
    again.extend(END);
    let mut place = 0;
    let read_again = read(&mut &again[..], &mut |socket, _| {
        assert_eq!(Some(socket), sockets.get(place));
        place += 1;
    });
    assert_eq!((read_again, place), (Ok(()), sockets.len()));
    let text = writer.into_output().expect("a vector takes it");
    let text = String::from_utf8_lossy(&text);
    assert!(
        text.chars().all(|c| !c.is_control() || matches!(c, '\n' | '\t')),
        "{text:?}"
    );
    assert!(
        sockets
            .iter()
            .all(|socket: &Socket| socket.protocol == Protocol::Tcp)
    );
}

/// No names: everything is a number.
struct NoNames;

impl Names for NoNames {}

impl SsNames for NoNames {
    fn netlink_protocol(&self, _: u8) -> Option<&str> {
        None
    }

    fn process(&self, _: u32) -> Option<Comm> {
        None
    }
}
