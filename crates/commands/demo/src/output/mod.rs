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
    /// What it shows without the tunnel and the lossy link; `None`: nothing of interest.
    shows_without_tunnels: Option<&'static str>,
}

/// Appends the commands and what each shows. Commands stay in one line, however narrow the terminal is, so that they can be copied.
pub fn push_scene(out: &mut Vec<u8>, scene: &Scene, width: Option<usize>) {
    let begin = "A host with faults runs in a network namespace of its own. Type in another terminal:";
    push_wrapped(out, begin.as_bytes(), "", width);
    for suggestion in SUGGESTIONS {
        let shows = match (scene.has_tunnels, suggestion.shows_without_tunnels) {
            (true, _) => suggestion.shows,
            (false, Some(shows)) => shows,
            (false, None) => continue,
        };
        out.extend_from_slice(format!("  $ {}\n", scene.command_line(suggestion)).as_bytes());
        push_wrapped(out, shows.as_bytes(), "    ", width);
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
        shows: CLIENTS,
        shows_without_tunnels: Some(CLIENTS),
    },
    Suggestion {
        command: "check",
        arguments: "-n",
        then: None,
        shows: "what is wrong: stuck accepts nothing, backend leaks connections, the queue of vpn0 is too short, sync loses segments",
        shows_without_tunnels: Some("what is wrong: stuck accepts nothing, backend leaks connections"),
    },
    Suggestion {
        command: "sockets",
        arguments: "-tlnp",
        then: None,
        shows: LISTENERS,
        shows_without_tunnels: Some(LISTENERS),
    },
    Suggestion {
        command: "sockets",
        arguments: "-tnp state close-wait",
        then: None,
        shows: LEAKED,
        shows_without_tunnels: Some(LEAKED),
    },
    Suggestion {
        command: "sockets",
        arguments: "-tinp 'retrans > 0'",
        then: None,
        shows: "who sends again what was lost: backup and sync",
        shows_without_tunnels: None,
    },
    Suggestion {
        command: "capture",
        arguments: "-i vpn0 -d 3 -o -",
        then: Some("analyze -"),
        shows: "why backup is slow: losses cost its time, and on a quiet machine it shows the short queue",
        shows_without_tunnels: None,
    },
];

const CLIENTS: &str = "who talks to whom: web has 120 clients, at three addresses";
const LISTENERS: &str = "what listens: 5 connections wait for stuck (Recv-Q), its backlog is 4 (Send-Q)";
const LEAKED: &str = "12 connections that clients have closed, and backend has not";

#[cfg(test)]
mod tests {
    use super::*;

    fn scene() -> Scene {
        Scene {
            program: "sockeye".to_owned(),
            pid: 4711,
            is_in_user_namespace: false,
            needs_sudo: false,
            has_tunnels: true,
        }
    }

    fn commands(scene: &Scene, width: Option<usize>) -> Vec<String> {
        let mut out = Vec::new();
        push_scene(&mut out, scene, width);
        let text = String::from_utf8(out).unwrap();
        text.lines()
            .filter_map(|line| Some(line.strip_prefix("  $ ")?.to_owned()))
            .collect()
    }

    #[test]
    fn commands_stay_in_one_line_and_fit_a_screen() {
        let all = commands(&scene(), None);
        assert_eq!(all.len(), 6);
        assert_eq!(all[1], "sockeye check --netns 4711 -n");
        assert_eq!(
            all[5],
            "sockeye capture --netns 4711 -i vpn0 -d 3 -o - | sockeye analyze -"
        );
        for width in [1, 20, 40, 80, 200] {
            assert_eq!(commands(&scene(), Some(width)), all);
        }
        let mut out = Vec::new();
        push_scene(&mut out, &scene(), Some(80));
        let text = String::from_utf8(out).unwrap();
        assert!(text.lines().count() < 24, "{text}");
        assert!(text.lines().all(|line| line.len() <= 80), "{text}");
    }

    #[test]
    fn commands_reach_the_world_from_another_terminal() {
        let sudo = Scene {
            needs_sudo: true,
            program: "./my target/sockeye".to_owned(),
            ..scene()
        };
        assert_eq!(
            commands(&sudo, None)[0],
            "sudo './my target/sockeye' flows --netns 4711 -np"
        );
        let user = Scene {
            is_in_user_namespace: true,
            has_tunnels: false,
            ..scene()
        };
        let all = commands(&user, None);
        assert_eq!(all.len(), 4);
        assert_eq!(
            all[0],
            "nsenter -t 4711 -U -n --preserve-credentials sockeye flows -np"
        );
    }

    #[test]
    fn without_tunnels_no_text_names_them() {
        let mut out = Vec::new();
        push_scene(
            &mut out,
            &Scene {
                has_tunnels: false,
                ..scene()
            },
            None,
        );
        let text = String::from_utf8(out).unwrap();
        for name in ["vpn0", "wan0", "backup", "sync"] {
            assert!(!text.contains(name), "{name}: {text}");
        }
    }
}
