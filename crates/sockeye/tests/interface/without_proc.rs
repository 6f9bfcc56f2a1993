//! No `/proc`, that of another pid namespace, or one that hides processes: each command works without owners, or names the true
//! reason and the remedy.

use crate::fixtures::binary::{Outcome, SOCKEYE, clean, run, sockets};
use crate::fixtures::forbidden_call::ForbiddenCall;
use crate::fixtures::processes::UNPRIVILEGED_UID;
use sockeye_lab::{Lab, Namespace, Skip, need, program};
use std::path::PathBuf;
use std::process::Command;

#[test]
fn every_command_works_without_proc_or_names_the_remedy() {
    let lab = need!(Lab::new("noproc"));
    let here = lab.namespace("here");
    let pair = here.loopback().established();
    let client = format!("127.0.0.1:{}", pair.client.port());
    for (place, script) in [
        ("unmounted", UNMOUNTED),
        ("empty folder", EMPTY),
        ("chroot", CHROOT),
        ("foreign pid namespace", FOREIGN),
    ] {
        let folder = need!(BinaryFolder::new(&lab, &here, script));
        for line in WORKING {
            let outcome = folder.words(line);
            outcome.succeeded();
            no_wrong_reason(&outcome, &format!("{place}: {line}"));
        }
        for line in NEEDING_PROC {
            let outcome = folder.words(line);
            outcome.no_panic();
            assert_ne!(outcome.code, Some(0), "{place}: {line}: {outcome}");
            assert!(outcome.error().contains(REMEDY), "{place}: {line}: {outcome}");
            no_wrong_reason(&outcome, &format!("{place}: {line}"));
        }
        // The rows are there, and a note says what is missing.
        for line in [
            "sockets -tan",
            "sockets -tanp",
            "ss -tan",
            "ss -tanp",
            "netstat -tan",
            "netstat -tanp",
        ] {
            let outcome = folder.words(line);
            assert!(outcome.ok().contains(&client), "{place}: {line}: {outcome}");
        }
        let listed = folder.words("sockets -tan --netns all --format json").json();
        let local = |socket: &serde_json::Value| socket["local"]["port"] == pair.client.port();
        assert!(sockets(&listed).iter().any(local), "{place}: {listed}");
        for line in [
            "check",
            "netstat -i",
            "netstat -s",
            "netstat -g",
            "ns list",
            "doctor",
        ] {
            let outcome = folder.words(line);
            let text = format!("{}{}", outcome.ok(), outcome.error());
            assert!(text.contains(REMEDY), "{place}: {line}: {outcome}");
        }
        let outcome = folder.words("capture -i lo -d 0.1 -o OUT/lo.pcapng");
        outcome.ok();
        assert!(folder.path.join("lo.pcapng").exists(), "{place}: {outcome}");
    }
}

#[test]
fn owners_are_unknown_without_proc_and_without_bpf() {
    let lab = need!(Lab::new("noowners"));
    let here = lab.namespace("here");
    let pair = here.loopback().established();
    // Without /sys there are no types of the kernel, which our BPF programs need.
    let folder = need!(BinaryFolder::new(&lab, &here, CHROOT));
    for line in [
        "flows -np",
        "sockets -tanp",
        "check",
        "keepalive list",
        "keepalive list --summary",
        "keepalive set --dry-run dport = :9",
        "lstf -p",
    ] {
        let outcome = folder.words(line);
        outcome.ok();
        let note = format!("owners are not known: no proc file system is mounted on /proc; try: {REMEDY}\n");
        assert!(outcome.error().contains(&note), "{line}: {outcome}");
    }
    let document = folder.words("sockets -tanp --format json").json();
    for socket in sockets(&document) {
        assert!(socket.get("owners").is_none(), "{document}");
    }
    // A filter of owners would select the wrong sockets: none, or with `!=` all.
    for line in [
        "sockets -tan owner = nginx",
        "flows owner != nginx",
        "kill --yes owner != nginx",
        "keepalive set --yes owner != nginx",
    ] {
        let outcome = folder.words(line);
        let error = outcome.failed(1);
        assert!(
            error.contains("the filter tests owners") && error.contains(REMEDY),
            "{line}: {outcome}"
        );
    }
    let outcome = folder.words(&format!("keepalive set --yes sport = :{}", pair.client.port()));
    assert!(
        outcome.code == Some(1)
            && outcome
                .error()
                .contains("no owner could be seen; no proc file system"),
        "{outcome}"
    );
    // Closing needs no owner.
    let outcome = folder.words(&format!("kill --yes sport = :{}", pair.client.port()));
    assert!(outcome.ok().contains("1 connection closed"), "{outcome}");
    assert!(
        outcome
            .error()
            .contains("which connections this session needs is not known"),
        "{outcome}"
    );
    // What is missing is recorded with its reason.
    let outcome = folder.words("record --once --store OUT/record.db");
    outcome.succeeded();
    assert!(
        outcome.error().contains("owners are not known: ") && outcome.error().contains(REMEDY),
        "{outcome}"
    );
    let outcome = folder.words("history list --store OUT/record.db");
    let is_noted = |line: &str| line.contains("not-seen  owners") && line.contains(REMEDY);
    assert!(outcome.ok().lines().any(is_noted), "{outcome}");
}

