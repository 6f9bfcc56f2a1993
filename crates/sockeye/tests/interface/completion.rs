//! Completion, as bash, zsh and fish do it with the scripts that the binary prints.

use super::folder;
use crate::fixtures::binary::{self, run, sockeye, words};
use crate::fixtures::terminal::Terminal;
use sockeye_lab::{Lab, Skip, need, program, wait_until};
use std::ffi::OsString;
use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

/// Lines up to the cursor, and the last word after the Tab key. Each has one completion only.
const CASES: &[(&str, &str)] = &[
    // What clap knows.
    ("soc", "sockets"),
    ("flows --group-", "--group-by"),
    // Values that are looked up: after a blank, after '=', in a list, after short flags in one word.
    ("sockets --columns rtt_u", "rtt_us"),
    ("sockets --columns=rtt_u", "--columns=rtt_us"),
    ("sockets --columns state,rtt_u", "state,rtt_us"),
    ("sockets --columns=state,rtt_u", "--columns=state,rtt_us"),
    ("sockets -tnN al", "all"),
    ("sockets -tnNal", "-tnNall"),
    ("sockets --sort recv_", "recv_queue_bytes"),
    ("s --columns rtt_u", "rtt_us"),
    ("flows --columns conn", "connections"),
    ("--columns conn", "connections"),
    ("flows --sort opene", "opened_per_s"),
    ("flows --group-by cont", "container"),
    ("flows --sort -opene", "-opened_per_s"),
    ("ns list --columns netns_", "netns_inode"),
    ("ns ls --sort=netns_", "--sort=netns_inode"),
    ("check --only accept-q", "accept-queue"),
    ("check --skip close-wait,accept-q", "close-wait,accept-queue"),
    ("check --set close-wait.ag", "close-wait.age=1m"),
    ("check --set=close-wait.ag", "--set=close-wait.age=1m"),
    ("capture -i an", "any"),
    ("check --fail-on warn", "warning"),
    ("check --severity=crit", "--severity=critical"),
    ("explain --severity noti", "notice"),
    ("keepalive list --netns al", "all"),
    // Words of filters, also behind other words.
    ("sockets dpor", "dport"),
    ("sockets -tn state close-w", "close-wait"),
    ("kill -N all stat", "state"),
    ("keepalive set own", "owner"),
    ("analyze some.pcapng dpor", "dport"),
    ("ns list leak", "leaked"),
    ("ns list leaked and interf", "interfaces"),
];

#[test]
fn bash_completes_words_and_values() {
    let bash = need!(program("bash"));
    let mut shell = need!(Shell::start(&bash, &["--norc", "--noprofile", "-i"]));
    shell.type_line("source <(sockeye completions bash)");
    for (line, expected) in CASES {
        shell.assert_completes(line, expected);
    }
    shell.exit();
}

/// zsh loads the script when it completes for the first time: the first line is completed like the others.
#[test]
fn zsh_completes_from_the_first_line_on() {
    let zsh = need!(program("zsh"));
    let folder = folder("zsh");
    std::fs::write(folder.join("_sockeye"), words("completions zsh").quiet()).expect("write");
    let mut shell = need!(Shell::start(&zsh, &["-f", "-i"]));
    shell.type_line(&format!(
        "fpath=({} $fpath); autoload -Uz compinit; compinit -D -u",
        folder.display()
    ));
    // The first one is looked up.
    for (line, expected) in CASES.iter().rev() {
        shell.assert_completes(line, expected);
    }
    shell.exit();
    std::fs::remove_dir_all(&folder).expect("remove");
}

#[test]
fn fish_completes_words_and_values() {
    let fish = need!(program("fish"));
    let home = folder("fish");
    let lines: Vec<String> = CASES
        .iter()
        .map(|(line, _)| format!("complete -C 'sockeye {line}'; echo DONE"))
        .collect();
    let script = format!("sockeye completions fish | source\n{}", lines.join("\n"));
    let outcome = run(Command::new(fish)
        .args(["--no-config", "-c", &script])
        .env("PATH", path_with_sockeye())
        .env("HOME", &home));
    std::fs::remove_dir_all(&home).expect("remove");
    let text = outcome.quiet();
    let answers: Vec<&str> = text.split("DONE\n").collect();
    for ((line, expected), answer) in CASES.iter().zip(answers) {
        let words: Vec<&str> = answer
            .lines()
            .filter_map(|line| line.split('\t').next())
            .collect();
        assert_eq!(words, [*expected], "{line}");
    }
}

