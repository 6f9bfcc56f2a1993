//! The other end of every benchmark that needs one.

use crate::latency;
use crate::session::{Host, Kind, Server, Stop, Test, Trouble};
use crate::{StreamServer, stream};
use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};

/// Where it listens, and for how long.
#[derive(Debug, Clone, Default)]
pub struct ServePlan {
    /// The address; none: every one
    pub address: Option<IpAddr>,
    /// IPv6 alone, IPv4 alone, or both
    pub is_v6: Option<bool>,
    /// Of TCP and UDP
    pub port: u16,
    /// One test, and no more
    pub is_once: bool,
    /// Nothing but iperf3's protocol
    pub only_iperf3: bool,
}

/// Serves until `stop` is set; clients of iperf3 go to `iperf3`. `say` is told a line for whatever happens, the address first.
///
/// # Errors
/// When it cannot listen there.
pub fn serve(
    plan: &ServePlan,
    iperf3: &dyn StreamServer,
    stop: &Stop,
    say: &(dyn Fn(&str) + Sync),
) -> Result<(), Trouble> {
    let server = Server::bind(plan.address, plan.is_v6, plan.port)?;
    say(&format!("listening on {}", server.address()));
    if let Some(trouble) = server.without_udp() {
        say(&format!("without UDP: {trouble}"));
    }
    let reception = Reception {
        plan,
        say,
        is_done: AtomicBool::new(false),
        iperf3,
    };
    server.run(&reception, stop)
}

/// Knows who is to do what.
struct Reception<'a> {
    plan: &'a ServePlan,
    say: &'a (dyn Fn(&str) + Sync),
    is_done: AtomicBool,
    iperf3: &'a dyn StreamServer,
}

impl Host for Reception<'_> {
    fn test(&self, test: Test<'_>) {
        match test.kind {
            Kind::Stream => stream::answer(test, self.say),
            Kind::Rr | Kind::Crr => latency::answer(test, self.say),
        }
        self.is_done.store(true, Ordering::Relaxed);
    }

    fn iperf3(&self, number: u64, connection: TcpStream, stop: &Stop) {
        if self.iperf3.receive(number, connection, stop, self.say) {
            self.is_done.store(true, Ordering::Relaxed);
        }
    }

    fn datagram(&self, _bytes: &[u8], _from: SocketAddr, _door: &UdpSocket) {}

    fn is_enough(&self) -> bool {
        self.plan.is_once && self.is_done.load(Ordering::Relaxed)
    }

    fn only_iperf3(&self) -> bool {
        self.plan.only_iperf3
    }

    fn say(&self, line: &str) {
        (self.say)(line);
    }
}
