//! Socket options that tests set before bind (backlog, mark, device, buffers ...), and a check for the
//! congestion controls of the kernel. A `NetPath` has one set for clients and one for servers.

use crate::Skip;
use crate::or_panic::OrPanic;
use socket2::{Socket, TcpKeepalive};
use std::time::Duration;

/// Socket options to be set before bind; none by default.
///
/// ```
/// use sockeye_lab::SocketOptions;
/// let options = SocketOptions::new().mark(7).device("lo").backlog(2);
/// # let _ = options;
/// ```
#[derive(Debug, Clone, Default)]
pub struct SocketOptions {
    pub(crate) backlog: Option<i32>,
    pub(crate) v6_only: Option<bool>,
    pub(crate) device: Option<String>,
    pub(crate) mark: Option<u32>,
    pub(crate) congestion: Option<String>,
    pub(crate) keepalive: Option<Duration>,
    pub(crate) send_buffer_bytes: Option<usize>,
    pub(crate) recv_buffer_bytes: Option<usize>,
    pub(crate) reuse_port: bool,
}

impl SocketOptions {
    /// No options.
    pub fn new() -> Self {
        Self::default()
    }

    /// The listener's backlog; 128 by default.
    #[must_use]
    pub fn backlog(mut self, connections: i32) -> Self {
        self.backlog = Some(connections);
        self
    }

    /// IPV6_V6ONLY.
    #[must_use]
    pub fn v6_only(mut self, only: bool) -> Self {
        self.v6_only = Some(only);
        self
    }

    /// SO_BINDTODEVICE.
    #[must_use]
    pub fn device(mut self, name: &str) -> Self {
        self.device = Some(name.to_owned());
        self
    }

    /// SO_MARK.
    #[must_use]
    pub fn mark(mut self, mark: u32) -> Self {
        self.mark = Some(mark);
        self
    }

    /// TCP_CONGESTION; see [`congestion_control`] for whether this kernel has it.
    #[must_use]
    pub fn congestion(mut self, name: &str) -> Self {
        self.congestion = Some(name.to_owned());
        self
    }

    /// SO_KEEPALIVE with this idle time (TCP_KEEPIDLE), whole seconds.
    #[must_use]
    pub fn keepalive(mut self, idle: Duration) -> Self {
        self.keepalive = Some(idle);
        self
    }

    /// SO_SNDBUF; the kernel doubles it.
    #[must_use]
    pub fn send_buffer_bytes(mut self, bytes: usize) -> Self {
        self.send_buffer_bytes = Some(bytes);
        self
    }

    /// SO_RCVBUF; the kernel doubles it.
    #[must_use]
    pub fn recv_buffer_bytes(mut self, bytes: usize) -> Self {
        self.recv_buffer_bytes = Some(bytes);
        self
    }

    /// SO_REUSEPORT.
    #[must_use]
    pub fn reuse_port(mut self) -> Self {
        self.reuse_port = true;
        self
    }

    pub(crate) fn backlog_or_default(&self) -> i32 {
        self.backlog.unwrap_or(128)
    }

    #[track_caller]
    pub(crate) fn apply(&self, socket: &Socket) {
        if let Some(only) = self.v6_only {
            socket.set_only_v6(only).or_panic("set IPV6_V6ONLY");
        }
        if let Some(device) = &self.device {
            socket
                .bind_device(Some(device.as_bytes()))
                .or_panic(format_args!("bind to device {device}"));
        }
        if let Some(mark) = self.mark {
            socket.set_mark(mark).or_panic("set SO_MARK");
        }
        if let Some(name) = &self.congestion {
            socket
                .set_tcp_congestion(name.as_bytes())
                .or_panic(format_args!("set TCP_CONGESTION {name}"));
        }
        if let Some(idle) = self.keepalive {
            let keepalive = TcpKeepalive::new().with_time(idle);
            socket.set_tcp_keepalive(&keepalive).or_panic("set SO_KEEPALIVE");
        }
        if let Some(bytes) = self.send_buffer_bytes {
            socket.set_send_buffer_size(bytes).or_panic("set SO_SNDBUF");
        }
        if let Some(bytes) = self.recv_buffer_bytes {
            socket.set_recv_buffer_size(bytes).or_panic("set SO_RCVBUF");
        }
        if self.reuse_port {
            socket.set_reuse_port(true).or_panic("set SO_REUSEPORT");
        }
    }
}

/// Skips when this kernel lacks a congestion control (`cubic`, `bbr`, `reno`, ...).
pub fn congestion_control(name: &str) -> Result<(), Skip> {
    let path = "/proc/sys/net/ipv4/tcp_available_congestion_control";
    let available = std::fs::read_to_string(path).unwrap_or_default();
    if available.split_whitespace().any(|word| word == name) {
        return Ok(());
    }
    Err(Skip::new(format!(
        "congestion control {name} is not among this kernel's: {}",
        available.trim()
    )))
}