/// Lines up to the cursor in a pid namespace whose only process with a 9 at the beginning is 9999, `sleep`.
const PROCESS_CASES: &[(&str, &str)] = &[
    ("prof -p 99", "9999"),
    ("prof --pid=99", "--pid=9999"),
    ("prof -p 1,99", "1,9999"),
    ("ns identify 99", "9999"),
    ("ns attach web1 99", "9999"),
    ("flows -N 99", "9999"),
    ("capture --netns 99", "9999"),
    ("keepalive attach 99", "9999"),
    ("sockets pid = 99", "9999"),
    ("kill owner = slee", "sleep"),
];

/// Starts the process of [`PROCESS_CASES`].
const START_PROCESS: &str = "echo 9998 > /proc/sys/kernel/ns_last_pid; sleep 100 &";

/// The words that run a shell in a pid namespace of its own; its end ends what it started.
const OWN_PIDS: [&str; 3] = ["--pid", "--fork", "--mount-proc"];

#[test]
fn bash_completes_processes() {
    let (bash, unshare) = (need!(program("bash")), need!(program("unshare")));
    let words = OWN_PIDS
        .into_iter()
        .chain([bash.to_str().expect("UTF-8"), "--norc", "--noprofile", "-i"]);
    let mut shell = need!(Shell::start(&unshare, &words.collect::<Vec<_>>()));
    shell.type_line("source <(sockeye completions bash)");
    // Without a job of its own: zsh does not exit at once while one runs.
    shell.type_line(&format!("{START_PROCESS} disown"));
    for (line, expected) in PROCESS_CASES {
        shell.assert_completes(line, expected);
    }
    shell.exit();
}

#[test]
fn zsh_completes_processes_with_their_names() {
    let (zsh, unshare) = (need!(program("zsh")), need!(program("unshare")));
    let folder = folder("zsh-processes");
    std::fs::write(folder.join("_sockeye"), words("completions zsh").quiet()).expect("write");
    let words = OWN_PIDS
        .into_iter()
        .chain([zsh.to_str().expect("UTF-8"), "-f", "-i"]);
    let mut shell = need!(Shell::start(&unshare, &words.collect::<Vec<_>>()));
    shell.type_line(&format!(
        "fpath=({} $fpath); autoload -Uz compinit; compinit -D -u",
        folder.display()
    ));
    // Without a job of its own: zsh does not exit at once while one runs.
    shell.type_line(&format!("{START_PROCESS} disown"));
    for (line, expected) in PROCESS_CASES {
        shell.assert_completes(line, expected);
    }
    // Of several, zsh shows a list with the names.
    shell.type_text("sockeye prof -p \t");
    shell.wait_for("9999  sleep");
    shell.type_text("\u{3}");
    shell.wait_for("# ");
    shell.type_line("kill -9 9999");
    shell.exit();
    std::fs::remove_dir_all(&folder).expect("remove");
}

#[test]
fn fish_completes_processes_with_their_names() {
    let (fish, unshare) = (need!(program("fish")), need!(program("unshare")));
    let home = folder("fish-processes");
    let lines: Vec<String> = PROCESS_CASES
        .iter()
        .map(|(line, _)| format!("complete -C 'sockeye {line}'; echo DONE"))
        .collect();
    let script = format!(
        "sockeye completions fish | source\n{START_PROCESS}\n{}",
        lines.join("\n")
    );
    let outcome = run(Command::new(unshare)
        .args(OWN_PIDS)
        .arg(fish)
        .args(["--no-config", "-c", &script])
        .env("PATH", path_with_sockeye())
        .env("HOME", &home));
    std::fs::remove_dir_all(&home).expect("remove");
    let text = outcome.quiet();
    for ((line, expected), answer) in PROCESS_CASES.iter().zip(text.split("DONE\n")) {
        let expected = if expected.ends_with('9') {
            format!("{expected}\tsleep\n")
        } else {
            format!("{expected}\n")
        };
        assert_eq!(answer, expected, "{line}");
    }
}

