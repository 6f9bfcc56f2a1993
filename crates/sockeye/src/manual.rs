//! Manual pages, from the definitions of `args.rs`: what clap knows, examples as they are, and what a page says besides.

use crate::args::Cli;
use anyhow::Context;
use clap::{Command, CommandFactory};
use sockeye_filter::words;
use std::fmt::Write as _;
use std::path::Path;

/// Writes a page for `sockeye`, one for each of its commands, and one for its filters.
pub(crate) fn write(folder: &Path) -> anyhow::Result<()> {
    let mut root = Cli::command().disable_help_subcommand(true);
    root.build();
    let pages =
        std::iter::once(("sockeye-filter.7".to_owned(), filter_page().into_bytes())).chain(pages(&root));
    for (name, page) in pages {
        let path = folder.join(name);
        std::fs::write(&path, page)
            .with_context(|| format!("write manual pages into {}", folder.display()))?;
    }
    Ok(())
}

fn pages(command: &Command) -> Vec<(String, Vec<u8>)> {
    let mut all = vec![page(command)];
    let shown = command.get_subcommands().filter(|command| !command.is_hide_set());
    all.extend(shown.flat_map(pages));
    all
}

fn page(command: &Command) -> (String, Vec<u8>) {
    let name = command
        .get_display_name()
        .unwrap_or_else(|| command.get_name())
        .to_owned();
    let after = command
        .get_after_long_help()
        .or_else(|| command.get_after_help())
        .map(ToString::to_string)
        .unwrap_or_default();
    // Without what comes after the options: this module lays it out.
    let bare = command.clone().after_help("").after_long_help("").version("");
    let man = clap_mangen::Man::new(bare)
        .title(name.to_uppercase())
        .source(concat!("sockeye ", env!("CARGO_PKG_VERSION")))
        .manual("Sockeye");
    let mut out = Vec::new();
    // Writing into a Vec cannot fail.
    let _ = man
        .render_title(&mut out)
        .and_then(|()| man.render_name_section(&mut out))
        .and_then(|()| man.render_synopsis_section(&mut out))
        .and_then(|()| man.render_description_section(&mut out))
        .and_then(|()| man.render_options_section(&mut out));
    if command.get_subcommands().any(|command| !command.is_hide_set()) {
        let _ = man.render_subcommands_section(&mut out);
    }
    out.extend_from_slice(sections(&name, &after).as_bytes());
    (format!("{name}.1"), out)
}

/// The sections after the options.
fn sections(name: &str, after: &str) -> String {
    let mut text = String::new();
    let mut notes = String::new();
    let mut own_status = None;
    for block in after.split("\n\n") {
        let block = block.trim_matches('\n');
        if let Some(examples) = block.strip_prefix("Examples:\n") {
            unfilled(&mut text, "EXAMPLES", examples);
        } else if let Some(status) = block.strip_prefix("Exit status:") {
            own_status = Some(status.trim());
        } else if !block.is_empty() {
            notes.push_str(block);
            notes.push_str("\n\n");
        }
    }
    if !notes.is_empty() {
        section(&mut text, "NOTES", &notes);
    }
    let family = name.strip_prefix("sockeye-").unwrap_or_default();
    let family = family.split('-').next().unwrap_or_default();
    let about = ABOUT
        .iter()
        .find(|about| about.command == family)
        .unwrap_or(&ABOUT[0]);
    listed(&mut text, "FILES", about.files.iter().chain(COMMON_FILES));
    listed(&mut text, "ENVIRONMENT", ENVIRONMENT.iter());
    match own_status {
        Some(status) => section(&mut text, "EXIT STATUS", status),
        None => listed(&mut text, "EXIT STATUS", EXIT_STATUS.iter()),
    }
    let mut see = vec!["sockeye(1)", "sockeye-filter(7)"];
    see.extend(about.see_also);
    see.retain(|page| page.split('(').next() != Some(name));
    section(&mut text, "SEE ALSO", &see.join(", "));
    text
}

