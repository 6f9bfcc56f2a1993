//! What the page of a command says besides its options: the files and variables that it reads, examples, other pages.
//!
//! Options that many commands share name their files here once: a page has those of its own options.

use clap::Command;

/// A term and what it means.
pub(super) type Item = (&'static str, &'static str);

/// What the page of a command says besides its options.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Notes {
    /// Files that it reads or writes, besides those of its options.
    files: &'static [Item],
    /// Environment variables that it reads, besides those of its options.
    environment: &'static [Item],
    /// Examples, where its help has none.
    pub(super) examples: &'static str,
    pub(super) see_also: &'static [&'static str],
}

impl Notes {
    /// Returns the notes for the page of this name.
    pub(super) fn of(page: &str) -> Self {
        let command = page.trim_start_matches("sockeye").trim_start_matches('-');
        let found = NOTES.iter().find(|(name, _)| *name == command);
        found.map(|(_, notes)| *notes).unwrap_or_default()
    }

    /// Returns the files that the command reads or writes.
    pub(super) fn files(&self, command: &Command) -> Vec<Item> {
        let mut all = Vec::new();
        // Every command with the options of a listing finds sockets, owners and names in the same way.
        if has_option(command, "names_timeout") {
            all.extend([BTF, PROC_PID, PROC_NET, NETNS, DOCKER, SERVICES]);
        } else if has_option(command, "btf") {
            all.push(BTF);
        }
        all.extend_from_slice(self.files);
        all
    }

    /// Returns the environment variables that the command reads.
    pub(super) fn environment(&self, command: &Command) -> Vec<Item> {
        let mut all = Vec::new();
        if has_option(command, "color") {
            all.extend([NO_COLOR, TERM]);
        }
        all.extend_from_slice(self.environment);
        all
    }
}

fn has_option(command: &Command, id: &str) -> bool {
    command.get_arguments().any(|arg| arg.get_id() == id)
}

const BTF: Item = (
    "/sys/kernel/btf/vmlinux",
    "The kernel's description of its types, for BPF programs.",
);
const PROC_PID: Item = (
    "/proc/PID/",
    "Processes and their descriptors, for owners where BPF cannot be used.",
);
const PROC_NET: Item = (
    "/proc/net/",
    "Sockets, where neither BPF nor netlink can be used.",
);
const NETNS: Item = (
    "/run/netns/",
    "Names of network namespaces, shared with ip-netns(8).",
);
const DOCKER: Item = (
    "/var/lib/docker/containers/",
    "Names of Docker's containers, if they may be read.",
);
const SERVICES: Item = (
    "/etc/services, /etc/passwd",
    "Names of ports and users. Names of hosts come from getnameinfo(3).",
);
const CGROUPS: Item = (
    "/sys/fs/cgroup/",
    "Cgroups (version 2), wherever they are mounted.",
);
const KEEPALIVE: Item = (
    "/proc/sys/net/ipv4/tcp_keepalive_*",
    "The times of the system, for sockets without their own.",
);
const NOISE: Item = (
    "/proc/stat, /proc/loadavg, /sys/devices/system/cpu/",
    "How quiet the machine was, and the frequency of its processors.",
);
const CONGESTION: Item = (
    "/proc/sys/net/ipv4/tcp_available_congestion_control",
    "Names that -C takes.",
);

const NO_COLOR: Item = (
    "NO_COLOR",
    "If it is set and not empty, output has no colours unless --color asks for them.",
);
const TERM: Item = ("TERM", "If it is 'dumb', there are no colours either.");
const PATH: Item = ("PATH", "Where the command is looked up.");
const TZ: Item = (
    "TZ",
    "The time zone of the time in the name of the file, where no name is given.",
);
const POSIXLY_CORRECT: Item = (
    "POSIXLY_CORRECT",
    "If it is set, options end at the first other argument.",
);