#[test]
fn unprivileged_commands_survive_without_proc() {
    let lab = need!(Lab::new("noprocuser"));
    let here = lab.namespace("here");
    need!(program("setpriv"));
    let pair = here.loopback().established();
    let client = format!("127.0.0.1:{}", pair.client.port());
    let as_user = format!(
        "umount -l /proc; exec setpriv --reuid {UNPRIVILEGED_UID} --regid {UNPRIVILEGED_UID} --clear-groups"
    );
    let folder = need!(BinaryFolder::new(
        &lab,
        &here,
        &format!("{as_user} $BINARY \"$@\"")
    ));
    for line in WORKING.iter().chain(NEEDING_PROC) {
        let outcome = folder.words(line);
        outcome.no_panic();
        no_wrong_reason(&outcome, line);
    }
    for line in ["sockets -tan", "sockets -tanp", "ss -tanp", "netstat -tanp"] {
        assert!(folder.words(line).ok().contains(&client), "{line}");
    }
}

#[test]
fn hidden_processes_and_other_pids_are_no_missing_proc() {
    let lab = need!(Lab::new("hidepid"));
    let here = lab.namespace("here");
    need!(program("setpriv"));
    let hidden = format!(
        "mount -t proc -o hidepid=2 proc /proc; \
         exec setpriv --reuid {UNPRIVILEGED_UID} --regid {UNPRIVILEGED_UID} --clear-groups $BINARY \"$@\""
    );
    let parent = "exec unshare --pid --fork $BINARY \"$@\"";
    for script in [&*hidden, parent] {
        let folder = need!(BinaryFolder::new(&lab, &here, script));
        for line in WORKING.iter().chain(NEEDING_PROC) {
            let outcome = folder.words(line);
            outcome.no_panic();
            assert!(!outcome.error().contains(REMEDY), "{script}: {line}: {outcome}");
        }
    }
    let folder = need!(BinaryFolder::new(&lab, &here, &hidden));
    let outcome = folder.words("sockets -tanp");
    assert!(
        outcome
            .error()
            .contains("(hidepid): owners may be missing; run as root"),
        "{outcome}"
    );
    let outcome = folder.words("sockets -tan --netns 1");
    assert!(
        outcome
            .failed(1)
            .contains("hides the processes of other users (hidepid)"),
        "{outcome}"
    );
}

/// Before Linux 6.4 there is no `prctl(PR_GET_AUXV)`. Regression: rustix panicked, since it then reads `/proc/self/auxv`.
#[test]
fn kernel_without_pr_get_auxv_needs_no_proc() {
    let lab = need!(Lab::new("auxv"));
    let here = lab.namespace("here");
    let python = need!(program("python3"));
    let script = ForbiddenCall::PR_GET_AUXV.write_launcher(lab.directory());
    let forbid = format!(
        "umount -l /proc; exec {} {} $BINARY \"$@\"",
        python.display(),
        script.display()
    );
    let folder = need!(BinaryFolder::new(&lab, &here, &forbid));
    for line in WORKING {
        folder.words(line).succeeded();
    }
    for line in NEEDING_PROC {
        folder.words(line).no_panic();
    }
}

/// A folder with the binary and a capture, and how commands are run.
struct BinaryFolder<'a> {
    here: &'a Namespace,
    path: PathBuf,
    script: String,
}

