use super::*;
use crate::transfer::{Datagrams, DeviceNumbers, DeviceWork, Sender, Side, Work};

/// Ten seconds, all of them busy, sampled a hundred times.
fn sender() -> Sender {
    Sender {
        elapsed_us: Some(10_000_000),
        busy_us: Some(10_000_000),
        rwnd_limited_us: Some(0),
        sndbuf_limited_us: Some(0),
        samples: Some(100),
        ..Sender::default()
    }
}

fn side(cpu_permille: u64) -> Option<Side> {
    Some(Side {
        bytes: Some(1_000_000),
        elapsed_us: Some(1_000_000),
        cpu_user_us: Some(0),
        cpu_system_us: Some(cpu_permille * 1000),
        cpu_wall_us: Some(1_000_000),
        ..Side::default()
    })
}

fn transfer(sender: Sender) -> Transfer {
    Transfer {
        streams: vec![StreamTransfer {
            is_sent: true,
            sent: side(100),
            received: side(100),
            sender: Some(sender),
            ..StreamTransfer::default()
        }],
        theirs: Some(End::default()),
        ..Transfer::default()
    }
}

fn codes(transfer: &Transfer, limits: RequestedLimits<'_>) -> Vec<&'static str> {
    let list = what_limited(transfer, true, limits);
    list.iter().map(|sentence| sentence.code).collect()
}

fn first(sender: Sender) -> Vec<&'static str> {
    codes(&transfer(sender), RequestedLimits::default())
}

#[test]
fn each_limit_has_a_sentence() {
    let all = Some(100);
    let third = Some(9_000_000);
    assert_eq!(
        first(Sender {
            rwnd_limited_us: third,
            ..sender()
        }),
        ["receiver-limited", "congestion-limited"]
    );
    assert_eq!(
        first(Sender {
            sndbuf_limited_us: third,
            ..sender()
        })[0],
        "send-buffer-limited"
    );
    assert_eq!(
        first(Sender {
            busy_us: Some(0),
            ..sender()
        }),
        ["application-limited"]
    );
    assert_eq!(
        first(Sender {
            samples_paced: all,
            ..sender()
        }),
        ["pacing-limited"]
    );
    assert_eq!(
        first(Sender {
            samples_recovery: all,
            ..sender()
        }),
        ["recovery-limited"]
    );
    assert_eq!(
        first(Sender {
            samples_loss: all,
            ..sender()
        }),
        ["timeout-limited"]
    );
    assert_eq!(
        first(Sender {
            samples_buffer_full: all,
            ..sender()
        }),
        ["send-buffer-limited"]
    );
    assert_eq!(
        first(Sender {
            samples_cwnd_full: all,
            ..sender()
        }),
        ["congestion-limited"]
    );
}

#[test]
fn busy_thread_is_the_limit() {
    let mut busy = transfer(Sender {
        samples_paced: Some(1),
        ..sender()
    });
    busy.streams[0].received = side(950);
    let command = TypedCommand::new("sockeye bench stream", "b").option("-t", Some(2));
    let limits = RequestedLimits {
        command: Some(&command),
        ..RequestedLimits::default()
    };
    let list = what_limited(&busy, true, limits);
    assert_eq!(list[0].code, "tester-limited");
    assert!(
        list[0].text.contains("receives at the other end"),
        "{}",
        list[0].text
    );
    assert!(
        list[0]
            .remedies
            .iter()
            .any(|it| it.starts_with("sockeye bench stream b -t 2 --skip-rx-copy "))
    );
    // With -R the other end sends.
    busy.streams[0].is_sent = false;
    busy.streams[0].sent = side(990);
    let list = what_limited(&busy, false, RequestedLimits::default());
    assert!(
        list[0].text.contains("sends at the other end"),
        "{}",
        list[0].text
    );
    busy.streams[0].sent = side(100);
    busy.streams[0].received = side(100);
    // Waiting for a processor counts as needing one.
    if let Some(side) = &mut busy.streams[0].received {
        side.cpu_waited_us = Some(850_000);
    }
    let list = what_limited(&busy, false, RequestedLimits::default());
    let text = &list[0].text;
    assert!(text.contains("receives here had a processor for 10 %"), "{text}");
    assert!(text.contains("waited for one for 85 %"), "{text}");
    // Other processor load alone is no reason.
    busy.streams[0].received = side(100);
    busy.ours.work.host_idle_permille = Some(0);
    let list = what_limited(&busy, false, RequestedLimits::default());
    let codes: Vec<_> = list.iter().map(|it| it.code).collect();
    assert_eq!(codes, ["pacing-limited", "host-busy"]);
}