fn section(out: &mut String, heading: &str, text: &str) {
    let _ = writeln!(out, ".SH {}", quoted(heading));
    for paragraph in text.trim_end().split("\n\n") {
        let _ = writeln!(out, ".PP");
        for line in paragraph.lines() {
            let _ = writeln!(out, "{}", escaped(line));
        }
    }
}

fn unfilled(out: &mut String, heading: &str, text: &str) {
    let _ = writeln!(out, ".SH {}\n.nf", quoted(heading));
    for line in text.lines() {
        let _ = writeln!(out, "{}", escaped(line));
    }
    let _ = writeln!(out, ".fi");
}

fn listed<'a>(out: &mut String, heading: &str, items: impl Iterator<Item = &'a (&'a str, &'a str)>) {
    let _ = writeln!(out, ".SH {}", quoted(heading));
    for (term, text) in items {
        let _ = writeln!(out, ".TP\n\\fB{}\\fR\n{}", escaped(term), escaped(text));
    }
}

fn quoted(heading: &str) -> String {
    if heading.contains(' ') {
        format!("\"{heading}\"")
    } else {
        heading.to_owned()
    }
}

/// Text that roff takes for text: no requests, no escapes, plain hyphens.
fn escaped(line: &str) -> String {
    let text = line
        .replace('\\', "\\e")
        .replace('-', "\\-")
        .replace('\'', "\\(aq")
        .replace('`', "\\(ga")
        .replace('^', "\\(ha")
        .replace('~', "\\(ti");
    if text.starts_with('.') {
        format!("\\&{text}")
    } else {
        text
    }
}

fn filter_page() -> String {
    let mut text = format!(
        ".TH SOCKEYE\\-FILTER 7 \"\" \"sockeye {}\" \"Sockeye\"\n.SH NAME\nsockeye\\-filter \\- which sockets are meant\n",
        env!("CARGO_PKG_VERSION")
    );
    section(
        &mut text,
        "DESCRIPTION",
        "A filter is an expression of conditions. It has the language of ss(8), with further words.\n\n\
         Conditions are joined by 'and' (also '&', '&&' or nothing), 'or' ('|', '||') and 'not' ('!'), and grouped by \
         parentheses. 'and' and 'or' have the same precedence, from left to right. States at the beginning apply to \
         all that follows.\n\n\
         Comparisons: = != < <= > >= and, for text, ~ and !~ with a pattern of '*' and '?'. A condition on a value that is \
         not known is false.\n\n\
         Put a filter in quotes where it has one of ( ) < > ! & |.",
    );
    let _ = writeln!(text, ".SH CONDITIONS");
    for word in words::conditions() {
        let _ = writeln!(
            text,
            ".TP\n\\fB{}\\fR\n{}",
            escaped(word.name),
            escaped(word.about)
        );
    }
    let states: Vec<&str> = words::states().collect();
    section(&mut text, "STATES", &states.join(", "));
    unfilled(
        &mut text,
        "EXAMPLES",
        "sockeye sockets -tan 'sport = :8080'\n\
         sockeye sockets -tn state close-wait\n\
         sockeye sockets -tn 'state established and ( dport = :443 or dst 10.0.0.0/8 )'\n\
         sockeye sockets -tn 'rtt > 50ms or retrans > 0'\n\
         sockeye flows -np 'owner ~ nginx* and peers = public'\n\
         sockeye kill 'state close-wait and idle > 1h' --dry-run",
    );
    section(
        &mut text,
        "SEE ALSO",
        "sockeye(1), sockeye-sockets(1), sockeye-flows(1), ss(8)",
    );
    text
}

/// What the page of a command says besides its options.
struct About {
    /// The command's name; its subcommands have the same.
    command: &'static str,
    /// Files that it reads or writes, besides [`COMMON_FILES`].
    files: &'static [(&'static str, &'static str)],
    see_also: &'static [&'static str],
}

