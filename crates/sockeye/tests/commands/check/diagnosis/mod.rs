//! `sockeye check` in a laboratory's namespaces, and what it found.

use serde_json::Value;
use sockeye_lab::{Lab, LabSocket, Namespace, Process};
use std::net::{IpAddr, SocketAddr};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

pub(crate) const SOCKEYE: &str = env!("CARGO_BIN_EXE_sockeye");

/// How long a fault may take until it is found.
pub(crate) const SOON: Duration = Duration::from_secs(30);

/// What one look found, without what is the whole host's: others share that.
#[derive(Debug)]
pub(crate) struct Diagnosis {
    pub(crate) findings: Vec<Value>,
}

/// Looks into a namespace from outside. With `--watch` the last look counts.
#[track_caller]
pub(crate) fn check(namespace: &Namespace, words: &[&str]) -> Diagnosis {
    let mut command = Command::new(SOCKEYE);
    command.args(["check", "--format", "json", "--netns", namespace.name()]);
    diagnose(command.args(words))
}

/// Looks from inside, and at what the kernel itself dumps.
#[track_caller]
pub(crate) fn check_inside(namespace: &Namespace, words: &[&str]) -> Diagnosis {
    let words = [&["check", "--format", "json", "--source", "diag"], words].concat();
    diagnose(&mut namespace.command(SOCKEYE, &words))
}

/// Looks into several at once, as part of the whole host: rules on sockets only.
#[track_caller]
pub(crate) fn check_together(namespaces: &[&Namespace], words: &[&str]) -> Diagnosis {
    let each: Vec<String> = namespaces
        .iter()
        .map(|namespace| format!("netns = {}", namespace.name()))
        .collect();
    let mut command = Command::new(SOCKEYE);
    command.args(["check", "--format", "json", "--netns", "all"]);
    diagnose(command.args(words).arg(each.join(" or ")))
}

/// Looks until exactly these rules find something, each as often as it is named; counters are named as
/// `counters:NAME`.
#[track_caller]
pub(crate) fn expect(namespace: &Namespace, words: &[&str], rules: &[&str]) -> Diagnosis {
    until(rules, || check(namespace, words))
}

/// The same with a look of one's own.
#[track_caller]
pub(crate) fn until(rules: &[&str], mut look: impl FnMut() -> Diagnosis) -> Diagnosis {
    let begun = Instant::now();
    loop {
        let found = look();
        if found.rules() == rules {
            return found;
        }
        assert!(
            begun.elapsed() < SOON,
            "expected {rules:?}, found {:?}\n{found}",
            found.rules()
        );
        // A wait with a deadline of its own, to print what was found instead.
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[track_caller]
fn diagnose(command: &mut Command) -> Diagnosis {
    let output = command
        .env_remove("NO_COLOR")
        .stdin(Stdio::null())
        .output()
        .expect("the program starts");
    let (stdout, stderr) = (
        String::from_utf8(output.stdout).unwrap(),
        String::from_utf8_lossy(&output.stderr),
    );
    assert!(
        output.status.success(),
        "{command:?}: {}\n{stderr}",
        output.status
    );
    let last = stdout.lines().last().expect("a document");
    let mut document: Value = serde_json::from_str(last).unwrap_or_else(|error| panic!("{error}: {stdout}"));
    assert_eq!(
        document["checked"]["sockets_without_info"], 0,
        "{document}\n{stderr}"
    );
    let Value::Array(mut findings) = document["findings"].take() else {
        panic!("no findings in {stdout}");
    };
    findings.retain(|finding| !OF_THE_HOST.contains(&finding["rule"].as_str().unwrap()));
    Diagnosis { findings }
}

impl Diagnosis {
    /// The rules that found something, sorted by name.
    pub(crate) fn rules(&self) -> Vec<String> {
        let name = |finding: &Value| {
            let rule = finding["rule"].as_str().unwrap();
            match finding["subject"]["counter"].as_str() {
                Some(counter) => format!("{rule}:{counter}"),
                None => rule.to_owned(),
            }
        };
        let mut rules: Vec<String> = self.findings.iter().map(name).collect();
        rules.sort_unstable();
        rules
    }

    /// What this rule found; it must be one thing.
    #[track_caller]
    pub(crate) fn the(&self, rule: &str) -> Found<'_> {
        let found: Vec<&Value> = self
            .findings
            .iter()
            .filter(|finding| finding["rule"] == rule)
            .collect();
        match found[..] {
            [finding] => Found(finding),
            _ => panic!("{} times {rule} in\n{self}", found.len()),
        }
    }

    /// Nothing is wrong.
    #[track_caller]
    pub(crate) fn nothing(&self) {
        assert!(self.findings.is_empty(), "{self}");
    }
}

impl std::fmt::Display for Diagnosis {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for finding in &self.findings {
            writeln!(
                f,
                "{} {} {} {} {}",
                finding["rule"], finding["subject"], finding["owners"], finding["facts"], finding["examples"]
            )?;
        }
        Ok(())
    }
}

