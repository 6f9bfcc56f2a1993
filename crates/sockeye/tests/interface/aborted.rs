//! A command that aborts, as a panic makes it: what it did to the host is undone by the kernel or by a process that watches over
//! it. `Drop` does not run then.
//!
//! The same for `ns add` and `ns del` is in `commands/netns/faults.rs`, for `keepalive run` in
//! `commands/actions/keepalive_cgroup.rs`, and for the namespaces and devices of `bench tun` in `commands/bench/tun.rs`.

use crate::fixtures::binary::{SOCKEYE, clean, command, wait_for_observer};
use rustix::process::{Pid, Signal, kill_process};
use sockeye_lab::{Lab, need, wait_until, wait_within};
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Aborts a command.
#[track_caller]
fn abort(mut child: Child) {
    kill_process(Pid::from_child(&child), Signal::ABORT).unwrap();
    let status = child.wait().unwrap();
    assert_eq!(status.signal(), Some(Signal::ABORT.as_raw()), "{status}");
}

fn start(command: &mut Command) -> Child {
    clean(command);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

#[test]
fn promiscuous_mode_ends_with_the_socket() {
    let lab = need!(Lab::new("abort_capture"));
    let (one, two) = (lab.namespace("one"), lab.namespace("two"));
    let link = lab.link(&one, &two);
    let device = link.devices().0;
    let mode = || {
        let text = one.output("ip", &["-d", "link", "show", device]);
        let mut words = text.split_whitespace();
        words.find(|word| *word == "promiscuity").expect("its word");
        words.next().expect("a number").to_owned()
    };
    let file = lab.directory().join("out");
    let file = file.to_str().unwrap();
    assert_eq!(mode(), "0");
    let child = start(&mut one.command(SOCKEYE, &["capture", "-i", device, "-o", file]));
    wait_until("promiscuous mode", || mode() == "1");
    abort(child);
    wait_until("the mode before", || mode() == "0");
}

#[test]
fn breakpoints_end_with_the_profiler_and_the_program_goes_on() {
    let lab = need!(Lab::new("abort_probes"));
    let file = lab.directory().join("counter");
    // It calls a function of libc all the time; a breakpoint that stays without its owner would end it by SIGTRAP.
    let script = format!(
        "import os,time\nn=0\nwhile True:\n  os.getppid(); n+=1; time.sleep(0.001)\n  open('{}','w').write(str(n))\n",
        file.display()
    );
    let mut observed = start(Command::new("python3").args(["-c", &script]));
    let pid = observed.id().to_string();
    let count = || {
        fs::read_to_string(&file)
            .ok()
            .and_then(|text| text.parse::<u64>().ok())
    };
    wait_until("the program runs", || count().is_some());
    for words in [
        &["--functions", "getppid", "--lib", "libc.so.6"][..],
        &["--kernel-functions", "__x64_sys_getppid"],
        &[],
    ] {
        let child = start(command().args(["prof", "-d", "100", "-p", &pid]).args(words));
        wait_for_observer(child.id());
        abort(child);
        let before = count();
        wait_within(Duration::from_secs(5), "it goes on", || {
            (count() > before).then_some(())
        });
        assert!(observed.try_wait().unwrap().is_none(), "{words:?}");
    }
    observed.kill().unwrap();
    observed.wait().unwrap();
}

/// Processes that have this word among their arguments, in their environment, or that we forked with it.
fn processes_with(word: &str) -> Vec<String> {
    let all = fs::read_dir("/proc").unwrap().flatten();
    all.filter_map(|entry| {
        let pid: u32 = entry.file_name().to_str()?.parse().ok()?;
        let environment = fs::read(entry.path().join("environ")).ok()?;
        let found = environment
            .windows(word.len())
            .any(|text| text == word.as_bytes());
        let comm = fs::read_to_string(entry.path().join("comm")).unwrap_or_default();
        found.then(|| format!("{pid} {}", comm.trim()))
    })
    .collect()
}

#[test]
fn paused_command_ends_with_the_profiler() {
    let word = format!("SOCKEYE_ABORT_TEST=paused-{}", std::process::id());
    let (name, value) = word.split_once('=').unwrap();
    for round in 0..20 {
        let mut command = command();
        command
            .env(name, value)
            .args(["prof", "-d", "100", "--", "sleep", "0.3"]);
        let child = start(&mut command);
        std::thread::sleep(Duration::from_millis(round * 8));
        abort(child);
        // It was resumed and ends by itself, or exits because its pipe is closed.
        wait_within(Duration::from_secs(5), "no process is left", || {
            processes_with(&word).is_empty().then_some(())
        });
    }
}

#[test]
fn unfinished_file_has_no_name() {
    let lab = need!(Lab::new("abort_file"));
    let folder = lab.directory().join("out");
    fs::create_dir(&folder).unwrap();
    let child = start(
        command()
            .args(["prof", "-d", "100", "-p", "1", "-o"])
            .arg(folder.join("out.svg")),
    );
    crate::fixtures::binary::wait_for_sigint_handler(child.id());
    abort(child);
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
}
