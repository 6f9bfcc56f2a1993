//! A program that passes packets between two TUN devices, with a delay and losses.

use super::address;
use super::far::enter_far;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, read, write};
use sockeye_act::Interfaces;
use sockeye_sys::tun;
use std::collections::VecDeque;
use std::convert::Infallible;
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// A link over TUN devices with the same name, one in this namespace and one in the other.
#[derive(Debug)]
pub(super) struct Tunnel {
    pub(super) device: &'static str,
    /// Addresses of this end and of the other.
    pub(super) addresses: [Ipv4Addr; 2],
    /// Queue length of this end's device, in packets; `None`: the kernel's.
    pub(super) queue_packets: Option<u32>,
    /// Time between two packets that it reads from this end; meanwhile they wait in the device's queue.
    pub(super) packet_time: Duration,
    /// Delay in each direction.
    pub(super) delay: Duration,
    pub(super) loss: Option<Loss>,
}

impl Tunnel {
    /// Makes the devices, calls `ready`, and passes packets until the process ends.
    pub(super) fn run(mut self, ready: &mut dyn FnMut() -> io::Result<()>) -> io::Result<Infallible> {
        let here = self.end(0, self.queue_packets)?;
        enter_far()?;
        let there = self.end(1, None)?;
        ready()?;
        let ends = [here, there];
        let packet_times = [self.packet_time, Duration::ZERO];
        let mut read_at = [Instant::now(); 2];
        let mut on_their_way: [VecDeque<(Instant, Vec<u8>)>; 2] = Default::default();
        let mut buffer = vec![0; PACKET_BYTES_MAX];
        loop {
            let now = Instant::now();
            let arrivals = on_their_way.iter().filter_map(|queue| Some(queue.front()?.0));
            let next = arrivals.chain(read_at.into_iter().filter(|at| *at > now)).min();
            let timeout = next.and_then(|at| Timespec::try_from(at.saturating_duration_since(now)).ok());
            let polled = ends.iter().zip(read_at).filter(|(_, at)| *at <= now);
            let mut polled: Vec<_> = polled.map(|(end, _)| PollFd::new(end, PollFlags::IN)).collect();
            match poll(&mut polled, timeout.as_ref()) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
            for side in 0..ends.len() {
                while read_at[side] <= Instant::now() {
                    match read(&ends[side], &mut buffer) {
                        Ok(len) => {
                            read_at[side] = Instant::now() + packet_times[side];
                            self.accept(&buffer[..len], &mut on_their_way[side]);
                        }
                        Err(Errno::INTR) => {}
                        Err(Errno::AGAIN) => break,
                        Err(errno) => return Err(errno.into()),
                    }
                }
                let now = Instant::now();
                while let Some((_, packet)) = on_their_way[side].pop_front_if(|(due, _)| *due <= now) {
                    // A device whose queue is full drops it.
                    let _ = write(&ends[1 - side], &packet);
                }
            }
        }
    }

    /// Makes the device of one end in the namespace of this thread.
    fn end(&self, side: usize, queue_packets: Option<u32>) -> io::Result<OwnedFd> {
        let end = tun::make(self.device)?;
        // IPv6 would send packets of its own, which only distract. Not every kernel has it.
        let _ = std::fs::write(
            format!("/proc/sys/net/ipv6/conf/{}/disable_ipv6", self.device),
            "1",
        );
        let set_up = || {
            if let Some(packets) = queue_packets {
                let mut interfaces = Interfaces::open()?;
                let index = interfaces.index(self.device)?;
                interfaces.set_queue_length(index, packets)?;
            }
            address(self.device, self.addresses[side])
        };
        set_up().map_err(io::Error::other)?;
        Ok(end)
    }

    /// Puts a packet on its way, unless the link loses it.
    fn accept(&mut self, packet: &[u8], way: &mut VecDeque<(Instant, Vec<u8>)>) {
        let is_lost = self.loss.as_mut().is_some_and(|loss| loss.is_lost(packet));
        if !is_lost && way.len() < PACKETS_MAX {
            way.push_back((Instant::now() + self.delay, packet.to_vec()));
        }
    }
}

/// Random losses of packets that carry data, the same in each run.
#[derive(Debug)]
pub(super) struct Loss {
    one_in: u64,
    state: u64,
}

impl Loss {
    /// Loses one packet in so many.
    pub(super) const fn new(one_in: u64) -> Self {
        Self {
            one_in,
            state: 0x9e37_79b9_7f4a_7c15,
        }
    }

    /// Whether the link loses this packet. It loses no handshakes and no acknowledgements, which would only delay its start.
    fn is_lost(&mut self, packet: &[u8]) -> bool {
        if packet.len() < DATA_BYTES_MIN {
            return false;
        }
        // xorshift64
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        self.state.is_multiple_of(self.one_in)
    }
}

const PACKET_BYTES_MAX: usize = 65_536;
/// Packets on their way in one direction; further ones are dropped, as a router does.
const PACKETS_MAX: usize = 1000;
const DATA_BYTES_MIN: usize = 200;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_data_packet_in_twenty_is_lost_and_no_acknowledgement() {
        let mut loss = Loss::new(20);
        let lost = (0..20_000).filter(|_| loss.is_lost(&[0; 1500])).count();
        assert!((800..1200).contains(&lost), "{lost}");
        assert!((0..1000).all(|_| !loss.is_lost(&[0; 52])));
    }
}
