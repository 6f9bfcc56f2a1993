//! A hang of a NIC with what follows it is one event: the reset, and the link that goes down and comes back.

use sockeye_dictionary::Dictionary;

/// The entries that begin an event or stand alone, each with the entries that follow.
fn events(log: &str) -> Vec<(String, Vec<String>)> {
    let dictionary = Dictionary::new();
    let mut reader = dictionary.log();
    for line in log.lines() {
        reader.line(line.as_bytes());
    }
    reader.finish();
    let met = reader.met();
    let unknown: Vec<_> = reader.unknown().iter().map(|line| line.line.clone()).collect();
    assert!(unknown.is_empty(), "{unknown:?}");
    let heads = met.into_iter().filter(|met| met.in_events < met.times);
    let with_followers = heads.map(|met| {
        let followers = met.followed_by.iter();
        let followers = followers.map(|follower| follower.entry.name.to_string());
        (met.entry.name.to_string(), followers.collect())
    });
    with_followers.collect()
}

#[track_caller]
fn check(log: &str, head: &str, followers: usize) {
    let events = events(log);
    assert_eq!(events.len(), 1, "{events:?}");
    assert_eq!(
        (events[0].0.as_str(), events[0].1.len()),
        (head, followers),
        "{events:?}"
    );
}

#[test]
fn hang_of_e1000e_is_one_event() {
    let log = "\
[100.0] e1000e 0000:00:1f.6 eno1: Detected Hardware Unit Hang:
[100.0]   TDH                  <31>
[100.0]   TDT                  <51>
[102.0] e1000e 0000:00:1f.6 eno1: Detected Hardware Unit Hang:
[103.0] ------------[ cut here ]------------
[103.0] NETDEV WATCHDOG: eno1 (e1000e): transmit queue 0 timed out
[103.0] WARNING: CPU: 2 PID: 0 at net/sched/sch_generic.c:525 dev_watchdog+0x213/0x220
[103.0] Call Trace:
[103.0]  call_timer_fn+0x29/0x130
[103.1] e1000e 0000:00:1f.6 eno1: Reset adapter unexpectedly
[103.2] e1000e 0000:00:1f.6 eno1: NIC Link is Down
[107.0] e1000e 0000:00:1f.6 eno1: NIC Link is Up 1000 Mbps Full Duplex, Flow Control: Rx/Tx
[107.0] IPv6: ADDRCONF(NETDEV_CHANGE): eno1: link becomes ready
";
    check(log, "e1000e-hardware-unit-hang", 6);
}

#[test]
fn hang_of_igb_and_ixgbe_is_one_event() {
    // The first line has no interface, the others have both.
    let log = "\
Nov 20 12:00:00 web-1 kernel: igb 0000:02:00.1: Detected Tx Unit Hang
Nov 20 12:00:02 web-1 kernel: igb 0000:02:00.1 eth1: Reset adapter
Nov 20 12:00:02 web-1 kernel: igb 0000:02:00.1 eth1: igb: eth1 NIC Link is Down
Nov 20 12:00:06 web-1 kernel: igb 0000:02:00.1 eth1: igb: eth1 NIC Link is Up 1000 Mbps Full Duplex, Flow Control: RX/TX
";
    check(log, "e1000e-hardware-unit-hang", 3);
    let log = "\
[9.0] ixgbe 0000:04:00.0 eth4: Detected Tx Unit Hang
[9.0] ixgbe 0000:04:00.0 eth4: tx hang 1 detected on queue 3, resetting adapter
[9.1] ixgbe 0000:04:00.0 eth4: Reset adapter
[9.9] ixgbe 0000:04:00.0 eth4: NIC Link is Down
[12.0] ixgbe 0000:04:00.0 eth4: NIC Link is Up 10 Gbps, Flow Control: RX/TX
";
    check(log, "e1000e-hardware-unit-hang", 4);
}

