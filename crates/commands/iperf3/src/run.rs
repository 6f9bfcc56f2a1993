//! The interface to `bench stream --iperf3` and `bench serve`.

use crate::protocol::COOKIE_LEN;
use crate::{Error, Outcome, PORT, Parameters, Server, StreamOptions, document, failed_document};
use sockeye_load::session::{Connector, Stop};
use sockeye_load::stream::{self, Progress, Until};
use sockeye_load::{ProtocolOptions, StreamDocument, StreamError, StreamProtocol, StreamServer};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::time::Duration;

/// iperf3's protocol, for `bench`.
#[derive(Debug, Clone, Copy)]
pub struct Iperf3;

impl StreamProtocol for Iperf3 {
    fn port(&self) -> u16 {
        PORT
    }

    fn check(&self, plan: &stream::Plan) -> Result<(), String> {
        let is_whole = |span: Duration| span.subsec_nanos() == 0;
        let time = match plan.until {
            Until::Time(time) => time,
            Until::Bytes(_) => Duration::ZERO,
        };
        if is_whole(time) && is_whole(plan.omit) {
            return Ok(());
        }
        Err("its protocol counts --duration and --omit in whole seconds".to_owned())
    }

    fn run(
        &self,
        connector: &Connector,
        plan: &stream::Plan,
        options: ProtocolOptions,
        stop: &Stop,
        progress: &mut dyn FnMut(&Progress),
    ) -> Result<stream::Outcome, StreamError> {
        match run(connector, plan, options, stop, progress) {
            Ok(outcome) => Ok(outcome.transfer()),
            Err(error) => Err(StreamError {
                code: error.code(),
                error: error.into(),
            }),
        }
    }

    fn run_for_document(
        &self,
        connector: &Connector,
        plan: &stream::Plan,
        options: ProtocolOptions,
        stop: &Stop,
        progress: &mut dyn FnMut(&Progress),
    ) -> StreamDocument {
        let system = system();
        match run(connector, plan, options, stop, progress) {
            Ok(outcome) => StreamDocument {
                text: document(&outcome, &system),
                outcome: Ok(outcome.error.is_none()),
            },
            Err(error) => StreamDocument {
                text: failed_document(&error, &system),
                outcome: Err(error.into()),
            },
        }
    }

    fn server(&self, time_limit: Duration) -> Box<dyn StreamServer> {
        Box::new(Server::new(time_limit))
    }
}

impl StreamServer for Server {
    fn first_len(&self) -> usize {
        COOKIE_LEN
    }

    fn has_test(&self, first: &[u8]) -> bool {
        Self::has_test(self, first)
    }

    fn stream(&self, number: u64, first: &[u8], connection: TcpStream) {
        Self::stream(self, number, first, connection);
    }

    fn test(&self, first: &[u8], connection: TcpStream, stop: &Stop, say: &(dyn Fn(&str) + Sync)) -> bool {
        Self::test(self, first, connection, stop, say)
    }

    fn refuse(&self, connection: TcpStream) {
        Self::refuse(self, connection);
    }

    fn expects_datagram(&self, bytes: &[u8], from: SocketAddr) -> Option<SocketAddr> {
        Self::expects_datagram(self, bytes, from)
    }

    fn datagrams(&self, from: SocketAddr, socket: UdpSocket) {
        Self::datagrams(self, from, socket);
    }
}

fn run(
    connector: &Connector,
    plan: &stream::Plan,
    options: ProtocolOptions,
    stop: &Stop,
    progress: &mut dyn FnMut(&Progress),
) -> Result<Outcome, Error> {
    let mut parameters = Parameters::from_plan(plan);
    if let Some(blocks) = options.blocks {
        (parameters.blocks, parameters.time_s) = (blocks, 0);
    }
    parameters.mss = options.mss.unwrap_or(0);
    parameters.no_delay = options.no_delay;
    let options = StreamOptions {
        processor: plan.our_processor,
        skips_copy: plan.skips_copy,
        write_min: 0,
    };
    let plan = crate::Plan {
        parameters,
        interval: plan.interval,
        options,
    };
    let mut elapsed = Duration::ZERO;
    let mut retransmitted = None;
    crate::client::run(connector, &plan, stop, &mut |interval| {
        elapsed += Duration::from_secs_f64(interval.seconds);
        for tcp in interval.streams.iter().filter_map(|stream| stream.tcp) {
            retransmitted = Some(retransmitted.unwrap_or(0) + tcp.retransmits);
        }
        let rate = |sends: bool| {
            let has_any = interval.streams.iter().any(|stream| stream.sends == sends);
            has_any.then(|| interval.bytes(sends) as f64 / interval.seconds.max(1e-9))
        };
        progress(&Progress {
            elapsed,
            sent_bytes_per_s: rate(true),
            received_bytes_per_s: rate(false),
            retransmitted_segs: retransmitted,
            rtt_us: None,
        });
    })
}

/// Returns the `uname` line of this host, as iperf3 prints it.
fn system() -> String {
    let uname = rustix::system::uname();
    [
        uname.sysname(),
        uname.nodename(),
        uname.release(),
        uname.version(),
        uname.machine(),
    ]
    .map(|word| word.to_string_lossy().into_owned())
    .join(" ")
}