#[test]
fn dropping_queue_is_named() {
    let mut lossy = transfer(Sender {
        samples_recovery: Some(1),
        retransmitted_segs: Some(30),
        data_segs: Some(1000),
        ..sender()
    });
    lossy.ours.devices.push(DeviceWork {
        name: "tun0".to_owned(),
        queue: Some("pfifo_fast".to_owned()),
        numbers: DeviceNumbers {
            queue_dropped: Some(30),
            tx_dropped: Some(30),
            queue_packets: Some(3),
            tx_bytes: Some(7),
            ..DeviceNumbers::default()
        },
    });
    let list = what_limited(&lossy, true, RequestedLimits::default());
    assert_eq!(list[0].code, "device-drops");
    assert_eq!(
        list[0].text,
        "tun0 here dropped packets meanwhile: 30 by its queue (pfifo_fast)."
    );
    assert!(list[0].remedies[1].starts_with("ip link set dev tun0 txqueuelen 1000 "));
    assert!(
        list[1].text.contains("30 of 1000 segments were sent again (3 %)"),
        "{}",
        list[1].text
    );
    assert!(list[1].remedies[0].starts_with("tc -s qdisc show dev tun0 "));
    // Both ends on one host report it once.
    let twin = lossy.ours.clone();
    lossy.theirs = Some(twin);
    assert_eq!(
        codes(&lossy, RequestedLimits::default()),
        ["device-drops", "recovery-limited"]
    );
    lossy.ours.devices[0].name = "x; rm -rf /".to_owned();
    let list = what_limited(&lossy, true, RequestedLimits::default());
    assert!(
        list.iter()
            .flat_map(|it| &it.remedies)
            .all(|it| !it.contains("rm -rf"))
    );
}

#[test]
fn requested_rate_is_no_fault() {
    let limits = RequestedLimits {
        rate: Some(1_000_000),
        ..RequestedLimits::default()
    };
    let paced = transfer(Sender {
        samples_paced: Some(1),
        ..sender()
    });
    assert_eq!(codes(&paced, limits), ["rate-reached"]);
    let faster = RequestedLimits {
        rate: Some(2_000_000),
        ..limits
    };
    assert_eq!(codes(&paced, faster), ["pacing-limited"]);
}

#[test]
fn lost_datagrams_are_located() {
    let limits = RequestedLimits {
        is_udp: true,
        ..RequestedLimits::default()
    };
    let mut lossy = transfer(Sender::default());
    lossy.streams[0].sender = None;
    lossy.streams[0].datagrams = Some(Datagrams {
        sent: Some(1000),
        received: Some(900),
        lost: Some(100),
        ..Datagrams::default()
    });
    assert_eq!(codes(&lossy, limits), ["datagrams-lost"]);
    lossy.theirs = Some(End {
        work: Work {
            udp_receive_drops: Some(100),
            rmem_max_bytes: Some(212_992),
            ..Work::default()
        },
        ..End::default()
    });
    let list = what_limited(&lossy, true, limits);
    assert_eq!(list[0].code, "receive-buffer-drops");
    assert!(list[0].remedies[0].contains("rmem_max=851968"));
    lossy.streams[0].datagrams = None;
    assert_eq!(codes(&lossy, limits), [""; 0]);
}
