//! Sends small UDP packets over loopback at the highest rate of one core, for some seconds: the load for
//! `capture`.
//!
//! `bench-blast SECONDS [BYTES]` prints the number of packets sent.

use anyhow::Context;
use nix::sys::socket::{MsgFlags, MultiHeaders, SockaddrIn, sendmmsg};
use std::io::IoSlice;
use std::net::UdpSocket;
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

fn main() -> anyhow::Result<()> {
    let mut words = std::env::args().skip(1);
    let seconds: f64 = words.next().context("how many seconds?")?.parse()?;
    let bytes: usize = words.next().map_or(Ok(18), |word| word.parse())?;
    anyhow::ensure!((0.01..=60.0).contains(&seconds), "0.01 to 60 seconds");
    // The port must be open, or each packet is answered by an ICMP error. Its queue is soon full.
    let receiver = UdpSocket::bind("127.0.0.1:0")?;
    let sender = UdpSocket::bind("127.0.0.1:0")?;
    sender.connect(receiver.local_addr()?)?;
    let payload = vec![b'x'; bytes];
    let slices = [[IoSlice::new(&payload)]; BATCH];
    let nowhere = [None::<SockaddrIn>; BATCH];
    let mut headers = MultiHeaders::preallocate(BATCH, None);
    let deadline = Instant::now() + Duration::from_secs_f64(seconds);
    let mut sent = 0_u64;
    while Instant::now() < deadline {
        let done = sendmmsg(
            sender.as_raw_fd(),
            &mut headers,
            &slices,
            nowhere,
            [],
            MsgFlags::empty(),
        )
        .context("sendmmsg")?;
        sent += done.count() as u64;
    }
    println!("{sent}");
    Ok(())
}

const BATCH: usize = 64;
