//! The cheapest possible dump of the sockets of one protocol: ask, receive, count, throw away.
//!
//! Requests are laid out here by hand from `include/uapi/linux/netlink.h`, `sock_diag.h`, `inet_diag.h`, `unix_diag.h`,
//! `packet_diag.h` and `netlink_diag.h`, and answers are gone through by the lengths of their messages alone: nothing of the
//! ladder's is in it.

use rustix::io::Errno;
use sockeye_sys::netlink::NetlinkSocket;

/// Dumps all of them in these states (bits `1 << state`), and counts.
///
/// # Errors
/// In words: what failed, and the kernel's errno.
pub(super) fn dump(what: &str, states: u32) -> Result<u64, String> {
    let failed = |operation: &str, errno: Errno| format!("{operation}: {errno}");
    let socket = NetlinkSocket::open().map_err(|errno| failed("open a sock_diag socket", errno))?;
    // The kernel never fills more than this of a dump's datagram.
    let mut buffer = vec![0; 32 * 1024];
    let mut records = 0;
    let requests = requests(what, states);
    for (nth, request) in requests.iter().enumerate() {
        socket
            .send(request)
            .map_err(|errno| failed("send to sock_diag", errno))?;
        loop {
            let received = socket
                .receive(&mut buffer)
                .map_err(|errno| failed("receive from sock_diag", errno))?;
            match count(&buffer[..received.len], &mut records) {
                End::NotYet => {}
                End::Done => break,
                // A kernel without IPv6 has no second half.
                End::Refused(Errno::NOENT) if nth > 0 => break,
                End::Refused(errno) => return Err(failed("the kernel refused", errno)),
                End::Broken => return Err("the kernel's answer has a broken envelope".to_owned()),
            }
        }
    }
    if requests.is_empty() {
        return Err("there is no bare dump of these".to_owned());
    }
    Ok(records)
}

#[derive(Debug, PartialEq, Eq)]
enum End {
    NotYet,
    Done,
    Refused(Errno),
    Broken,
}