#[test]
fn names_of_processes_are_plain_words() {
    let lab = need!(Lab::new("completion"));
    let here = lab.namespace("here");
    let odd = lab.process(b"$(reboot)\t\x1b").in_namespace(&here).start();
    let outcome = sockeye(&["complete", "--", "sockets", "owner", "=", ""]);
    assert!(
        outcome.quiet().lines().count() > 1 && !outcome.quiet().contains("reboot"),
        "{outcome}"
    );
    let pid = odd.pid().to_string();
    let outcome = sockeye(&["complete", "--described", "--", "prof", "-p", &pid]);
    let line = outcome
        .quiet()
        .lines()
        .find(|line| line.starts_with(&format!("{pid}\t")));
    // Escaped: the text is printed over the line that is being typed.
    let about = line
        .and_then(|line| line.split_once('\t'))
        .expect("a description")
        .1;
    assert!(about.starts_with("$(reboot)\\x09"), "{outcome}");
}

#[test]
fn names_that_explain_knows_are_offered_in_any_case() {
    for typed in ["ETI", "eti"] {
        let outcome = sockeye(&["complete", "--", "explain", typed]);
        assert_eq!(outcome.quiet(), "ETIME\nETIMEDOUT\n", "{typed}");
    }
    // All of them would fill the screen.
    assert_eq!(sockeye(&["complete", "--", "explain", ""]).quiet(), "");
}

#[test]
fn values_of_other_commands_are_not_offered() {
    for line in [
        "kill --columns=sta",
        "sockets --format json",
        "ns exec web1 ip",
        "keepalive attach sta",
        "explain dpor",
        "analyze dpor",
        "nonsense",
        "",
    ] {
        let mut arguments = vec!["complete", "--"];
        arguments.extend(line.split_whitespace());
        let outcome = sockeye(&arguments);
        let offered = if line.contains("--format") {
            "json\njsonl\n"
        } else {
            ""
        };
        assert_eq!(outcome.quiet(), offered, "{line}");
    }
    // Words that are not UTF-8 are not completed either, and nothing is printed over the line.
    let odd: OsString = std::os::unix::ffi::OsStringExt::from_vec(b"\xff".to_vec());
    assert!(sockeye(&["complete".into(), "--".into(), odd]).stdout.is_empty());
}

#[test]
fn bash_offers_options_only_after_a_hyphen() {
    let bash = need!(program("bash"));
    for (line, has_words) in [("analyze ", false), ("analyze --", true), ("keepalive ", true)] {
        let words = line.replace(' ', "' '");
        let script = format!(
            "source <({} completions bash); COMP_LINE='sockeye {line}'; COMP_WORDS=(sockeye '{words}'); COMP_CWORD=2; \
             [[ $COMP_LINE == *' ' ]] && COMP_WORDS[2]=; \
             _sockeye_with_values sockeye \"${{COMP_WORDS[2]}}\" \"${{COMP_WORDS[1]}}\"; printf '%s\\n' \"${{COMPREPLY[@]}}\"",
            binary::SOCKEYE
        );
        let outcome = run(Command::new(&bash)
            .args(["-c", &script])
            .env("PATH", path_with_sockeye()));
        let offered: Vec<&str> = outcome.quiet().lines().filter(|word| !word.is_empty()).collect();
        assert_eq!(!offered.is_empty(), has_words, "{line}: {offered:?}");
        assert!(
            line.ends_with("--") || offered.iter().all(|word| !word.starts_with('-')),
            "{line}: {offered:?}"
        );
    }
}

