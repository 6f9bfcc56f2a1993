//! `sockeye ns add`, `del`, `attach` and `set` compared with `ip netns`, in a mount namespace of their own.

use crate::fixtures::binary::{Outcome, SOCKEYE, run};
use sockeye_lab::{MountNamespace, need, program, wait_until};
use std::process::{Child, Command, Stdio};

/// Runs a script in it, in which `$S` is the binary. The script may fail.
#[track_caller]
fn sh(own: &MountNamespace, script: &str) -> Outcome {
    run(own.command("sh", &["-c", script]).env("S", SOCKEYE))
}

/// Returns the stdout of a script, which must succeed without messages.
#[track_caller]
fn quiet(own: &MountNamespace, script: &str) -> String {
    sh(own, script).quiet().to_owned()
}

fn ns(own: &MountNamespace, line: &str) -> Outcome {
    let words: Vec<&str> = ["ns"].into_iter().chain(line.split_whitespace()).collect();
    run(&mut own.command(SOCKEYE, &words))
}

fn sorted(text: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    lines
}

/// access(2) ignores capabilities of a user that is not root.
#[test]
fn capabilities_without_root_suffice() {
    let own = need!(MountNamespace::new(""));
    need!(program("setpriv"));
    let capabilities = "-all,+sys_admin,+dac_override";
    let shown = quiet(
        &own,
        &format!(
            "cp $S /run/sockeye
             as() {{ setpriv --reuid 65534 --regid 65534 --clear-groups --bounding-set={capabilities} \
                     --inh-caps={capabilities} --ambient-caps={capabilities} /run/sockeye \"$@\"; }}
             as ns add web && ls /run/netns && as ns del web && ls /run/netns"
        ),
    );
    assert_eq!(shown, "web\n");
}

#[test]
fn namespaces_of_sockeye_and_ip_are_interchangeable() {
    let own = need!(MountNamespace::new(""));
    ns(&own, "add ours --up").quiet();
    ns(&own, "add --prefix web --count 3 --start 9").quiet();
    quiet(&own, "ip netns add theirs");
    let listed = quiet(&own, "ip netns list");
    assert_eq!(sorted(&listed), ["ours", "theirs", "web10", "web11", "web9"]);
    // The same kind of file, with the same mode, on the same kind of folder.
    let shown = quiet(
        &own,
        "cd /run/netns; stat -fc %T ours theirs . | sort -u; umount ours theirs; stat -c '%a %s' ours theirs",
    );
    assert_eq!(
        shown,
        "nsfs\ntmpfs\n444 0\n444 0\n".replace("444", shown.split_whitespace().nth(2).unwrap())
    );
    quiet(&own, "rm /run/netns/ours /run/netns/theirs; ip netns add theirs");
    ns(&own, "add ours --up").quiet();
    // Each program can enter the namespaces of the other; all differ from the current one.
    let inside = "readlink /proc/self/ns/net";
    let netns = |command: &str| quiet(&own, &format!("{command} {inside}"));
    for name in ["ours", "theirs", "web9"] {
        let by_ip = netns(&format!("ip netns exec {name}"));
        assert_eq!(by_ip, netns(&format!("$S ns exec {name} --")), "{name}");
        assert_ne!(by_ip, netns(""), "{name}");
    }
    // lo is up only with --up.
    let state = |name: &str| {
        quiet(
            &own,
            &format!("ip -n {name} -o link show lo | grep -c '[<,]UP[,>]' || true"),
        )
    };
    assert_eq!(
        [state("ours"), state("theirs"), state("web9")],
        ["1\n", "0\n", "0\n"]
    );
    quiet(&own, "ip netns del ours; ip netns del web10");
    ns(&own, "del theirs web9 web11").quiet();
    assert!(own.names().is_empty(), "{:?}", own.names());
}

#[test]
fn folder_is_mounted_once_and_under_the_lock() {
    let own = need!(MountNamespace::new(""));
    // Concurrent adds without the folder: one mounts it, the others find it.
    let script = "for i in $(seq 20); do $S ns add o$i & ip netns add t$i & done; wait; \
                  grep ' /run/netns ' /proc/self/mountinfo | grep -c own-run; \
                  grep ' /run/netns ' /proc/self/mountinfo | grep own-run | grep -c shared:";
    assert_eq!(quiet(&own, script), "1\n1\n");
    assert_eq!((own.names().len(), own.remains()), (40, Vec::new()));
    // A process that holds the lock keeps others from setting up the folder, and is waited for.
    let waits = "flock /run/netns sh -c 'sleep 0.6' & sleep 0.2; \
                 s=$(date +%s%N); $S ns add late; e=$(date +%s%N); wait; [ $((e - s)) -gt 200000000 ] && echo waited";
    assert_eq!(quiet(&own, waits), "waited\n");
    // A name is propagated to other mount namespaces that share the folder.
    let reaches = "unshare --mount --propagation unchanged sh -c 'read -r _; stat -fc %T /run/netns/far' <pipe & \
                   exec 3>pipe; sleep 0.2; $S ns add far; echo go >&3; wait";
    let outcome = quiet(&own, &format!("cd /run; mkfifo pipe; {reaches}"));
    assert_eq!(outcome, "nsfs\n");
}

#[test]
fn concurrent_adds_of_one_name_succeed_once() {
    let own = need!(MountNamespace::new(""));
    // 200 adds of 50 names, in three ways; for each name exactly one succeeds.
    let script = "for i in $(seq 0 199); do n=n$((i % 50)); case $((i % 4)) in \
                    0|1) $S ns add $n 2>/dev/null && echo $n & ;; \
                    2) ip netns add $n 2>/dev/null && echo $n & ;; \
                    3) $S ns add --prefix n --count 1 --start $((i % 50)) 2>/dev/null && echo $n & ;; \
                  esac; done; wait";
    let outcome = sh(&own, script);
    let made = outcome.ok();
    let mut expected: Vec<String> = (0..50).map(|number| format!("n{number}")).collect();
    expected.sort();
    assert_eq!(sorted(made), expected, "each name was given once");
    assert_eq!(own.names(), expected);
    assert_eq!(own.remains(), Vec::<String>::new());
    // Concurrent deletions of the same names.
    let script = "for i in $(seq 0 3); do $S ns del --all --yes 2>/dev/null & ip -all netns delete 2>/dev/null & done; wait; true";
    sh(&own, script);
    assert!(own.names().is_empty(), "{:?}", own.names());
}

#[test]
fn failed_add_is_reported_and_leaves_nothing() {
    let own = need!(MountNamespace::new(""));
    ns(&own, "add web3").quiet();
    let outcome = ns(&own, "add --prefix web --count 6 -j 1");
    assert_eq!(outcome.code, Some(1));
    let error = outcome.error();
    assert!(error.contains("\"/run/netns/web3\": File exists"), "{error}");
    assert!(
        error.contains("3 of 6 network namespaces were created: web0 ... web2"),
        "{error}"
    );
    assert!(error.contains("--keep-going"), "{error}");
    assert_eq!(own.names(), ["web0", "web1", "web2", "web3"]);
    let outcome = ns(&own, "add --prefix web --count 6 -j 2 --keep-going");
    assert_eq!(outcome.code, Some(1));
    assert!(
        outcome
            .error()
            .contains("2 of 6 network namespaces were created: web4, web5"),
        "{outcome}"
    );
    assert_eq!(own.names().len(), 6);
    // Files of others with the same name stay.
    quiet(
        &own,
        "echo precious >/run/netns/notes; mkdir /run/netns/folder; ln -s /etc/passwd /run/netns/link",
    );
    for name in ["notes", "folder", "link"] {
        let outcome = ns(&own, &format!("add {name}"));
        assert_eq!(outcome.code, Some(1));
        assert!(outcome.error().contains("File exists"), "{outcome}");
    }
    assert_eq!(
        quiet(&own, "cat /run/netns/notes; readlink /run/netns/link"),
        "precious\n/etc/passwd\n"
    );
}

#[test]
fn full_or_read_only_run_is_reported_with_its_remedy() {
    // Inodes for the folder and a few names.
    let own = need!(MountNamespace::new("nr_inodes=4"));
    let outcome = ns(&own, "add --prefix f --count 9");
    assert_eq!(outcome.code, Some(1));
    assert!(outcome.error().contains("No space left on device"), "{outcome}");
    assert!(
        outcome.error().contains("file system of /run is full"),
        "{outcome}"
    );
    assert!(outcome.error().contains("were created: f"), "{outcome}");
    assert!(own.remains().is_empty() && own.names().len() < 9);
    let own = need!(MountNamespace::new(""));
    quiet(&own, "mount -o remount,ro /run");
    let outcome = ns(&own, "add a");
    assert_eq!(outcome.code, Some(1));
    assert!(
        outcome.error().contains("Read-only file system") && outcome.error().contains("remount,rw"),
        "{outcome}"
    );
    quiet(
        &own,
        "mount -o remount,rw /run; $S ns add a; mount -o remount,ro,bind /run/netns",
    );
    let outcome = ns(&own, "add b");
    assert_eq!(outcome.code, Some(1), "{outcome}");
    assert!(outcome.error().contains("Read-only file system"), "{outcome}");
    let outcome = ns(&own, "del a");
    assert_eq!(outcome.code, Some(1), "{outcome}");
    assert!(outcome.error().contains("Read-only file system"), "{outcome}");
    quiet(&own, "mount -o remount,rw,bind /run/netns; $S ns del a");
    assert!(own.names().is_empty());
}

#[test]
fn invalid_names_and_options_exit_2() {
    let own = need!(MountNamespace::new(""));
    let long = "x".repeat(256);
    let (newline, escape) = ("a\nb", "a\x1b[31m");
    for (name, why) in [
        ("", "empty"),
        (".", "'.'"),
        ("..", "'..'"),
        ("a/b", "no '/'"),
        ("/etc", "no '/'"),
        ("../x", "no '/'"),
        (newline, "control"),
        (escape, "control"),
        ("\u{7f}", "control"),
        ("\u{9b}31m", "control"),
        (&*long, "256 bytes"),
    ] {
        for command in ["add", "attach"] {
            let mut words = vec!["ns", command, name];
            words.extend((command == "attach").then_some("1"));
            let outcome = run(&mut own.command(SOCKEYE, &words));
            assert_eq!(outcome.code, Some(2), "{command} {name:?}: {outcome}");
            assert!(outcome.error().contains(why), "{command} {name:?}: {outcome}");
            assert!(!outcome.error().contains('\x1b'), "{outcome}");
        }
    }
    for (line, code) in [
        ("add", 2),
        ("add --prefix p", 2),
        ("add --count 3", 2),
        ("add x --prefix p --count 3", 2),
        ("add --prefix p --count 0", 2),
        ("add --prefix p --count -1", 2),
        ("add --prefix p --count 2 --start 4294967295", 2),
        ("add --prefix a/ --count 2", 2),
        ("add x -j 0", 2),
        ("add x --subnet 10.0.0.0/8", 2),
        ("add x --veth-to br0 --subnet 10.0.0.0/33", 2),
        ("del", 2),
        ("del a/b", 2),
        ("del x --all", 2),
        ("del --prefix= --yes", 2),
        ("add x x", 2),
        ("add --prefix= --count 2", 2),
        ("exec --prefix= -- true", 2),
        ("add --prefix p --count 18446744073709551615", 2),
        ("attach x 0", 2),
        ("attach x -1", 2),
        ("set x -1", 2),
        ("set x y", 2),
    ] {
        assert_eq!(ns(&own, line).code, Some(code), "{line}: {}", ns(&own, line));
    }
    // The longest valid name, and names that need quotes in a shell.
    let longest = "y".repeat(255);
    for name in [&*longest, "a b", "\u{e4}", "-", "--", "$x"] {
        let outcome = run(&mut own.command(SOCKEYE, &["ns", "add", "--", name]));
        assert_eq!(outcome.code, Some(0), "{name:?}: {outcome}");
        quiet(&own, &format!("ip netns del '{name}'"));
    }
    assert_eq!(
        quiet(&own, "$S ns add --dry-run --prefix p --count 3 --start 8"),
        "p8\np9\np10\n"
    );
    assert!(own.names().is_empty(), "{:?}", own.names());
}

#[test]
fn missing_rights_are_reported_with_the_remedy() {
    let own = need!(MountNamespace::new(""));
    ns(&own, "add there").quiet();
    let unprivileged =
        "setpriv --reuid 65534 --regid 65534 --clear-groups --inh-caps=-all --bounding-set=-all";
    // The folder of the binary may be unreadable for others.
    quiet(&own, "cp $S /run/sockeye; chmod 755 /run/sockeye");
    for words in [
        "add mine",
        "del there",
        "attach mine $$",
        "set there 5",
        "del --all --yes --wait",
    ] {
        let outcome = sh(&own, &format!("{unprivileged} /run/sockeye ns {words}"));
        assert_eq!(outcome.code, Some(1), "{words}: {outcome}");
        assert!(outcome.error().contains("run as root"), "{words}: {outcome}");
    }
    assert_eq!(
        (own.names(), own.remains()),
        (vec!["there".to_owned()], Vec::new())
    );
}

#[test]
fn few_descriptors_suffice_or_are_reported() {
    let own = need!(MountNamespace::new(""));
    for limit in 3..16 {
        let outcome = sh(
            &own,
            &format!("ulimit -n {limit}; $S ns add --prefix e{limit}- --count 4 --up"),
        );
        // With fewer descriptors the program cannot load its libraries.
        if outcome.code == Some(0) || limit < 5 {
            continue;
        }
        assert_eq!(outcome.code, Some(1), "{limit}: {outcome}");
        assert!(outcome.error().contains("ulimit -n"), "{limit}: {outcome}");
    }
    assert_eq!(own.remains(), Vec::<String>::new());
    assert!(
        own.names().iter().any(|name| name == "e15-3"),
        "{:?}",
        own.names()
    );
    let outcome = sh(&own, "ulimit -n 16; $S ns del --all --yes --wait");
    assert_eq!(outcome.code, Some(0), "{outcome}");
    assert!(own.names().is_empty());
}

/// A process that ends with the test.
struct Sleeper(Child);

impl Sleeper {
    fn start(mut command: Command) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::null());
        Self(command.spawn().unwrap())
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn del_keeps_a_namespace_with_processes_and_lists_them() {
    let own = need!(MountNamespace::new(""));
    ns(&own, "add busy1 busy2 idle").quiet();
    let inside = |name: &str| {
        let words = [&format!("--net=/run/netns/{name}"), "sleep", "1000"].map(str::to_owned);
        let command = own.command("nsenter", &words);
        let sleeper = Sleeper::start(command);
        wait_until("the process is inside", || {
            sh(&own, &format!("ip netns pids {name}"))
                .ok()
                .lines()
                .any(|pid| pid == sleeper.0.id().to_string())
                && quiet(&own, &format!("cat /proc/{}/comm", sleeper.0.id())) == "sleep\n"
        });
        sleeper
    };
    let (first, second) = (inside("busy1"), inside("busy2"));
    let outcome = ns(&own, "del busy1 idle");
    assert_eq!(outcome.code, Some(1), "{outcome}");
    assert!(
        outcome.error().contains("busy1 is kept: 1 process is in net:["),
        "{outcome}"
    );
    assert!(
        outcome.error().contains(&format!("{}/sleep", first.0.id())),
        "{outcome}"
    );
    assert_eq!(own.names(), ["busy1", "busy2"]);
    // Only the name is deleted; the process continues.
    ns(&own, "del busy2 --force").quiet();
    assert_eq!(own.names(), ["busy1"]);
    let pid = second.0.id();
    quiet(&own, &format!("kill -0 {pid}"));
    // The process gives its namespace a name again.
    ns(&own, &format!("attach again {pid}")).quiet();
    assert_eq!(quiet(&own, "ip netns pids again"), format!("{pid}\n"));
    let outcome = ns(&own, "del again busy1 --kill --wait");
    assert_eq!(outcome.code, Some(0), "{outcome}");
    assert!(outcome.ok().starts_with("2 names deleted in "), "{outcome}");
    assert!(
        outcome.ok().contains("; 2 network namespaces freed after "),
        "{outcome}"
    );
    assert!(own.names().is_empty());
    drop((first, second));
}

#[test]
fn kill_ends_processes_that_ignore_sigterm_or_fork() {
    let own = need!(MountNamespace::new(""));
    ns(&own, "add --prefix k --count 6").quiet();
    // One ignores SIGTERM, one is stopped, and one forks again and again: the parent ends, the child continues.
    let fork = "import os,signal,time\nsignal.signal(15,signal.SIG_IGN)\nend=time.time()+20\nwhile time.time()<end:\n if os.fork(): time.sleep(0.002); os._exit(0)";
    let script = format!(
        "for n in 0 1 2 3; do ip netns exec k$n sh -c 'trap \"\" TERM; while :; do sleep 0.05; done' & done; \
         ip netns exec k4 sh -c 'kill -STOP $$; :' & ip netns exec k5 python3 -c '{fork}' & sleep 0.5; \
         s=$(date +%s%N); $S ns del --prefix k --kill --yes --wait >/dev/null; r=$?; e=$(date +%s%N); \
         [ $((e - s)) -lt 6000000000 ] && echo $r; ip netns list; wait 2>/dev/null; true"
    );
    let outcome = sh(&own, &script);
    assert_eq!(outcome.ok(), "0\n", "{outcome}");
}

#[test]
fn del_keeps_the_name_without_proc_and_of_the_own_namespace() {
    let own = need!(MountNamespace::new(""));
    ns(&own, "add k").quiet();
    let script =
        "unshare --mount sh -c 'umount -l /proc; $S ns del k; echo $?; $S ns del k --force; echo $?'";
    let outcome = sh(&own, script);
    assert_eq!(outcome.ok(), "1\n0\n", "{outcome}");
    assert!(outcome.error().contains("--force"), "{outcome}");
    assert!(own.names().is_empty());
    // The namespace of this command and of process 1.
    let script = "ip netns add w; ip netns exec w unshare --pid --fork --mount-proc sh -c \"\\$S ns del w --kill; echo \\$?\"";
    let outcome = sh(&own, script);
    assert_eq!(outcome.ok(), "1\n", "{outcome}");
    assert!(outcome.error().contains("is kept"), "{outcome}");
    // A thread alone is reported, and does not keep the name.
    let thread = "import ctypes,threading,sys,time\nf=open(\"/run/netns/w\")\nc=ctypes.CDLL(None)\n\
                  def t():\n c.setns(f.fileno(),0)\n print(1,flush=True)\n time.sleep(9)\n\
                  threading.Thread(target=t,daemon=True).start()\nsys.stdin.read()";
    let script = format!(
        "mkfifo /run/in /run/out; python3 -c '{thread}' </run/in >/run/out & exec 3>/run/in; read -r _ </run/out; $S ns del w; echo $?; exec 3>&-; wait"
    );
    let outcome = sh(&own, &script);
    assert_eq!(outcome.ok(), "0\n", "{outcome}");
    assert!(outcome.error().contains("in w live threads"), "{outcome}");
}

#[test]
fn del_keeps_files_that_are_no_namespace() {
    let own = need!(MountNamespace::new(""));
    ns(&own, "add a").quiet();
    quiet(
        &own,
        "echo precious >/run/netns/data; touch -d '1 hour ago' /run/netns/rest",
    );
    let outcome = ns(&own, "del --all --yes");
    assert_eq!(outcome.code, Some(1), "{outcome}");
    assert!(outcome.error().contains("remove it yourself"), "{outcome}");
    assert_eq!(own.names(), ["data"]);
    assert!(!ns(&own, "list").error().contains("stale name"));
    // Nor is a name that another process is creating.
    let script = "strace -qq -o /dev/null -e trace=unshare -e inject=unshare:delay_enter=300ms ip netns add s & \
                  until [ -e /run/netns/s ]; do :; done; $S ns del s; echo $?; wait $! && echo made";
    let outcome = sh(&own, script);
    assert_eq!(outcome.ok(), "0\nmade\n", "{outcome}");
}

#[test]
fn wait_ends_when_the_kernel_has_freed_the_namespaces() {
    let own = need!(MountNamespace::new(""));
    // A descriptor holds the namespace without its name: the wait ends at the timeout.
    ns(&own, "add held gone").quiet();
    let script = "exec 3</run/netns/held; $S ns del held gone --wait --timeout 0.3; echo $?";
    let outcome = sh(&own, script);
    assert!(
        outcome.ok().contains("2 names deleted in ") && outcome.ok().contains("; 1 network namespace freed"),
        "{outcome}"
    );
    assert!(outcome.ok().ends_with("\n1\n"), "{outcome}");
    assert!(
        outcome.error().contains("something still holds held"),
        "{outcome}"
    );
    // The kernel frees a namespace with its end of a veth pair; the other end is then gone too.
    let script = "ip netns add near; $S ns add far --veth-to near; ip -n near link show v-far >/dev/null && \
                  $S ns del far --wait >/dev/null && ! ip -n near link show v-far 2>/dev/null && echo gone";
    assert_eq!(quiet(&own, script), "gone\n");
}

#[test]
fn signal_ends_add_after_the_current_name() {
    let own = need!(MountNamespace::new(""));
    for (signal, code) in [("INT", 130), ("TERM", 143)] {
        // sh makes background processes ignore ^C.
        let script = format!(
            "setsid -w env --default-signal=INT,TERM timeout --foreground -s {signal} 0.1 $S ns add --prefix s{code}- --count 100000"
        );
        let outcome = sh(&own, &script);
        assert!(
            matches!(outcome.code, Some(found) if found == code || found == 124),
            "{outcome}"
        );
        assert!(
            outcome
                .error()
                .contains("of 100000 network namespaces were created: "),
            "{outcome}"
        );
        assert_eq!(own.remains(), Vec::<String>::new());
        assert!(!own.names().is_empty());
        ns(&own, "del --all --yes --wait").ok();
    }
}

#[test]
fn veth_pairs_connect_to_a_bridge_or_a_namespace() {
    let own = need!(MountNamespace::new(""));
    // In another network namespace, so that the host gets no bridge.
    let script = "ip link add br7 type bridge && ip link set br7 up && ip addr add 10.99.0.3/24 dev br7 && \
        $S ns add --prefix v --count 3 --up --veth-to br7 --subnet 10.99.0.0/24 -j 1 && \
        $S ns add later --veth-to br7 --subnet 10.99.0.0/24 && \
        $S ns add fixed --veth-to br7 --subnet 10.99.0.77/24 && \
        $S ns add six --veth-to br7 --subnet fd00:9::/64 && \
        for n in v0 v1 v2 later fixed; do ip -n $n -4 -o addr show dev eth0 | awk '{print $4}'; done; \
        ip -n six -6 -o addr show dev eth0 scope global | awk '{print $4}'; \
        ip -o link show master br7 | awk '{sub(/@.*/, \"\", $2); print $2}' | sort; \
        ip -n v0 -o link show dev eth0 | grep -c '[<,]UP[,>]'";
    let outcome = sh(
        &own,
        &format!("unshare --net sh -c '{}'", script.replace('\'', "'\\''")),
    );
    let expected = "10.99.0.2/24\n10.99.0.4/24\n10.99.0.5/24\n10.99.0.6/24\n10.99.0.77/24\nfd00:9::2/64\n\
                    v-fixed\nv-later\nv-six\nv-v0\nv-v1\nv-v2\n1\n";
    assert_eq!(outcome.quiet(), expected);
    ns(&own, "del --all --yes --wait").ok();
    // Concurrent adds choose different addresses.
    let script = "ip link add br8 type bridge && ip link set br8 up && \
        for p in a b c d; do $S ns add --prefix $p --count 20 --veth-to br8 --subnet 10.50.0.0/24 & done; wait; \
        for p in a b c d; do for i in $(seq 0 19); do ip -n $p$i -4 -o addr show dev eth0 | awk \"{print \\$4}\"; done; done | sort | uniq | wc -l";
    let outcome = sh(&own, &format!("unshare --net sh -c '{script}'"));
    assert_eq!(outcome.quiet(), "80\n");
    ns(&own, "del --all --yes --wait").ok();
    // Both ends of a pair reach each other.
    let script = "$S ns add hub --up && $S ns add a-name-longer-than-an-interface b --up --veth-to hub --subnet 10.98.0.0/24 -j 1 && \
        ip -n hub -4 -o addr | awk '$2 != \"lo\" {print $4}' | sort && \
        ip -n b -4 -o addr show dev eth0 | awk '{print $4}'";
    assert_eq!(quiet(&own, script), "10.98.0.2/31\n10.98.0.4/31\n10.98.0.5/31\n");
    let talk = "import socket,sys\ns=socket.create_server((\"10.98.0.4\",0))\nprint(s.getsockname()[1],flush=True)\nc,_=s.accept()\nc.sendall(b\"hello\")";
    let hear = "import socket,sys\nprint(socket.create_connection((\"10.98.0.4\",int(sys.argv[1])),5).recv(9).decode())";
    let script = format!(
        "cd /run; mkfifo port; ip netns exec hub python3 -c '{talk}' >port & read -r p <port; ip netns exec b python3 -c '{hear}' $p; wait"
    );
    assert_eq!(quiet(&own, &script), "hello\n");
    // Too few addresses for all: none is created.
    let outcome = ns(&own, "add x y z --veth-to hub --subnet 10.97.0.0/30");
    assert_eq!(outcome.code, Some(1));
    assert!(outcome.error().contains("nothing was created"), "{outcome}");
    for (target, why) in [("lo", "is not a bridge"), ("nosuch", "neither a bridge nor")] {
        let outcome = ns(&own, &format!("add x --veth-to {target}"));
        assert_eq!(outcome.code, Some(1));
        assert!(outcome.error().contains(why), "{outcome}");
    }
    // A failed veth pair leaves no namespace.
    quiet(&own, "ip -n hub link add v-x type veth peer name y");
    let outcome = ns(&own, "add x --veth-to hub");
    assert_eq!(outcome.code, Some(1));
    assert!(outcome.error().contains("make a veth pair"), "{outcome}");
    assert_eq!(own.names(), ["a-name-longer-than-an-interface", "b", "hub"]);
}

#[test]
fn set_gives_ids_like_ip() {
    let own = need!(MountNamespace::new(""));
    // Ids belong to the namespace in which they are given: here not the host's.
    let script = "$S ns add a b c && $S ns set a 7 && $S ns set b auto && ip netns set c 9 && ip netns list | sort; \
                  $S ns set a 8 2>&1 | grep -c 'has a number already'; $S ns set nosuch 1 2>&1 | grep -c 'none of that name'";
    let outcome = sh(
        &own,
        &format!("unshare --net sh -c '{}'", script.replace('\'', "'\\''")),
    );
    assert_eq!(outcome.quiet(), "a (id: 7)\nb (id: 0)\nc (id: 9)\n1\n1\n");
    let outcome = ns(&own, "attach mine 4194304");
    assert_eq!(outcome.code, Some(1));
    assert!(outcome.error().contains("No such file or directory"), "{outcome}");
    assert_eq!((own.names().len(), own.remains()), (3, Vec::new()));
}

#[test]
fn del_of_a_group_needs_confirmation() {
    let own = need!(MountNamespace::new(""));
    ns(&own, "add --prefix web --count 12").quiet();
    ns(&own, "add db").quiet();
    let outcome = ns(&own, "del --prefix web");
    assert_eq!(outcome.code, Some(2));
    assert!(
        outcome
            .error()
            .contains("12 network namespaces would be deleted (web0 ... web11)"),
        "{outcome}"
    );
    let listed = quiet(&own, "$S ns del --prefix web --dry-run");
    assert_eq!(
        (listed.lines().count(), listed.lines().last()),
        (12, Some("web11"))
    );
    assert_eq!(own.names().len(), 13);
    // On a terminal it asks.
    for (answer, left) in [("n", 13), ("", 13), ("y", 1)] {
        let script = format!(
            "printf '%s\\n' '{answer}' | script -qec \"$S ns del --prefix web\" /dev/null >/dev/null"
        );
        sh(&own, &script);
        assert_eq!(own.names().len(), left, "{answer:?}");
    }
    assert_eq!(ns(&own, "del --prefix web --yes").code, Some(0));
    ns(&own, "del --all --yes").quiet();
    assert!(own.names().is_empty());
    let outcome = ns(&own, "del nosuch");
    assert_eq!(outcome.code, Some(1));
    assert!(outcome.error().contains("No such file or directory"), "{outcome}");
}