const COMMON_FILES: &[(&str, &str)] = &[
    (
        "/sys/kernel/btf/vmlinux",
        "The kernel's description of its types, for BPF programs.",
    ),
    (
        "/proc",
        "Processes, their descriptors, and sockets where no better source answers.",
    ),
];
const ENVIRONMENT: &[(&str, &str)] = &[(
    "NO_COLOR",
    "If set and not empty, tables have no colours unless --color asks for them.",
)];
const EXIT_STATUS: &[(&str, &str)] = &[
    ("0", "Success; also if the reader of the output has gone."),
    (
        "1",
        "Something failed, or there is a finding that the options name.",
    ),
    ("2", "A mistake on the command line."),
];
const NETNS_FILES: &[(&str, &str)] = &[(
    "/run/netns",
    "Names of network namespaces, shared with ip-netns(8).",
)];
const CGROUP_FILES: &[(&str, &str)] = &[(
    "/sys/fs/cgroup",
    "Cgroups (v2), to which keepalive programs are attached.",
)];
const ABOUT: &[About] = &[
    About {
        command: "",
        files: NETNS_FILES,
        see_also: &[
            "sockeye-flows(1)",
            "sockeye-sockets(1)",
            "sockeye-check(1)",
            "ss(8)",
        ],
    },
    About {
        command: "flows",
        files: NETNS_FILES,
        see_also: &["sockeye-sockets(1)", "sockeye-lstf(1)"],
    },
    About {
        command: "sockets",
        files: NETNS_FILES,
        see_also: &["sockeye-flows(1)", "sockeye-ss(1)", "ss(8)"],
    },
    About {
        command: "check",
        files: NETNS_FILES,
        see_also: &["sockeye-explain(1)", "sockeye-keepalive(1)", "sockeye-kill(1)"],
    },
    About {
        command: "capture",
        files: &[],
        see_also: &[
            "sockeye-analyze(1)",
            "sockeye-graph(1)",
            "pcap-filter(7)",
            "tcpdump(8)",
        ],
    },
    About {
        command: "analyze",
        files: &[],
        see_also: &["sockeye-capture(1)", "sockeye-graph(1)", "tshark(1)"],
    },
    About {
        command: "graph",
        files: &[],
        see_also: &["sockeye-analyze(1)", "sockeye-capture(1)"],
    },
    About {
        command: "bench",
        files: &[("/dev/net/tun", "Devices of bench tun.")],
        see_also: &["iperf3(1)"],
    },
    About {
        command: "prof",
        files: &[
            ("/proc/kallsyms", "Names of the kernel's functions."),
            ("/tmp/perf-PID.map", "Names of code that a process generated."),
        ],
        see_also: &["perf(1)", "strace(1)"],
    },
    About {
        command: "explain",
        files: &[],
        see_also: &["sockeye-check(1)", "dmesg(1)", "nstat(8)"],
    },
    About {
        command: "ns",
        files: NETNS_FILES,
        see_also: &["ip-netns(8)", "nsenter(1)"],
    },
    About {
        command: "keepalive",
        files: CGROUP_FILES,
        see_also: &["sockeye-kill(1)", "tcp(7)"],
    },
    About {
        command: "kill",
        files: NETNS_FILES,
        see_also: &["sockeye-keepalive(1)", "ss(8)"],
    },
    About {
        command: "doctor",
        files: NETNS_FILES,
        see_also: &["capabilities(7)", "bpf(2)"],
    },
    About {
        command: "ss",
        files: NETNS_FILES,
        see_also: &["ss(8)", "sockeye-sockets(1)"],
    },
    About {
        command: "netstat",
        files: &[("/proc/net", "Statistics, routes and interfaces.")],
        see_also: &["netstat(8)", "sockeye-sockets(1)"],
    },
    About {
        command: "lstf",
        files: &[],
        see_also: &["sockeye-flows(1)"],
    },
];
