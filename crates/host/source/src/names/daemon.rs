//! The list of containers from the socket of Docker or Podman, for the names that no file has. A daemon that does not
//! answer costs at most [`TIME_MAX`].

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SendFlags, SocketAddrUnix, SocketFlags, SocketType, connect, send, socket_with,
};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

/// Longest time for one daemon.
const TIME_MAX: Duration = Duration::from_millis(500);
/// A list of a few thousand containers has some MiB.
const LEN_MAX: usize = 16 * 1024 * 1024;

/// Returns the body of the answer of Docker's API, which Podman has too: a JSON list of running containers. `None` if
/// there is no such daemon, we may not ask it, or it does not answer in time.
pub(super) fn containers(path: &Path) -> Option<Vec<u8>> {
    let deadline = Instant::now() + TIME_MAX;
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let daemon = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None).ok()?;
    // With a full queue of connections this fails at once.
    connect(&daemon, &SocketAddrUnix::new(path).ok()?).ok()?;
    // Version 1.0: the answer ends with the connection, and is not sent in chunks.
    let request = b"GET /containers/json HTTP/1.0\r\nHost: localhost\r\n\r\n";
    let sent = send(&daemon, request, SendFlags::NOSIGNAL).ok()?;
    if sent < request.len() {
        return None;
    }
    body(&read(&daemon, deadline)?).map(<[u8]>::to_vec)
}

fn read(daemon: &OwnedFd, deadline: Instant) -> Option<Vec<u8>> {
    let mut answer = Vec::new();
    let mut buffer = vec![0; 64 * 1024];
    loop {
        match rustix::io::read(daemon, &mut buffer) {
            Ok(0) => return Some(answer),
            Ok(len) => answer.extend_from_slice(&buffer[..len]),
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => {
                let left = Timespec::try_from(deadline.checked_duration_since(Instant::now())?).ok()?;
                let mut events = [PollFd::from_borrowed_fd(daemon.as_fd(), PollFlags::IN)];
                match poll(&mut events, Some(&left)) {
                    Ok(0) => return None,
                    Ok(_) | Err(Errno::INTR) => {}
                    Err(_) => return None,
                }
            }
            Err(_) => return None,
        }
        if answer.len() > LEN_MAX || Instant::now() >= deadline {
            return None;
        }
    }
}

/// Returns what follows the header of a successful answer.
fn body(answer: &[u8]) -> Option<&[u8]> {
    let end = answer.windows(4).position(|part| part == b"\r\n\r\n")?;
    let status = answer.split(|&byte| byte == b' ').nth(1)?;
    (answer.starts_with(b"HTTP/") && status == b"200").then(|| &answer[end + 4..])
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;

    #[test]
    fn only_a_successful_answer_has_a_body() {
        assert_eq!(body(b"HTTP/1.0 200 OK\r\nA: b\r\n\r\n[]"), Some(&b"[]"[..]));
        for other in [
            &b""[..],
            b"HTTP/1.0 200 OK\r\n",
            b"HTTP/1.0 500 no\r\n\r\n[]",
            b"200 200\r\n\r\n",
            b"\r\n\r\n",
        ] {
            assert_eq!(body(other), None);
        }
    }

    #[test]
    fn daemon_that_hangs_is_left_after_a_moment() {
        let path = std::env::temp_dir().join(format!("sockeye-hangs-{}", std::process::id()));
        let listener = UnixListener::bind(&path).unwrap();
        let begun = Instant::now();
        // It is connected, and never served.
        let answer = containers(&path);
        let elapsed = begun.elapsed();
        drop(listener);
        let none = containers(&path);
        std::fs::remove_file(&path).unwrap();
        assert_eq!((answer, none), (None, None));
        assert!(elapsed >= TIME_MAX && elapsed < 20 * TIME_MAX, "{elapsed:?}");
    }
}
