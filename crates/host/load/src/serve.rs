//! The server for `stream`, `rr` and `crr`.

use crate::latency;
use crate::session::limits::{TIME_MAX, TIME_MAX_WITH_SECRET};
use crate::session::{Error, Handler, Kind, Secret, Server, ServerLimits, Stop, Test};
use crate::{StreamServer, stream};
use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Parameters of the server.
#[derive(Debug, Clone, Default)]
pub struct ServePlan {
    /// Address to listen on; `None`: all.
    pub address: Option<IpAddr>,
    /// `true`: IPv6 only; `false`: IPv4 only; `None`: both.
    pub is_v6: Option<bool>,
    /// TCP and UDP port; 0: any free one.
    pub port: u16,
    /// Whether to end after one test.
    pub is_once: bool,
    /// Whether to serve iperf3's protocol only.
    pub only_iperf3: bool,
    /// What clients have to know; `None`: nothing.
    pub secret: Option<Secret>,
    /// Longest test; `None`: an hour, with a secret a day.
    pub time_limit: Option<Duration>,
    /// Whether clients without a secret may let threads poll without sleeping.
    pub allows_busy_poll: bool,
}

impl ServePlan {
    /// Returns the longest test.
    #[must_use]
    pub fn time_limit(&self) -> Duration {
        self.time_limit.unwrap_or(if self.secret.is_some() {
            TIME_MAX_WITH_SECRET
        } else {
            TIME_MAX
        })
    }
}

/// Serves until `stop` is set. Passes clients of iperf3 to `iperf3`. `say` logs a line per event, the address first.
///
/// # Errors
/// If it cannot listen.
pub fn serve(
    plan: &ServePlan,
    iperf3: &dyn StreamServer,
    stop: &Stop,
    say: &(dyn Fn(&str) + Sync),
) -> Result<(), Error> {
    let limits = ServerLimits {
        time: plan.time_limit(),
        busy_poll: plan.allows_busy_poll || plan.secret.is_some(),
    };
    let server = Server::bind(plan.address, plan.is_v6, plan.port, plan.secret.clone(), limits)?;
    say(&format!("listening on {}", server.address()));
    if plan.secret.is_none() && !server.address().ip().to_canonical().is_loopback() {
        say(if plan.only_iperf3 {
            "every host that reaches this port can put load on this one (-B limits who does)"
        } else {
            "every host that reaches this port can put load on this one: there is no secret (--secret-file)"
        });
    }
    if let Some(error) = server.udp_error() {
        say(&format!("without UDP: {error}"));
    }
    let handler = TestHandler {
        plan,
        say,
        is_done: AtomicBool::new(false),
        iperf3,
    };
    server.run(&handler, stop)
}

/// Passes each test to its benchmark.
struct TestHandler<'a> {
    plan: &'a ServePlan,
    say: &'a (dyn Fn(&str) + Sync),
    is_done: AtomicBool,
    iperf3: &'a dyn StreamServer,
}

impl Handler for TestHandler<'_> {
    fn test(&self, test: Test<'_>) {
        match test.kind {
            Kind::Stream => stream::answer(test, self.say),
            Kind::Rr | Kind::Crr => latency::answer(test, self.say),
        }
        self.is_done.store(true, Ordering::Relaxed);
    }

    fn iperf3_first_len(&self) -> usize {
        self.iperf3.first_len()
    }

    fn has_iperf3_test(&self, first: &[u8]) -> bool {
        self.iperf3.has_test(first)
    }

    fn iperf3_stream(&self, number: u64, first: &[u8], connection: TcpStream) {
        self.iperf3.stream(number, first, connection);
    }

    fn iperf3_test(&self, first: &[u8], connection: TcpStream, stop: &Stop) {
        if self.iperf3.test(first, connection, stop, self.say) {
            self.is_done.store(true, Ordering::Relaxed);
        }
    }

    fn refuse_iperf3(&self, connection: TcpStream) {
        self.iperf3.refuse(connection);
    }

    fn expects_iperf3_datagram(&self, bytes: &[u8], from: SocketAddr) -> Option<SocketAddr> {
        self.iperf3.expects_datagram(bytes, from)
    }

    fn iperf3_datagrams(&self, from: SocketAddr, socket: UdpSocket) {
        self.iperf3.datagrams(from, socket);
    }

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
