//! Names from a real kernel: interfaces of another namespace, cgroups, host names within their deadline.

use sockeye_model::{CgroupId, Names};
use sockeye_source::names::{Cgroups, Interfaces, NameKinds, Namespaces, SystemNames};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use std::{fs, thread};

/// A process that ends when it goes out of scope, and whatever it holds with it.
struct Held(Child);

impl Drop for Held {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A process that is alone in a network namespace with an interface of its own.
fn holder_of_namespace() -> Option<Held> {
    let script = "ip link add sk-test0 type veth peer name sk-test1 && echo ready && exec sleep 60";
    let mut holder = Held(
        Command::new("unshare")
            .args(["--net", "sh", "-c", script])
            .stdout(Stdio::piped())
            .spawn()
            .ok()?,
    );
    let mut line = String::new();
    BufReader::new(holder.0.stdout.take()?)
        .read_line(&mut line)
        .ok()?;
    (line == "ready\n").then_some(holder)
}

#[test]
fn interfaces_are_those_of_the_thread() {
    let Some(holder) = holder_of_namespace() else {
        println!("SKIP: cannot make a network namespace with interfaces (needs root, unshare, ip, veth)");
        return;
    };
    let namespace = File::open(format!("/proc/{}/ns/net", holder.0.id())).unwrap();
    let there = thread::spawn(move || {
        let kind = Some(rustix::thread::LinkNameSpaceType::Network);
        rustix::thread::move_into_link_name_space(namespace.as_fd(), kind).unwrap();
        Interfaces::snapshot()
    });
    let there = there.join().unwrap();
    let index = there.index("sk-test0").expect("made by the holder");
    assert_eq!(there.name(index), Some("sk-test0"));
    assert!(there.index("sk-test1").is_some_and(|other| other != index));
    assert_eq!(Interfaces::snapshot().index("sk-test0"), None);
}

#[test]
fn cgroups_of_this_host_have_paths() {
    let Some(mount) = Cgroups::read().mount().map(Path::to_owned) else {
        println!("SKIP: no cgroup2 mount");
        return;
    };
    let path = format!("/sockeye-test-{}", std::process::id());
    let folder = mount.join(&path[1..]);
    let inner = folder.join("inner");
    if let Err(error) = fs::create_dir(&folder) {
        println!("SKIP: cannot make a cgroup: {error}");
        return;
    }
    let id = |folder: &Path| fs::metadata(folder).map(|metadata| CgroupId(metadata.ino()));
    let made = fs::create_dir(&inner);
    let ids = (id(&folder), id(&inner));
    let names = SystemNames::new(NameKinds {
        cgroups: true,
        ..NameKinds::NONE
    });
    let found = ids
        .0
        .as_ref()
        .map(|outer| names.cgroup(*outer).map(str::to_owned));
    let found_inner = ids
        .1
        .as_ref()
        .map(|inner| names.cgroup(*inner).map(str::to_owned));
    let back = names.cgroups().id(&path);
    let _ = fs::remove_dir(&inner);
    fs::remove_dir(&folder).unwrap();
    made.unwrap();
    assert_eq!(found.unwrap().as_deref(), Some(&*path));
    assert_eq!(found_inner.unwrap(), Some(format!("{path}/inner")));
    assert_eq!(back, ids.0.ok());
}

/// What the next test runs again, where namespaces can be made without a trace.
#[test]
#[ignore = "started by the other tests"]
fn namespaces_are_listed() {
    for namespace in Namespaces::read().all() {
        println!("@ {} {}", namespace.name, namespace.inode);
    }
}

#[test]
fn named_namespaces_match_ip() {
    // All in a mount namespace of its own: nothing is left in the folder.
    let script = "mount -t tmpfs none /run/netns && ip netns add one && ip netns add two && : > /run/netns/leftover \
        && ip netns exec one stat -Lc '= one %i' /proc/self/ns/net && ip netns exec two stat -Lc '= two %i' /proc/self/ns/net \
        && \"$0\" --exact tests::names::namespaces_are_listed --ignored --nocapture";
    let actor = std::env::current_exe().unwrap();
    let output = Command::new("unshare")
        .args(["--mount", "sh", "-c", script])
        .arg(actor)
        .output();
    let outcome = output
        .map(|output| String::from_utf8_lossy(&output.stdout).into_owned())
        .unwrap_or_default();
    let after = |mark| -> Vec<&str> {
        let mut lines: Vec<_> = outcome
            .lines()
            .filter_map(|line| Some(line.split_once(mark)?.1))
            .collect();
        lines.sort_unstable();
        lines
    };
    if after("= ").len() < 2 {
        println!("SKIP: cannot make named network namespaces (needs root, unshare, ip, /run/netns)");
        return;
    }
    assert_eq!(after("@ "), after("= "), "{outcome}");
}

#[test]
fn unanswered_lookup_ends_at_the_deadline() {
    let names = SystemNames::new(NameKinds {
        hosts: true,
        ..NameKinds::NONE
    });
    assert_eq!(
        names.wait_for_hosts(Instant::now() + Duration::from_secs(5)),
        Default::default()
    );
    let start = Instant::now();
    // TEST-NET-1: no server has these names, and a host without a resolver gets no reply.
    names.prefetch_hosts((1..=40).map(|last| [192, 0, 2, last].into()));
    assert!(start.elapsed() < Duration::from_secs(1));
    let counts = names.wait_for_hosts(start + Duration::from_millis(300));
    assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
    assert_eq!(
        counts.named + counts.nameless + counts.failed + counts.pending,
        40
    );
}