#[test]
fn timeout_of_r8169_is_one_event() {
    let log = "\
[50.0] WARNING: CPU: 2 PID: 0 at net/sched/sch_generic.c:525 dev_watchdog+0x213/0x220
[50.0] NETDEV WATCHDOG: enp3s0 (r8169): transmit queue 0 timed out
[50.1] r8169 0000:03:00.0 enp3s0: rtl_txcfg_empty_cond == 0 (loop: 42, delay: 100).
[50.2] r8169 0000:03:00.0 enp3s0: Link is Down
[53.0] r8169 0000:03:00.0 enp3s0: Link is Up - 1Gbps/Full - flow control rx/tx
";
    let events = events(log);
    // The warning before has no interface; what it belongs to comes only after it.
    let names: Vec<_> = events.iter().map(|(name, _)| name.as_str()).collect();
    assert!(names.contains(&"netdev-watchdog"), "{events:?}");
    let watchdog = events.iter().find(|(name, _)| name == "netdev-watchdog").unwrap();
    assert!(watchdog.1.len() >= 2, "{events:?}");
    assert!(!names.iter().any(|name| name.contains("link")), "{events:?}");
}

#[test]
fn timeout_of_tg3_is_one_event() {
    let log = "\
[70.0] tg3 0000:02:00.0 eth0: transmit timed out, resetting
[70.1] tg3 0000:02:00.0 eth0: 0x00000000: 0x165f14e4, 0x00100506, 0x02000000, 0x00800010
[70.2] tg3 0000:02:00.0 eth0: Link is down
[73.0] tg3 0000:02:00.0 eth0: Link is up at 1000 Mbps, full duplex
[73.0] tg3 0000:02:00.0 eth0: Flow control is on for TX and on for RX
";
    let events = events(log);
    assert_eq!(events.len(), 1, "{events:?}");
    assert!(events[0].1.len() >= 2, "{events:?}");
}

#[test]
fn timeout_of_bnx2x_is_one_event() {
    let log = "\
[70.0] NETDEV WATCHDOG: eth2 (bnx2x): transmit queue 2 timed out
[70.2] bnx2x 0000:01:00.0 eth2: NIC Link is Down
[73.0] bnx2x 0000:01:00.0 eth2: NIC Link is Up, 10000 Mbps full duplex, Flow control: ON - receive & transmit
";
    check(log, "netdev-watchdog", 2);
}

#[test]
fn other_devices_and_later_messages_are_no_part_of_an_event() {
    let log = "\
[100.0] e1000e 0000:00:1f.6 eno1: Detected Hardware Unit Hang:
[101.0] igb 0000:02:00.1 eth1: igb: eth1 NIC Link is Down
[500.0] e1000e 0000:00:1f.6 eno1: NIC Link is Down
";
    let events = events(log);
    assert_eq!(events.len(), 2, "{events:?}");
    assert!(
        events.iter().all(|(_, followers)| followers.is_empty()),
        "{events:?}"
    );
    // Two hang at the same time.
    let log = "\
[100.0] e1000e 0000:00:1f.6 eno1: Detected Hardware Unit Hang:
[100.1] e1000e 0000:05:00.0 eno2: Detected Hardware Unit Hang:
[101.0] e1000e 0000:00:1f.6 eno1: Reset adapter unexpectedly
[101.1] e1000e 0000:05:00.0 eno2: Reset adapter unexpectedly
";
    let events = self::events(log);
    assert_eq!(events.len(), 1, "{events:?}");
    assert_eq!(events[0].1, ["intel-reset-adapter"]);
}

#[test]
fn hang_of_mtk_soc_eth_has_its_registers() {
    let log = "\
[10.0] mtk_soc_eth 1e100000.ethernet eth0: transmit timed out
[10.1] mtk_soc_eth 1e100000.ethernet eth0: dma_cfg:00000057
[10.1] mtk_soc_eth 1e100000.ethernet eth0: tx_ring=0, base=0b8a0000, max=0, ctx=0, dtx=0, fdx=0, next=0
[10.1] mtk_soc_eth 1e100000.ethernet eth0: rx_ring=0, base=0b8c0000, max=0, calc=0, drx=1
";
    check(log, "mtk-eth-transmit-timed-out", 1);
}
