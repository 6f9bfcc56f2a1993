use super::*;
use crate::tests::made;

use sockeye_model::{Bond, BondPort, InterfaceIndex, ShortText};

/// A physical device without faults.
fn device() -> Device {
    Device {
        is_physical: true,
        carrier_changes: Some(2),
        traffic: Some(Traffic {
            rx_packets: 1_000_000,
            tx_packets: 1_000_000,
            ..Traffic::default()
        }),
        speed_mbit_per_s: Some(1000),
        duplex: Some(Duplex::Full),
        qdiscs: vec![qdisc(b"pfifo_fast", 0, Qdisc::ROOT)],
        ..made::device(b"eth0", b"")
    }
}

fn qdisc(kind: &[u8], handle: u32, parent: u32) -> Qdisc {
    Qdisc {
        kind: ShortText::new(kind),
        handle,
        parent,
        bytes: 1_000_000_000,
        packets: 1_000_000,
        drops: 0,
        overlimits: 0,
        requeues: 0,
        waiting_packets: 0,
        waiting_bytes: 0,
    }
}

fn with(change: impl FnOnce(&mut Device)) -> Device {
    let mut device = device();
    change(&mut device);
    device
}

fn with_traffic(change: impl FnOnce(&mut Traffic)) -> Device {
    let mut traffic = device().traffic.unwrap_or_default();
    change(&mut traffic);
    with(|device| device.traffic = Some(traffic))
}

#[track_caller]
fn check(before: Option<&Device>, now: &Device, expected: &[&str]) -> Vec<Finding> {
    let vitals = |device: &Device| Vitals {
        devices: vec![device.clone()],
        ..Vitals::default()
    };
    let before = before.map(vitals);
    let found = findings(
        &vitals(now),
        before.as_ref(),
        &EgressDevices::default(),
        &OwnQueues::default(),
        &|_| false,
        Some(std::time::Duration::from_secs(100)),
        &Limits::default(),
    );
    let names: Vec<String> = found
        .iter()
        .map(|finding| format!("{} {}", finding.severity, finding.rule))
        .collect();
    assert_eq!(names, expected, "{found:#?}");
    found
}

#[test]
fn device_without_faults_gives_no_finding() {
    check(None, &device(), &[]);
    check(Some(&device()), &device(), &[]);
    check(None, &with(|device| device.traffic = None), &[]);
    // Carrier, queue and speed are unknown.
    let unknown = with(|device| {
        device.has_carrier = None;
        device.queue_packets = None;
        device.speed_mbit_per_s = None;
        device.duplex = None;
        device.qdiscs.clear();
    });
    check(None, &unknown, &[]);
}

#[test]
fn old_drops_are_a_notice_and_new_drops_a_warning() {
    let few = with_traffic(|traffic| (traffic.rx_dropped, traffic.rx_missed_errors) = (2000, 5));
    check(None, &few, &["notice device-drops"]);
    check(Some(&few), &few, &[]);
    check(Some(&device()), &few, &["warning device-drops"]);
    check(
        None,
        &with_traffic(|traffic| traffic.tx_dropped = 20_000),
        &["warning device-drops"],
    );
    // Nine of nine packets are below the least count.
    let nine = with_traffic(|traffic| (traffic.tx_packets, traffic.tx_dropped) = (0, 9));
    check(None, &nine, &[]);
    // The kernel also counts frames of protocols that it does not handle.
    let unhandled = with_traffic(|traffic| (traffic.rx_packets, traffic.rx_dropped) = (0, 5000));
    check(None, &unhandled, &[]);
    check(Some(&device()), &unhandled, &[]);
}

#[test]
fn device_with_a_reused_index_starts_from_zero() {
    let old = with_traffic(|traffic| traffic.tx_dropped = 500_000);
    let new = with_traffic(|traffic| (traffic.tx_packets, traffic.tx_dropped) = (1000, 50));
    for new in [
        new.clone(),
        Device {
            name: ShortText::new(b"eth1"),
            ..new
        },
    ] {
        let found = check(Some(&old), &new, &["warning device-drops"]);
        assert_eq!(found[0].facts.value("tx_dropped"), Some(50));
    }
}

#[test]
fn device_errors_are_found() {
    let bad = with_traffic(|traffic| (traffic.rx_errors, traffic.rx_crc_errors) = (2000, 1990));
    let found = check(None, &bad, &["notice device-errors"]);
    assert_eq!(found[0].facts.value("rx_crc_errors"), Some(1990));
    check(Some(&device()), &bad, &["warning device-errors"]);
    check(Some(&bad), &bad, &[]);
}

#[test]
fn short_queue_is_found() {
    let short = with(|device| device.queue_packets = Some(3));
    // It has dropped nothing: no fault yet.
    let found = check(None, &short, &["notice queue-length"]);
    assert_eq!(found[0].meaning, SHORT_QUEUE);
    let dropping = Device {
        traffic: with_traffic(|traffic| traffic.tx_dropped = 70_000).traffic,
        ..short.clone()
    };
    // The short queue is the cause of the drops: one finding.
    check(None, &dropping, &["warning queue-length"]);
    check(Some(&short), &dropping, &["critical queue-length"]);
    check(Some(&dropping), &dropping, &["notice queue-length"]);
    // A qdisc with its own limit uses that.
    let fair = |device: &mut Device| device.qdiscs = vec![qdisc(b"fq_codel", 0, Qdisc::ROOT)];
    let mut other = short.clone();
    fair(&mut other);
    check(None, &other, &[]);
    other.driver = ShortText::new(b"tap");
    check(None, &other, &["notice queue-length"]);
    other.is_up = false;
    check(None, &other, &[]);
}