#[test]
fn bash_completion_executes_no_name() {
    let bash = need!(program("bash"));
    let folder = folder("completion");
    let fake = folder.join("sockeye");
    let mark = folder.join("mark");
    // A replacement whose values an unquoted script would expand.
    std::fs::write(&fake, format!("#!/bin/sh\necho '$(touch {})'\n", mark.display())).expect("write");
    std::fs::set_permissions(&fake, std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("chmod");
    let script = format!(
        "source <({} completions bash); PATH={}:$PATH; COMP_LINE='sockeye capture -i '; COMP_WORDS=(sockeye capture -i ''); COMP_CWORD=3; \
         _sockeye_with_values sockeye '' -i; printf '%s\\n' \"${{COMPREPLY[@]}}\"",
        binary::SOCKEYE,
        folder.display()
    );
    let outcome = run(Command::new(&bash).args(["-c", &script]));
    let was_executed = mark.exists();
    std::fs::remove_dir_all(&folder).expect("remove");
    assert!(outcome.ok().starts_with("$(touch "), "{outcome}");
    assert!(!was_executed, "{outcome}");
}

#[test]
fn completion_scripts_are_valid() {
    for (shell, check) in [
        ("bash", &["-n"][..]),
        ("zsh", &["-n"]),
        ("fish", &["--no-execute"]),
        ("elvish", &["-compileonly"]),
        ("powershell", &[]),
    ] {
        let outcome = words(&format!("completions {shell}"));
        let script = outcome.quiet();
        for expected in ["sockeye", "sockets", "group-by", "names-timeout"] {
            assert!(script.contains(expected), "{shell}: {expected}");
        }
        match program(shell) {
            Err(_) => Skip::new(format!("no {shell} to check its completions with")).print(),
            Ok(program) => {
                let folder = folder(shell);
                let file = folder.join("script");
                std::fs::write(&file, script).expect("write");
                let outcome = run(Command::new(program).args(check).arg(&file));
                std::fs::remove_dir_all(&folder).expect("remove");
                outcome.quiet();
            }
        }
    }
}

fn path_with_sockeye() -> OsString {
    let folder = Path::new(binary::SOCKEYE).parent().expect("a folder");
    let others = std::env::var_os("PATH").unwrap_or_default();
    let all = std::iter::once(folder.to_owned()).chain(std::env::split_paths(&others));
    std::env::join_paths(all).expect("a path")
}

/// An interactive shell on a terminal of its own, with the keys of Emacs.
struct Shell {
    child: Child,
    terminal: File,
    /// Everything that it wrote.
    written: Vec<u8>,
}

impl Shell {
    fn start(shell: &Path, arguments: &[&str]) -> Result<Self, Skip> {
        // A shell that waits for an answer is ended; a session of its own has the terminal for its own.
        let mut command = Command::new(program("timeout")?);
        command
            .args(["-s", "KILL", "100"])
            .arg(program("setsid")?)
            .arg("-c");
        let terminal = Terminal::new(80);
        command
            .arg(shell)
            .args(arguments)
            .env("PATH", path_with_sockeye())
            .env("TERM", "dumb")
            .env("HOME", std::env::temp_dir())
            .env("HISTFILE", "/dev/null")
            .stdin(terminal.stdio())
            .stdout(terminal.stdio())
            .stderr(terminal.stdio());
        Ok(Self {
            child: command.spawn().expect("the shell starts"),
            terminal: terminal.into_main(),
            written: Vec::new(),
        })
    }

    /// Types a line, and waits until it was run; returns what was written meanwhile.
    fn type_line(&mut self, line: &str) -> String {
        let before = self.written.len();
        // In two parts, so that the echo of the line is not the mark.
        self.type_text(&format!("{line}; printf 'DO''NE\\n'\r"));
        let mut bytes = [0; 4096];
        loop {
            let new = String::from_utf8_lossy(&self.written[before..]).into_owned();
            if new.contains("DONE\r\n") {
                return new;
            }
            let read = self.terminal.read(&mut bytes).unwrap_or(0);
            assert!(read > 0, "the shell ended or waits: {new}");
            self.written.extend_from_slice(&bytes[..read]);
        }
    }

    /// Reads until this text was written.
    fn wait_for(&mut self, text: &str) {
        let before = self.written.len();
        let mut bytes = [0; 4096];
        loop {
            let new = String::from_utf8_lossy(&self.written[before..]).into_owned();
            if new.contains(text) {
                return;
            }
            let read = self.terminal.read(&mut bytes).unwrap_or(0);
            assert!(read > 0, "the shell ended or waits: {new}");
            self.written.extend_from_slice(&bytes[..read]);
        }
    }

    fn type_text(&mut self, text: &str) {
        self.terminal
            .write_all(text.as_bytes())
            .expect("a terminal takes text");
    }

    /// Types the line, the Tab key, and a command before it (^A goes to the beginning, ^E to the end) that prints its words.
    #[track_caller]
    fn assert_completes(&mut self, line: &str, expected: &str) {
        let written = self.type_line(&format!("sockeye {line}\t\u{1}printf 'WORD<%s>\\n' \u{5}"));
        let mut words = written
            .lines()
            .filter_map(|line| line.strip_prefix("WORD<")?.strip_suffix('>'));
        let last = words.next_back().unwrap_or_default();
        assert_eq!(last, expected, "{line}: {written}");
    }

    fn exit(mut self) {
        let mut typed: Option<Instant> = None;
        wait_until("the end of the shell", || {
            // A shell that is about to read a line may lose what is typed in that moment.
            if typed.is_none_or(|when| when.elapsed() > Duration::from_secs(2)) {
                let _ = self.terminal.write_all(b"exit\r");
                typed = Some(Instant::now());
            }
            self.child.try_wait().expect("it can be waited for").is_some()
        });
    }
}
