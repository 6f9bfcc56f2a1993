//! What to type in the world, and what it shows.

use sockeye_output::wrap::push_wrapped;

/// The running world, as its user reaches it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scene {
    /// Name or path of this program, as it was typed.
    pub program: String,
    /// Process in the namespace of the host with faults.
    pub pid: u32,
    /// Whether it is in a user namespace, and so not reached by a network namespace alone.
    pub is_in_user_namespace: bool,
    /// Whether another terminal needs `sudo`.
    pub needs_sudo: bool,
    /// Whether it has the tunnel and the lossy link.
    pub has_tunnels: bool,
}

/// A command to type.
struct Suggestion {
    command: &'static str,
    arguments: &'static str,
    /// The command that reads its output.
    then: Option<&'static str>,
    shows: &'static str,
    needs_tunnels: bool,
}

/// Appends the commands and what each shows. Commands stay in one line, however narrow the terminal is, so that they can be copied.
pub fn push_scene(out: &mut Vec<u8>, scene: &Scene, width: Option<usize>) {
    let begin = "A host with faults runs in a network namespace of its own. Type in another terminal:";
    push_wrapped(out, begin.as_bytes(), "", width);
    for suggestion in SUGGESTIONS {
        if suggestion.needs_tunnels && !scene.has_tunnels {
            continue;
        }
        out.extend_from_slice(format!("  $ {}\n", scene.command_line(suggestion)).as_bytes());
        push_wrapped(out, suggestion.shows.as_bytes(), "    ", width);
    }
    let end = "^C ends it, and nothing stays.";
    push_wrapped(out, end.as_bytes(), "", width);
}

impl Scene {
    fn command_line(&self, suggestion: &Suggestion) -> String {
        let program = quoted(&self.program);
        let Suggestion {
            command,
            arguments,
            then,
            ..
        } = suggestion;
        let pid = self.pid;
        let line = if self.is_in_user_namespace {
            format!("nsenter -t {pid} -U -n --preserve-credentials {program} {command} {arguments}")
        } else {
            let sudo = if self.needs_sudo { "sudo " } else { "" };
            format!("{sudo}{program} {command} --netns {pid} {arguments}")
        };
        then.map_or(line.clone(), |then| format!("{line} | {program} {then}"))
    }
}

/// Returns a word for a shell.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+".contains(c);
    if word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

const SUGGESTIONS: &[Suggestion] = &[
    Suggestion {
        command: "flows",
        arguments: "-np",
        then: None,
        shows: "who talks to whom: web has 120 clients, at three addresses",
        needs_tunnels: false,
    },
    Suggestion {
        command: "check",
        arguments: "-n",
        then: None,
        shows: "what is wrong: stuck accepts nothing, backend leaks connections, the queue of vpn0 is too short, sync loses segments",
        needs_tunnels: false,
    },
    Suggestion {
        command: "sockets",
        arguments: "-tlnp",
        then: None,
        shows: "what listens: 5 connections wait for stuck (Recv-Q), its backlog is 4 (Send-Q)",
        needs_tunnels: false,
    },
    Suggestion {
        command: "sockets",
        arguments: "-tnp state close-wait",
        then: None,
        shows: "12 connections that clients have closed, and backend has not",
        needs_tunnels: false,
    },
    Suggestion {
        command: "sockets",
        arguments: "-tinp 'retrans > 0'",
        then: None,
        shows: "who sends again what was lost: backup and sync",
        needs_tunnels: true,
    },
    Suggestion {
        command: "capture",
        arguments: "-i vpn0 -a 3 -o -",
        then: Some("analyze -"),
        shows: "why backup is slow: a queue of three packets overflows",
        needs_tunnels: true,
    },
];