/// Notes by command, the words of its name joined by '-'.
const NOTES: &[(&str, Notes)] = &[
    (
        "",
        Notes {
            see_also: &[
                "sockeye-flows(1)",
                "sockeye-sockets(1)",
                "sockeye-check(1)",
                "sockeye-filter(7)",
                "ss(8)",
            ],
            ..NONE
        },
    ),
    (
        "flows",
        Notes {
            see_also: &["sockeye-sockets(1)", "sockeye-filter(7)", "sockeye-lstf(1)"],
            ..NONE
        },
    ),
    (
        "sockets",
        Notes {
            see_also: &["sockeye-flows(1)", "sockeye-filter(7)", "sockeye-ss(1)", "ss(8)"],
            ..NONE
        },
    ),
    (
        "check",
        Notes {
            files: &[(
                "/proc/net/, /proc/sys/net/",
                "Counters, tables, limits and settings.",
            )],
            see_also: &[
                "sockeye-explain(1)",
                "sockeye-filter(7)",
                "sockeye-keepalive(1)",
                "sockeye-kill(1)",
            ],
            ..NONE
        },
    ),
    (
        "capture",
        Notes {
            files: &[
                (
                    "sockeye-IFACE-TIME.pcapng",
                    "The capture, in the current folder, unless -o names another file.",
                ),
                BTF,
                PROC_PID,
                NETNS,
                DOCKER,
            ],
            environment: &[TZ],
            see_also: &[
                "sockeye-analyze(1)",
                "sockeye-graph(1)",
                "pcap-filter(7)",
                "tcpdump(8)",
            ],
            ..NONE
        },
    ),
    (
        "analyze",
        Notes {
            see_also: &[
                "sockeye-capture(1)",
                "sockeye-graph(1)",
                "sockeye-filter(7)",
                "tshark(1)",
            ],
            ..NONE
        },
    ),
    (
        "graph",
        Notes {
            environment: &[
                (
                    "TERM_PROGRAM",
                    "Together with TERM: which terminal it is, and so whether it shows pictures.",
                ),
                ("COLORFGBG", "Whether the terminal is dark."),
            ],
            see_also: &["sockeye-analyze(1)", "sockeye-capture(1)", "sockeye-filter(7)"],
            ..NONE
        },
    ),
    (
        "bench",
        Notes {
            see_also: &[
                "sockeye-bench-serve(1)",
                "sockeye-bench-stream(1)",
                "sockeye-bench-rr(1)",
                "sockeye-bench-crr(1)",
                "sockeye-bench-tun(1)",
                "sockeye-bench-file(1)",
                "sockeye-bench-memory(1)",
                "sockeye-bench-sources(1)",
            ],
            ..NONE
        },
    ),
    (
        "bench-serve",
        Notes {
            files: &[NOISE],
            examples: "sockeye bench serve\nsockeye bench serve --once -B 10.0.0.2\n",
            see_also: &["sockeye-bench-stream(1)", "sockeye-bench-rr(1)", "iperf3(1)"],
            ..NONE
        },
    ),
    (
        "bench-stream",
        Notes {
            files: &[NOISE, CONGESTION],
            see_also: &["sockeye-bench-serve(1)", "sockeye-bench-rr(1)", "iperf3(1)"],
            ..NONE
        },
    ),
    (
        "bench-rr",
        Notes {
            files: &[NOISE],
            see_also: &["sockeye-bench-serve(1)", "sockeye-bench-crr(1)"],
            ..NONE
        },
    ),
    (
        "bench-crr",
        Notes {
            files: &[NOISE],
            see_also: &["sockeye-bench-serve(1)", "sockeye-bench-rr(1)"],
            ..NONE
        },
    ),
    (
        "bench-tun",
        Notes {
            files: &[
                ("/dev/net/tun", "TUN and TAP devices."),
                ("/proc/PID/", "The program that reads the device of --device."),
                (
                    "/sys/kernel/tracing/events/skb/kfree_skb/",
                    "The kernel's reasons for drops.",
                ),
                NOISE,
                CONGESTION,
            ],
            see_also: &["sockeye-bench-stream(1)", "ip-link(8)", "tc(8)"],
            ..NONE
        },
    ),
    (
        "bench-file",
        Notes {
            files: &[
                (
                    "/var/tmp/",
                    "Where the file to send is made, unless one is named: a sparse file without a name.",
                ),
                (
                    "/proc/meminfo, /proc/net/dev",
                    "Free memory, and bytes that were sent.",
                ),
                NOISE,
            ],
            environment: &[("TMPDIR", "The folder instead of /var/tmp.")],
            examples: "sockeye bench file\nsockeye bench file --sizes 64K,1M big.iso\n",
            see_also: &["sockeye-bench-stream(1)", "sendfile(2)", "splice(2)"],
        },
    ),
    (
        "bench-memory",
        Notes {
            files: &[
                (
                    "/sys/devices/system/cpu/cpu0/cache/",
                    "The sizes of the processor's caches.",
                ),
                ("/proc/meminfo, /sys/fs/cgroup/", "How much memory may be used."),
                NOISE,
            ],
            examples: "sockeye bench memory\nsockeye bench memory --sizes 1K-1M --functions memcpy\n",
            see_also: &["sockeye-bench(1)", "memcpy(3)"],
            ..NONE
        },
    ),
    (
        "bench-sources",
        Notes {
            files: &[BTF, PROC_NET, NOISE],
            examples: "sockeye bench sources\nsockeye bench sources --sockets 1000,10000\n",
            see_also: &["sockeye-doctor(1)", "sock_diag(7)"],
            ..NONE
        },
    ),
    (
        "prof",
        Notes {
            files: &[
                (
                    "/proc/PID/",
                    "Names, mapped files and descriptors of the processes.",
                ),
                ("/proc/kallsyms", "Names of the kernel's functions."),
                (
                    "/tmp/perf-PID.map",
                    "Names of code that a process generated, below its root.",
                ),
                ("/usr/lib/debug/", "Symbol tables that are in files of their own."),
                (
                    "/sys/kernel/tracing/available_filter_functions",
                    "Functions that --kernel-functions can watch.",
                ),
                CGROUPS,
            ],
            environment: &[PATH],
            see_also: &["perf(1)", "strace(1)"],
            ..NONE
        },
    ),
    (
        "explain",
        Notes {
            see_also: &["sockeye-check(1)", "dmesg(1)", "journalctl(1)", "nstat(8)"],
            ..NONE
        },
    ),
    ("ns", NS_LIST),
    ("ns-list", NS_LIST),
    (
        "ns-add",
        Notes {
            files: &[NETNS],
            see_also: &["sockeye-ns-del(1)", "ip-netns(8)", "veth(4)"],
            ..NONE
        },
    ),
    (
        "ns-del",
        Notes {
            files: &[NETNS, ("/proc/PID/", "Processes that live in the namespaces.")],
            see_also: &["sockeye-ns-add(1)", "sockeye-ns-list(1)", "ip-netns(8)"],
            ..NONE
        },
    ),
    (
        "ns-attach",
        Notes {
            files: &[NETNS, ("/proc/PID/ns/net", "The namespace of the process.")],
            examples: "sockeye ns attach web1 4711\n",
            see_also: &["sockeye-ns-identify(1)", "ip-netns(8)"],
            ..NONE
        },
    ),
    (
        "ns-set",
        Notes {
            files: &[NETNS],
            examples: "sockeye ns set web1 auto\nsockeye ns set web1 7\n",
            see_also: &["sockeye-ns-list(1)", "ip-netns(8)"],
            ..NONE
        },
    ),
    (
        "ns-exec",
        Notes {
            files: &[
                NETNS,
                (
                    "/etc/netns/NAME/",
                    "Files that the command finds in /etc instead of the ones there.",
                ),
                (
                    "/sys",
                    "Mounted anew for the command, so that it shows the devices of the namespace.",
                ),
            ],
            environment: &[PATH],
            see_also: &["ip-netns(8)", "ip-vrf(8)", "nsenter(1)"],
            ..NONE
        },
    ),
    (
        "ns-pids",
        Notes {
            files: &[NETNS, ("/proc/PID/ns/net", "The namespace of each process.")],
            examples: "sockeye ns pids web1\nsockeye ns pids web1 --format jsonl\n",
            see_also: &["sockeye-ns-identify(1)", "sockeye-ns-list(1)", "ip-netns(8)"],
            ..NONE
        },
    ),
    (
        "ns-identify",
        Notes {
            files: &[NETNS, ("/proc/PID/ns/net", "The namespace of the process.")],
            examples: "sockeye ns identify\nsockeye ns identify 4711\n",
            see_also: &["sockeye-ns-pids(1)", "sockeye-ns-list(1)", "ip-netns(8)"],
            ..NONE
        },
    ),
    (
        "ns-monitor",
        Notes {
            files: &[NETNS],
            examples: "sockeye ns monitor\nsockeye ns monitor --format jsonl\n",
            see_also: &["sockeye-ns-list(1)", "ip-netns(8)"],
            ..NONE
        },
    ),
    (
        "keepalive",
        Notes {
            examples: "sockeye keepalive list --summary\n\
                       sockeye keepalive set 'owner = java and idle > 1h' --dry-run\n\
                       sockeye keepalive run -- ./client --server db.example.com\n",
            see_also: &[
                "sockeye-keepalive-list(1)",
                "sockeye-keepalive-set(1)",
                "sockeye-keepalive-unset(1)",
                "sockeye-keepalive-run(1)",
                "sockeye-keepalive-attach(1)",
                "sockeye-keepalive-attached(1)",
                "sockeye-keepalive-detach(1)",
                "tcp(7)",
            ],
            ..NONE
        },
    ),
    (
        "keepalive-list",
        Notes {
            files: &[KEEPALIVE],
            see_also: &["sockeye-keepalive-set(1)", "sockeye-filter(7)", "tcp(7)"],
            ..NONE
        },
    ),
    (
        "keepalive-set",
        Notes {
            see_also: &["sockeye-keepalive-unset(1)", "sockeye-filter(7)", "tcp(7)"],
            ..NONE
        },
    ),
    (
        "keepalive-unset",
        Notes {
            examples: "sockeye keepalive unset 'dport = :5432' --dry-run\n\
                       sockeye keepalive unset 'owner = java' --user-timeout --yes\n",
            see_also: &["sockeye-keepalive-set(1)", "sockeye-filter(7)", "tcp(7)"],
            ..NONE
        },
    ),
    (
        "keepalive-run",
        Notes {
            files: &[CGROUPS],
            environment: &[PATH],
            see_also: &["sockeye-keepalive-attach(1)", "cgroups(7)", "tcp(7)"],
            ..NONE
        },
    ),
    (
        "keepalive-attach",
        Notes {
            files: &[CGROUPS, DOCKER],
            see_also: &[
                "sockeye-keepalive-detach(1)",
                "sockeye-keepalive-attached(1)",
                "systemd-cgls(1)",
                "cgroups(7)",
            ],
            ..NONE
        },
    ),
    (
        "keepalive-detach",
        Notes {
            files: &[CGROUPS, DOCKER],
            see_also: &[
                "sockeye-keepalive-attach(1)",
                "sockeye-keepalive-attached(1)",
                "cgroups(7)",
            ],
            ..NONE
        },
    ),
    (
        "keepalive-attached",
        Notes {
            files: &[CGROUPS],
            examples: "sockeye keepalive attached\nsockeye keepalive attached --format jsonl\n",
            see_also: &["sockeye-keepalive-attach(1)", "sockeye-keepalive-list(1)"],
            ..NONE
        },
    ),
    (
        "kill",
        Notes {
            files: &[(
                "/proc/PID/environ, /proc/PID/status",
                "The processes of this session, and the login that they belong to.",
            )],
            environment: &[(
                "SSH_CONNECTION",
                "The connection of this session, which is not closed; also looked up in the environment of the parents.",
            )],
            see_also: &["sockeye-keepalive(1)", "sockeye-filter(7)", "ss(8)"],
            ..NONE
        },
    ),
    (
        "doctor",
        Notes {
            files: &[
                PROC_NET,
                (
                    "/proc/kallsyms, /proc/sys/kernel/perf_event_*",
                    "Whether profiles are possible.",
                ),
            ],
            examples: "sockeye doctor\nsockeye doctor --format json\n",
            see_also: &["sockeye-bench-sources(1)", "capabilities(7)", "bpf(2)"],
            ..NONE
        },
    ),
    (
        "ss",
        Notes {
            files: &[
                BTF,
                PROC_PID,
                PROC_NET,
                NETNS,
                SERVICES,
                ("/etc/iproute2/nl_protos", "Names of netlink protocols."),
            ],
            environment: &[
                (
                    "TCPDIAG_FILE",
                    "A file with saved replies of the kernel, which is read instead of asking it.",
                ),
                POSIXLY_CORRECT,
            ],
            examples: "sockeye ss -tlnp\nln -s $(command -v sockeye) ss; ./ss -s\n",
            see_also: &["sockeye-sockets(1)", "ss(8)"],
        },
    ),
    (
        "netstat",
        Notes {
            files: &[
                (
                    "/proc/net/",
                    "Statistics, routes, interfaces, groups, UNIX sockets.",
                ),
                BTF,
                PROC_PID,
                (
                    "/etc/hosts, /etc/networks, /etc/services, /etc/protocols, /etc/passwd",
                    "Names.",
                ),
            ],
            environment: &[POSIXLY_CORRECT],
            examples: "sockeye netstat -tln\nln -s $(command -v sockeye) netstat; ./netstat -s\n",
            see_also: &["sockeye-sockets(1)", "sockeye-check(1)", "netstat(8)"],
        },
    ),
    (
        "lstf",
        Notes {
            files: &[BTF, PROC_PID],
            environment: &[
                ("LSTF_DEBUG", "If it is true, as with --debug."),
                (
                    "PROC_ROOT",
                    "Is ignored, and a message says so: owners do not come from /proc only.",
                ),
            ],
            examples: "sockeye lstf -n\nln -s $(command -v sockeye) lstf; ./lstf -np\n",
            see_also: &["sockeye-flows(1)"],
        },
    ),
    (
        "completions",
        Notes {
            examples: "source <(sockeye completions bash)\n\
                       sockeye completions zsh > ~/.zfunc/_sockeye\n\
                       sockeye completions fish > ~/.config/fish/completions/sockeye.fish\n",
            see_also: &["bash(1)", "zshcompsys(1)", "fish(1)"],
            ..NONE
        },
    ),
    (
        "man",
        Notes {
            examples: "sockeye man /usr/local/share/man/man1\n\
                       mkdir pages; sockeye man pages; man -l pages/sockeye-check.1\n",
            see_also: &["man(1)"],
            ..NONE
        },
    ),
];

const NONE: Notes = Notes {
    files: &[],
    environment: &[],
    examples: "",
    see_also: &[],
};

const NS_LIST: Notes = Notes {
    files: &[
        NETNS,
        DOCKER,
        (
            "/proc/PID/",
            "Namespaces, mounts, descriptors and names of processes.",
        ),
    ],
    see_also: &["sockeye-flows(1)", "ip-netns(8)", "lsns(8)"],
    ..NONE
};