/// One finding.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Found<'a>(pub(crate) &'a Value);

impl<'a> Found<'a> {
    #[track_caller]
    pub(crate) fn severity(self, severity: &str) -> Self {
        assert_eq!(self.0["severity"], severity, "{}", self.0);
        self
    }

    /// This process owns it.
    #[track_caller]
    pub(crate) fn owned_by(self, process: &Process) -> Self {
        self.of(process.pid(), &String::from_utf8_lossy(process.comm()))
    }

    /// The process with this number and name owns it.
    #[track_caller]
    pub(crate) fn of(self, pid: u32, comm: &str) -> Self {
        assert_eq!(self.0["owners"][0]["pid"], pid, "{}", self.0);
        assert_eq!(self.0["owners"][0]["comm"], comm, "{}", self.0);
        self
    }

    /// It has no owner.
    #[track_caller]
    pub(crate) fn without_owner(self) -> Self {
        assert!(self.0["owners"].is_null(), "{}", self.0);
        self
    }

    /// It is about so many sockets, and this is the worst of them.
    #[track_caller]
    pub(crate) fn about(self, sockets: u64, worst: &LabSocket) -> Self {
        let example = self.counted(sockets);
        assert_eq!(end(&example["local"]), worst.local, "{}", self.0);
        if worst.peer.is_some() {
            assert_eq!(end(&example["peer"]), worst.peer, "{}", self.0);
        }
        if worst.inode != 0 {
            assert_eq!(example["inode"], worst.inode, "{}", self.0);
        } else {
            assert!(example["inode"].is_null(), "{}", self.0);
        }
        self
    }

    /// It is about so many sockets, of which the worst is shown.
    #[track_caller]
    pub(crate) fn counted(self, sockets: u64) -> &'a Value {
        assert_eq!(self.0["sockets"], sockets, "{}", self.0);
        let examples = self.0["examples"].as_array().unwrap();
        examples
            .first()
            .unwrap_or_else(|| panic!("no example: {}", self.0))
    }

    /// The subject is the listener at this end.
    #[track_caller]
    pub(crate) fn listener(self, listener: &LabSocket) -> Self {
        assert_eq!(self.0["subject"]["kind"], "listener", "{}", self.0);
        assert_eq!(end(&self.0["subject"]["local"]), listener.local, "{}", self.0);
        self.about(1, listener)
    }

    /// A number that proves it, of all together or of the worst socket.
    #[track_caller]
    pub(crate) fn fact(self, name: &str) -> u64 {
        let places = [&self.0["facts"][name], &self.0["examples"][0]["facts"][name]];
        let fact = places.into_iter().find_map(Value::as_u64);
        fact.unwrap_or_else(|| panic!("no fact {name} in {}", self.0))
    }

    /// Whether a remedy contains this.
    #[track_caller]
    pub(crate) fn remedy(self, text: &str) -> Self {
        let remedies = self.0["remedies"].as_array().unwrap();
        let mut words = remedies
            .iter()
            .filter_map(|remedy| remedy["command"].as_str().or(remedy["advice"].as_str()));
        assert!(
            words.any(|words| words.contains(text)),
            "no {text:?} in {}",
            self.0
        );
        self
    }
}

/// An `{"ip": ..., "port": ...}`.
pub(crate) fn end(value: &Value) -> Option<SocketAddr> {
    let ip: IpAddr = value["ip"].as_str()?.parse().ok()?;
    Some(SocketAddr::new(ip, u16::try_from(value["port"].as_u64()?).ok()?))
}

/// Hands a socket to a process of its own with this name, so that no other process owns it.
#[track_caller]
pub(crate) fn given(lab: &Lab, comm: &str, lab_socket: LabSocket) -> Process {
    lab.process(comm).taking(lab_socket).start()
}

const OF_THE_HOST: [&str; 7] = [
    "softnet",
    "softnet-squeezed",
    "neighbours",
    "tcp-memory",
    "udp-memory",
    "orphans",
    "open-files",
];
