//! What is said of sockets in whose queues nothing waits.

use super::words::{ends, span};
use crate::report::PathReport;
use crate::stuck::Idle;
use sockeye_measure::Sentence;
use sockeye_model::State;

impl Idle {
    pub(super) fn sentence(&self) -> Sentence {
        let socket = &self.latest;
        let info = socket.tcp_info.unwrap_or_default();
        // Without data the kernel counts from the beginning of the connection.
        let ago = |ms: Option<u32>, segments: Option<u32>, what: [&str; 2]| {
            let ago = span(u64::from(ms?) * 1_000_000);
            Some(match segments {
                Some(0) => format!("{} in the {ago} of the connection", what[1]),
                _ => format!("{} {ago} ago", what[0]),
            })
        };
        let sent = ago(
            socket.last_data_sent_ms(),
            info.data_segs_out,
            ["data was sent last", "nothing was sent"],
        );
        let received = ago(
            socket.last_data_recv_ms(),
            info.data_segs_in,
            ["data came in last", "nothing came in"],
        );
        let times = sent.zip(received);
        let times = times.map_or_else(String::new, |(sent, received)| {
            format!(": {sent}, and {received}")
        });
        let which = match self.connections {
            1 => format!("The connection {} is idle", ends(socket, "to")),
            many => format!(
                "{many} connections are idle; the latest is {}",
                ends(socket, "to")
            ),
        };
        let closed = match socket.state {
            State::CloseWait => " The peer has closed its end, and the program has not closed its own.",
            State::FinWait2 => " The program has closed its end, and the peer has not closed its own.",
            _ => "",
        };
        let program = match &self.program {
            Some(program) if program.activity().is_empty() => {
                format!(" Look at the application: its program is {}.", program.name())
            }
            Some(program) => format!(
                " Look at the application: its program ({}) {}.",
                program.name(),
                program.activity()
            ),
            None => " Look at the application.".to_owned(),
        };
        let text = format!(
            "{which}: both queues are empty, so that nothing waits here or for the peer{times}. No program has written anything since.{closed}{program}"
        );
        let command = self.program.and_then(|program| program.command());
        Sentence::new("idle", text).with(command)
    }
}

impl PathReport {
    /// Says of sockets without packets that nothing waits there either, or that there are none.
    pub(super) fn nothing_waits(&self) -> Option<Sentence> {
        let sockets = self.sockets?;
        if sockets == 0 {
            let text = "No socket matches, either: there is nothing to follow. Is the filter right, and the network namespace?";
            return Some(Sentence::new("no-socket", text));
        }
        let text = format!(
            "{} at the end, and nothing has waited for long in {}.",
            match sockets {
                1 => "1 socket matches".to_owned(),
                _ => format!("{sockets} sockets match"),
            },
            if sockets == 1 {
                "its queues"
            } else {
                "their queues"
            }
        );
        let is_said = !self.stuck.is_empty() || self.idle.is_some();
        (!is_said).then(|| Sentence::new("nothing-waits", text))
    }
}