impl<'a> BinaryFolder<'a> {
    /// `script` is run by `sh` in a mount namespace of its own, with the arguments of the binary `$BINARY`.
    fn new(lab: &Lab, here: &'a Namespace, script: &str) -> Result<Self, Skip> {
        for needed in ["unshare", "mount", "umount", "chroot", "sh"] {
            program(needed)?;
        }
        let binary = lab.copy_for_all_users(SOCKEYE.as_ref());
        let path = binary.parent().expect("a file is in a folder").to_owned();
        let capture = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../testdata/captures/fast_open.pcap"
        );
        std::fs::copy(capture, path.join("capture.pcap")).expect("copy");
        let script = format!(
            "BINARY='{}'; OUT='{}'; mount -t tmpfs own-run /run; {script}",
            binary.display(),
            path.display()
        );
        Ok(Self { here, path, script })
    }

    #[track_caller]
    fn words(&self, line: &str) -> Outcome {
        let line = line.replace("OUT", self.path.to_str().expect("its name is ASCII"));
        let mut command = Command::new("unshare");
        clean(&mut command);
        command
            .args([
                "--mount",
                "--propagation",
                "private",
                "sh",
                "-c",
                &self.script,
                "sh",
            ])
            .args(line.split_whitespace());
        self.here.run(|| run(&mut command))
    }
}

/// Panics if a message names another reason than the missing `/proc`.
#[track_caller]
fn no_wrong_reason(outcome: &Outcome, what: &str) {
    for wrong in [
        "hidepid",
        "ulimit -n",
        "there is no such process",
        "did you mean",
        "should be root",
        "no cgroup file system",
    ] {
        assert!(!outcome.error().contains(wrong), "{what}: {outcome}");
    }
}

const REMEDY: &str = "mount -t proc proc /proc";

const UNMOUNTED: &str = "umount -l /proc && exec $BINARY \"$@\"";

const EMPTY: &str = "mount -t tmpfs empty /proc && exec $BINARY \"$@\"";

/// A proc file system of a pid namespace whose processes have ended.
const FOREIGN: &str = "unshare --pid --fork mount -t proc proc /proc && exec $BINARY \"$@\"";

const CHROOT: &str = r#"
ROOT=$OUT/root; mkdir -p $ROOT; mount -t tmpfs root $ROOT
mkdir -p $ROOT/usr $ROOT/run $ROOT/tmp $ROOT$OUT
mount --rbind /usr $ROOT/usr; mount --bind $OUT $ROOT$OUT
for name in bin sbin lib lib64; do
  if [ -L /$name ]; then ln -s usr/$name $ROOT/$name
  elif [ -d /$name ]; then mkdir $ROOT/$name; mount --rbind /$name $ROOT/$name; fi
done
exec chroot $ROOT $BINARY "$@"
"#;

/// Command lines that work without `/proc`, with less than usual.
const WORKING: &[&str] = &[
    "",
    "flows -n",
    "flows -np",
    "flows -n --netns all",
    "flows -n --group-by process",
    "sockets -tan",
    "sockets -tanp",
    "sockets -tan --netns all",
    "sockets -tan dev = lo",
    "sockets -tanr",
    "doctor",
    "doctor --format json",
    "check",
    "check --netns all",
    "keepalive list",
    "keepalive list --summary",
    "kill --dry-run dport = :9",
    "kill --yes dport = :9",
    "keepalive set --yes dport = :9",
    "keepalive unset --yes dport = :9",
    "ns list",
    "ns list -1",
    "ns list --format json",
    "ns identify",
    "capture -i lo -d 0.05 -o OUT/c.pcapng",
    "capture -i any -d 0.05 -o -",
    "analyze OUT/capture.pcap",
    "graph OUT/capture.pcap",
    "graph OUT/capture.pcap -o OUT/g.svg",
    "explain rto",
    "bench memory --sizes 64 --methods memset --repeats 1 -d 0.01",
    "bench sources --sockets 10 --repeats 1",
    "ss -tan",
    "ss -tanp",
    "ss -s",
    "ss -xanp",
    "netstat -tan",
    "netstat -tanp",
    "netstat -i",
    "netstat -g",
    "netstat -s",
    "lstf -n",
    "lstf -np",
    "completions bash",
    "--version",
];

/// Command lines that cannot work without it.
const NEEDING_PROC: &[&str] = &[
    "sockets -tan --source procfs",
    "sockets -tan --netns 1",
    "sockets -tan cgroup = /x",
    "keepalive attached",
    "keepalive attach --dry-run 1",
    "keepalive detach --dry-run 1",
    "ns identify 1",
    "ns add one",
    "netstat -r",
    "netstat -x",
];