/// `struct nlmsghdr { u32 len; u16 type; u16 flags; u32 seq; u32 pid; }`, in host byte order, each padded to four bytes.
fn count(mut datagram: &[u8], records: &mut u64) -> End {
    // Nothing at all would come for ever.
    if datagram.is_empty() {
        return End::Broken;
    }
    while !datagram.is_empty() {
        let Some((header, body)) = datagram.split_first_chunk::<HEADER_LEN>() else {
            return End::Broken;
        };
        let length = u32::from_ne_bytes([header[0], header[1], header[2], header[3]]) as usize;
        if length < HEADER_LEN || length > datagram.len() {
            return End::Broken;
        }
        match u16::from_ne_bytes([header[4], header[5]]) {
            // Both say how it went, as a negative errno; an end says 0 or so where all went well.
            kind @ (NLMSG_DONE | NLMSG_ERROR) => {
                let code = body.first_chunk().map_or(0, |bytes| i32::from_ne_bytes(*bytes));
                if kind == NLMSG_DONE && code >= 0 {
                    return End::Done;
                }
                return End::Refused(Errno::from_raw_os_error(
                    code.saturating_neg().clamp(1, ERRNO_MAX),
                ));
            }
            NLMSG_NOOP => {}
            _ => *records += 1,
        }
        datagram = datagram.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    End::NotYet
}

/// Each a whole message.
fn requests(what: &str, states: u32) -> Vec<Vec<u8>> {
    match what {
        "tcp" => vec![message(TCPDIAG_GETSOCK, &one_pass(states))],
        "udp" => each_family(17, None, states),
        "udplite" => each_family(136, None, states),
        "raw" => each_family(255, None, states),
        // Beyond what fits into a byte: in an attribute.
        "mptcp" => each_family(0, Some(262), states),
        "unix" => {
            // struct unix_diag_req { u8 family, protocol; u16 pad; u32 states, ino, show, cookie[2]; }
            let mut body = [0; 24];
            body[0] = AF_UNIX;
            body[4..8].copy_from_slice(&states.to_ne_bytes());
            vec![message(SOCK_DIAG_BY_FAMILY, &body)]
        }
        // struct packet_diag_req, netlink_diag_req { u8 family, protocol; u16 pad; u32 ino, show, cookie[2]; }
        "packet" => vec![message(SOCK_DIAG_BY_FAMILY, &short(AF_PACKET, 0))],
        "netlink" => vec![message(SOCK_DIAG_BY_FAMILY, &short(AF_NETLINK, NDIAG_PROTO_ALL))],
        _ => Vec::new(),
    }
}

/// `struct inet_diag_req { u8 family, src_len, dst_len, ext; struct inet_diag_sockid id; u32 states, dbs; }`
fn one_pass(states: u32) -> [u8; 60] {
    let mut body = [0; 60];
    body[52..56].copy_from_slice(&states.to_ne_bytes());
    body
}

/// `struct inet_diag_req_v2 { u8 family, protocol, ext, pad; u32 states; struct inet_diag_sockid id; }`, and maybe
/// `INET_DIAG_REQ_PROTOCOL` behind it.
fn each_family(protocol: u8, beyond: Option<u32>, states: u32) -> Vec<Vec<u8>> {
    [AF_INET, AF_INET6]
        .into_iter()
        .map(|family| {
            let mut body = vec![0; 56];
            body[..2].copy_from_slice(&[family, protocol]);
            body[4..8].copy_from_slice(&states.to_ne_bytes());
            if let Some(protocol) = beyond {
                body.extend_from_slice(&8_u16.to_ne_bytes());
                body.extend_from_slice(&INET_DIAG_REQ_PROTOCOL.to_ne_bytes());
                body.extend_from_slice(&protocol.to_ne_bytes());
            }
            message(SOCK_DIAG_BY_FAMILY, &body)
        })
        .collect()
}

fn short(family: u8, protocol: u8) -> [u8; 20] {
    let mut body = [0; 20];
    body[..2].copy_from_slice(&[family, protocol]);
    body
}

fn message(kind: u16, body: &[u8]) -> Vec<u8> {
    let length = (HEADER_LEN + body.len()) as u32;
    let mut message = length.to_ne_bytes().to_vec();
    message.extend_from_slice(&kind.to_ne_bytes());
    message.extend_from_slice(&(NLM_F_REQUEST | NLM_F_DUMP).to_ne_bytes());
    message.extend_from_slice(&[0; 8]);
    message.extend_from_slice(body);
    message
}

const HEADER_LEN: usize = 16;
const NLMSG_NOOP: u16 = 1;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const NLM_F_REQUEST: u16 = 0x1;
const NLM_F_DUMP: u16 = 0x300;
const TCPDIAG_GETSOCK: u16 = 18;
const SOCK_DIAG_BY_FAMILY: u16 = 20;
const INET_DIAG_REQ_PROTOCOL: u16 = 3;
const NDIAG_PROTO_ALL: u8 = 255;
const AF_UNIX: u8 = 1;
const AF_INET: u8 = 2;
const AF_INET6: u8 = 10;
const AF_NETLINK: u8 = 16;
const AF_PACKET: u8 = 17;
const ERRNO_MAX: i32 = 4095;

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(kind: u16, body: &[u8]) -> Vec<u8> {
        let mut bytes = message(kind, body);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    #[test]
    fn records_are_counted_up_to_the_end() {
        let mut records = 0;
        let two = [answer(20, &[0; 5]), answer(NLMSG_NOOP, &[]), answer(20, &[0; 72])].concat();
        assert_eq!(count(&two, &mut records), End::NotYet);
        assert_eq!(count(&answer(NLMSG_DONE, &[0; 4]), &mut records), End::Done);
        assert_eq!(records, 2);
        let refused = answer(NLMSG_ERROR, &(-2_i32).to_ne_bytes());
        assert_eq!(count(&refused, &mut records), End::Refused(Errno::NOENT));
        let ended = answer(NLMSG_DONE, &(-2_i32).to_ne_bytes());
        assert_eq!(count(&ended, &mut records), End::Refused(Errno::NOENT));
        for broken in [&[1, 2, 3][..], &[0; 16], &two[..20], &[]] {
            assert_eq!(count(broken, &mut records), End::Broken, "{broken:?}");
        }
    }

    #[test]
    fn the_kernel_answers_each_request() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        assert!(dump("tcp", 0xffe).unwrap() > 0);
        drop(listener);
        let socket =
            std::net::UdpSocket::bind("[::1]:0").or_else(|_| std::net::UdpSocket::bind("127.0.0.1:0"));
        assert!(dump("udp", 0xffe).unwrap() > 0);
        drop(socket);
        assert!(
            dump("netlink", 0xffe).unwrap() > 0,
            "the one that asks at the least"
        );
        assert!(dump("dccp", 0xffe).is_err());
    }
}
