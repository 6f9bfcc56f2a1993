use super::*;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

fn ip(last: u8) -> IpAddr {
    IpAddr::from([192, 0, 2, last])
}

fn in_ms(ms: u64) -> Instant {
    Instant::now() + Duration::from_millis(ms)
}

#[test]
fn each_address_is_looked_up_once() {
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let hosts = Hosts::with_resolver(move |address| {
        count.fetch_add(1, Ordering::Relaxed);
        match address {
            _ if address == ip(1) => HostLookup::Name("one.example.".to_owned()),
            _ if address == ip(2) => HostLookup::NoName,
            _ if address == ip(3) => HostLookup::Name("evil\x1b[2J.example".to_owned()),
            _ => HostLookup::Failed,
        }
    });
    let mapped = "::ffff:192.0.2.1".parse().unwrap();
    hosts.prefetch([ip(1), ip(2), ip(3), ip(4), ip(1), mapped, [0, 0, 0, 0].into()]);
    let expected = HostCounts {
        named: 1,
        nameless: 1,
        failed: 2,
        pending: 0,
        skipped: 0,
    };
    assert_eq!(hosts.wait(in_ms(5000)), expected);
    hosts.prefetch([ip(1), ip(2)]);
    assert_eq!(hosts.wait(in_ms(5000)), expected);
    assert_eq!(asked.load(Ordering::Relaxed), 4);
    assert_eq!(hosts.host(ip(1)), Some("one.example"));
    assert_eq!(hosts.host(mapped), Some("one.example"));
    assert_eq!(hosts.host(ip(2)), None);
    assert_eq!(hosts.host(ip(3)), None);
}

#[test]
fn hanging_resolver_delays_no_longer_than_the_deadline() {
    let (release, wait) = mpsc::channel::<()>();
    let wait = Mutex::new(wait);
    let hosts = Hosts::with_resolver(move |address| {
        if address == ip(0) {
            let _ = wait.lock().unwrap().recv();
        }
        HostLookup::Name("late.example".to_owned())
    });
    let start = Instant::now();
    hosts.prefetch((0..10).map(ip));
    let counts = hosts.wait(in_ms(200));
    assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
    assert_eq!((counts.named, counts.pending), (9, 1));
    assert_eq!(hosts.host(ip(0)), None);
    assert_eq!(hosts.host(ip(9)), Some("late.example"));
    // A late name is there for the next listing.
    drop(release);
    let counts = hosts.wait(in_ms(5000));
    assert_eq!((counts.named, counts.pending), (10, 0));
    assert_eq!(hosts.host(ip(0)), Some("late.example"));
}

#[test]
fn concurrent_look_ups_are_bounded() {
    let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (now_inside, most_inside) = (Arc::clone(&now), Arc::clone(&most));
    let hosts = Hosts::with_resolver(move |_| {
        let running = now_inside.fetch_add(1, Ordering::SeqCst) + 1;
        most_inside.fetch_max(running, Ordering::SeqCst);
        // How long the resolver takes.
        thread::sleep(Duration::from_millis(20));
        now_inside.fetch_sub(1, Ordering::SeqCst);
        HostLookup::NoName
    });
    hosts.prefetch((0..=255).map(ip));
    assert_eq!(hosts.wait(in_ms(10_000)).nameless, 256);
    let most = most.load(Ordering::SeqCst);
    assert!((2..=THREADS_MAX).contains(&most), "{most}");
}

#[test]
fn addresses_beyond_the_limit_are_skipped() {
    let hosts = Hosts::with_resolver(|_| HostLookup::NoName);
    let many = (0..ADDRESSES_MAX as u32 + 7).map(|n| IpAddr::from((n + (1 << 24)).to_be_bytes()));
    hosts.prefetch(many);
    let counts = hosts.wait(in_ms(20_000));
    assert_eq!((counts.nameless, counts.skipped), (ADDRESSES_MAX, 7));
}

#[test]
fn invalid_host_names_are_rejected() {
    let long = ["a".repeat(63), "b".repeat(63), "c".repeat(63), "d".repeat(61)].join(".");
    for good in ["a", "a.b.c", "xn--bcher-kva.example", "_srv.x-1.example", &long] {
        assert_eq!(host_name(good), Some(good));
    }
    assert_eq!(host_name("dot.at.end."), Some("dot.at.end"));
    let (label, name) = ("a".repeat(64), format!("{long}d"));
    for bad in [
        "",
        ".",
        "a..b",
        ".a",
        "a b",
        "a\n",
        "a\x1b[31m",
        "ä.example",
        "a/b",
        "a;b",
        "<b>",
        &label,
        &name,
    ] {
        assert_eq!(host_name(bad), None, "{bad:?}");
    }
}

#[test]
fn loopback_has_the_name_of_the_hosts_file() {
    let hosts = Hosts::default();
    let loopback = IpAddr::from([127, 0, 0, 1]);
    hosts.prefetch([loopback]);
    assert_eq!(hosts.wait(in_ms(5000)).pending, 0);
    let file = std::fs::read_to_string("/etc/hosts").unwrap_or_default();
    let mut lines = file.lines().map(str::split_ascii_whitespace);
    let Some(name) = lines.find_map(|mut words| (words.next() == Some("127.0.0.1")).then(|| words.next()))
    else {
        println!("SKIP: /etc/hosts does not name 127.0.0.1");
        return;
    };
    assert_eq!(hosts.host(loopback), name);
}

#[test]
fn slow_resolution_times_out() {
    assert!(
        resolve("localhost", in_ms(5000))
            .unwrap()
            .iter()
            .all(IpAddr::is_loopback)
    );
    assert_eq!(resolve("192.0.2.7", in_ms(5000)).unwrap(), [ip(7)]);
    assert!(matches!(
        resolve("a b", in_ms(5000)),
        Err(ResolveError::Failed(_))
    ));
    let twice = resolve_with(in_ms(5000), || Ok(vec![ip(2), ip(1), ip(2)])).unwrap();
    assert_eq!(twice, [ip(2), ip(1)]);
    let (release, wait) = mpsc::channel::<()>();
    let start = Instant::now();
    let hanging = resolve_with(in_ms(50), move || {
        let _ = wait.recv();
        Ok(vec![])
    });
    assert!(matches!(hanging, Err(ResolveError::TimedOut)));
    assert!(start.elapsed() < Duration::from_secs(2));
    drop(release);
}