#[test]
fn tunnel_that_no_program_reads_is_found() {
    let tunnel = |sent, dropped| {
        with(|device| {
            device.driver = ShortText::new(b"tun");
            device.traffic = Some(Traffic {
                tx_packets: sent,
                tx_dropped: dropped,
                ..Traffic::default()
            });
        })
    };
    let found = check(None, &tunnel(0, 10), &["critical device-drops"]);
    assert_eq!(found[0].meaning, NOT_READ);
    // It is read, though too slowly, or was not used yet.
    check(None, &tunnel(1, 10), &["warning device-drops"]);
    check(None, &tunnel(0, 9), &[]);
    // In between nothing was read, whatever was read before.
    let found = check(
        Some(&tunnel(500, 40)),
        &tunnel(500, 60),
        &["critical device-drops"],
    );
    assert_eq!(found[0].facts.value("tx_dropped"), Some(20));
    check(Some(&tunnel(500, 40)), &tunnel(500, 40), &[]);
}

#[test]
fn qdisc_drops_and_backlog_are_found() {
    let shaped = |inner: &[u8], drops: u64, waiting: u32| {
        with(|device| {
            let root = Qdisc {
                drops,
                waiting_packets: waiting,
                ..qdisc(b"tbf", 0x7_0000, Qdisc::ROOT)
            };
            // The root counts the drops of its child, too.
            device.qdiscs = vec![
                root,
                Qdisc {
                    kind: ShortText::new(inner),
                    handle: 0x8_0000,
                    parent: 0x7_0001,
                    ..root
                },
            ];
        })
    };
    let of = |drops, waiting| shaped(b"bfifo", drops, waiting);
    let found = check(None, &of(5000, 0), &["notice qdisc-drops"]);
    let kind = |finding: &Finding| match finding.subject {
        Subject::Qdisc { kind, .. } => kind,
        _ => panic!("{finding:#?}"),
    };
    assert_eq!(kind(&found[0]).as_bytes(), b"bfifo");
    check(Some(&of(0, 0)), &of(5000, 0), &["warning qdisc-drops"]);
    check(Some(&of(5000, 0)), &of(5000, 0), &[]);
    check(None, &of(0, 499), &[]);
    check(None, &of(0, 500), &["notice qdisc-backlog"]);
    // fq_codel drops a few packets to keep its queue short.
    check(None, &shaped(b"fq_codel", 5000, 0), &[]);
    check(None, &shaped(b"fq_codel", 20_000, 0), &["warning qdisc-drops"]);
    // A multiqueue device; its qdiscs have no handle.
    let queues = with(|device| {
        let root = Qdisc {
            drops: 20_000,
            ..qdisc(b"mq", 0, Qdisc::ROOT)
        };
        let queue = |number| Qdisc {
            drops: 5000,
            packets: 250_000,
            ..qdisc(b"pfifo_fast", 0, number)
        };
        device.qdiscs = vec![root, queue(1), queue(2), queue(3), queue(4)];
    });
    let found = check(None, &queues, &["warning qdisc-drops"]);
    assert_eq!(found[0].facts.value("drops"), Some(20_000));
    // A policer is there to drop.
    let policed = with(|device| {
        device.qdiscs = vec![Qdisc {
            drops: 500_000,
            ..qdisc(b"ingress", 0xffff_0000, 0xffff_fff1)
        }];
    });
    check(None, &policed, &[]);
}

#[test]
fn missing_carrier_and_half_duplex_are_found() {
    let down = with(|device| device.has_carrier = Some(false));
    check(None, &down, &["warning no-carrier"]);
    let unused = with(|device| {
        device.has_carrier = Some(false);
        device.addresses = vec![[169, 254, 0, 1].into()];
    });
    check(None, &unused, &["notice no-carrier"]);
    check(
        None,
        &Device {
            is_up: false,
            ..down.clone()
        },
        &[],
    );
    let bridge = Device {
        driver: ShortText::new(b"bridge"),
        ..down
    };
    check(None, &bridge, &[]);
    check(
        None,
        &with(|device| device.duplex = Some(Duplex::Half)),
        &["warning half-duplex"],
    );
}

#[test]
fn unmonitored_bond_and_failed_port_are_found() {
    let bond = |miimon, arp| {
        with(|device| {
            device.driver = ShortText::new(b"bond");
            device.bond = Some(Bond {
                miimon_ms: miimon,
                arp_interval_ms: arp,
                mode: Some(1),
            });
        })
    };
    check(None, &bond(Some(0), Some(0)), &["warning bond-unmonitored"]);
    check(None, &bond(Some(100), Some(0)), &[]);
    check(None, &bond(Some(0), Some(1000)), &[]);
    check(None, &bond(None, None), &[]);
    let port = |is_up, speed| {
        with(|device| {
            device.master = Some(InterfaceIndex(9));
            device.bond_port = Some(BondPort {
                is_up,
                failures: Some(3),
            });
            device.has_carrier = is_up;
            device.speed_mbit_per_s = speed;
        })
    };
    check(None, &port(Some(true), Some(1000)), &[]);
    // A bond reports that its port is down; the missing carrier is the cause, not a second finding.
    let found = check(None, &port(Some(false), Some(1000)), &["critical bond-port-down"]);
    assert_eq!(found[0].facts.value("failures"), Some(3));
    check(None, &port(Some(true), None), &["notice speed-unknown"]);
    check(None, &with(|device| device.speed_mbit_per_s = None), &[]);
}
