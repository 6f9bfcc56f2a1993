//! A day of a host with 2,000 connections, a third of them active in each sample, 31 new ones a sample: how large its store is, and how
//! long answers take. `cargo run -p sockeye-store --example day [CONNECTIONS [SAMPLES [FOLDER]]]`; with a folder the store stays there.

use sockeye_history::{Identity, Recorded, SampleClocks, Values};
use sockeye_model::{
    Comm, Cookie, Endpoint, Entry, Family, Fd, Inode, NetnsInode, Owner, Pid, Port, Process, Protocol,
    Queues, Socket, State, TcpInfo, Uid,
};
use sockeye_store::{By, Limits, Lost, Nearest, Run, StoreReader, StoreWriter};
use std::time::Instant;

/// Numbers that look random, the same in each run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

fn connect(numbers: &mut Numbers, cookie: u64) -> (Socket, Owner) {
    let service = numbers.below(40);
    let mut socket = Socket::new(Protocol::Tcp, State::Established);
    socket.family = Family::Inet;
    socket.cookie = Some(Cookie(cookie));
    socket.netns = Some(NetnsInode(4_026_531_840));
    socket.inode = Some(Inode(cookie as u32 * 3 + 1_000));
    socket.uid = Some(Uid(33));
    socket.local = Endpoint::inet([10, 0, 0, 1].into(), Port(32_768 + numbers.below(28_000) as u16));
    let peer = [10, 0, (numbers.below(900) >> 8) as u8, numbers.below(250) as u8];
    socket.peer = Endpoint::inet(peer.into(), Port(3_000 + service as u16));
    socket.queues = Queues::Data {
        receive_bytes: 0,
        send_bytes: 0,
    };
    socket.tcp_info = Some(TcpInfo {
        bytes_acked: Some(1),
        bytes_received: Some(0),
        total_retrans_segs: Some(0),
        rtt_us: Some(200 + numbers.below(20_000) as u32),
        min_rtt_us: Some(180),
        snd_cwnd_segs: Some(10),
        delivery_rate_bytes_per_s: Some(1_000_000),
        unacked_segs: Some(0),
        lost_segs: Some(0),
        retransmits: Some(0),
        probes: Some(0),
        backoff: Some(0),
        last_data_sent_ms: Some(0),
        last_data_recv_ms: Some(0),
        ..TcpInfo::default()
    });
    let process = Process {
        pid: Pid(1_000 + service as u32),
        pgid: None,
        comm: Comm::new(format!("service-{service}").as_bytes()),
    };
    (
        socket,
        Owner {
            process,
            fd: Fd(cookie as u32 % 1_000),
        },
    )
}

fn transfer(numbers: &mut Numbers, info: &mut TcpInfo) {
    let add = |value: &mut Option<u64>, more| *value = value.map(|value| value + more);
    add(&mut info.bytes_acked, 100 + numbers.below(200_000));
    add(&mut info.bytes_received, 100 + numbers.below(50_000));
    info.rtt_us = info
        .rtt_us
        .map(|rtt| rtt * 7 / 8 + 100 + numbers.below(2_000) as u32);
    info.delivery_rate_bytes_per_s = Some(100_000 + numbers.below(100_000_000));
    if numbers.below(20) == 0 {
        info.total_retrans_segs = info.total_retrans_segs.map(|segs| segs + 1);
        info.snd_cwnd_segs = Some(10 + numbers.below(30) as u32);
    }
    (info.last_data_sent_ms, info.last_data_recv_ms) = (
        Some(numbers.below(9_000) as u32),
        Some(numbers.below(9_000) as u32),
    );
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let mut number = || arguments.next().map(|text| text.parse::<u64>()).transpose();
    let (connections, samples) = (number()?.unwrap_or(2_000), number()?.unwrap_or(8_640));
    let kept = arguments.next().map(std::path::PathBuf::from);
    let own = std::env::temp_dir().join(format!("sockeye-day-{}", std::process::id()));
    let folder = kept.clone().unwrap_or(own);
    std::fs::create_dir_all(&folder)?;
    let path = folder.join("record.db");
    let limits = Limits {
        max_bytes: 1 << 30,
        max_age: None,
    };
    let run = Run {
        host: Some("web1".to_owned()),
        version: "0",
        interval_ms: 10_000,
    };
    let mut writer = StoreWriter::open(&path, limits, run)?;
    let mut numbers = Numbers(0x9e37_79b9_7f4a_7c15);
    let mut next_cookie = connections;
    let mut sockets: Vec<_> = (0..connections)
        .map(|cookie| connect(&mut numbers, cookie))
        .collect();
    let begin_ms = 1_795_000_200_000;
    let begun = Instant::now();
    for number in 0..samples {
        for _ in 0..31 * connections / 2_000 {
            let place = numbers.below(connections) as usize;
            sockets[place] = connect(&mut numbers, next_cookie);
            next_cookie += 1;
        }
        for (socket, _) in &mut sockets {
            let Some(info) = &mut socket.tcp_info else {
                continue;
            };
            if numbers.below(100) < 34 {
                transfer(&mut numbers, info);
            } else {
                let age = |value: &mut Option<u32>| *value = value.map(|ms| ms.saturating_add(10_000));
                age(&mut info.last_data_sent_ms);
                age(&mut info.last_data_recv_ms);
            }
        }
        let at_ms = begin_ms + number * 10_000;
        let recorded = sockets.iter().map(|(socket, owner)| Recorded {
            identity: Identity::of(
                &Entry::with_owners(socket, Some(std::slice::from_ref(owner))),
                &mut |_| None,
            ),
            values: Values::of(socket, at_ms),
        });
        let clocks = SampleClocks {
            at_ms,
            monotonic_ms: number * 10_000,
            boottime_ms: number * 10_000,
            boot_id: None,
        };
        writer.add(clocks, recorded, Lost::default())?;
    }
    let took = begun.elapsed();
    drop(writer);
    let files = std::fs::read_dir(&folder)?;
    let bytes: u64 = files
        .map(|file| Ok(file?.metadata()?.len()))
        .sum::<std::io::Result<u64>>()?;
    println!(
        "{connections} connections, {samples} samples: {:.1} MB",
        bytes as f64 / 1e6
    );
    println!(
        "a sample: {:.2} ms, with making it up",
        took.as_secs_f64() * 1e3 / samples as f64
    );
    let status = std::fs::read_to_string("/proc/self/status")?;
    let peak = status.lines().find(|line| line.starts_with("VmHWM"));
    println!("memory: {}", peak.unwrap_or_default());
    let reader = StoreReader::open(&path)?;
    let blocks = reader.kept()?.groups.iter().map(|group| group.bytes).sum::<u64>();
    println!("of it groups of samples: {:.1} MB", blocks as f64 / 1e6);
    for part in [3, 2] {
        let begun = Instant::now();
        let Nearest::Sample(moment) = reader.at(begin_ms + samples * 10_000 / part)? else {
            return Err("no sample".into());
        };
        println!(
            "a moment: {:.1} ms, {} sockets",
            begun.elapsed().as_secs_f64() * 1e3,
            moment.sockets.sockets().count()
        );
    }
    for by in [By::Owner, By::Peer] {
        let begun = Instant::now();
        let all = reader
            .top((begin_ms, begin_ms + samples * 10_000), by, 20)?
            .number;
        println!(
            "top by {}: {:.1} ms, {all} rows",
            by.name(),
            begun.elapsed().as_secs_f64() * 1e3
        );
    }
    if kept.is_none() {
        std::fs::remove_dir_all(folder)?;
    }
    Ok(())
}
