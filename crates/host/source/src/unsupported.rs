//! Protocols that a kernel may lack and no source here lists.

use rustix::io::Errno;
use sockeye_model::Family;
use sockeye_sys::netlink::NetlinkSocket;
use sockeye_wire::inet_diag::Query;
use sockeye_wire::netlink::{Messages, NLMSG_DONE, NLMSG_ERROR};

/// Returns the kernel's error for a dump of this family and protocol in the network namespace of the calling thread;
/// `None` if the kernel would list the sockets.
///
/// For DCCP the oldest request type is tried last, as `ss` does: a kernel without DCCP returns another errno then.
#[must_use]
pub fn refusal(family: Family, protocol: u8) -> Option<Errno> {
    let query = Query {
        states: u32::MAX,
        extensions: 0,
        ports: (0, 0),
        bytecode: &[],
    };
    let request = query.v2(family.number(), protocol.into(), SEQUENCE)?;
    let refused = first_reply(&request).err()?;
    if protocol != DCCP {
        return Some(refused);
    }
    let mut request = query.one_pass(SEQUENCE)?;
    request[4..6].copy_from_slice(&DCCPDIAG_GETSOCK.to_ne_bytes());
    first_reply(&request).err()
}

/// Puts a request, and looks at the beginning of the answer.
fn first_reply(request: &[u8]) -> Result<(), Errno> {
    let socket = NetlinkSocket::open()?;
    socket.send(request)?;
    let mut buffer = vec![0; 32 * 1024];
    let received = socket.receive(&mut buffer)?;
    let first = Messages::new(buffer.get(..received.len).unwrap_or_default())
        .flatten()
        .next();
    let Some(end) = first.filter(|message| message.kind == NLMSG_DONE || message.kind == NLMSG_ERROR) else {
        return Ok(());
    };
    match end.outcome() {
        Ok(outcome) if outcome.code < 0 => Err(Errno::from_raw_os_error(
            outcome.code.saturating_neg().min(ERRNO_MAX),
        )),
        _ => Ok(()),
    }
}

const SEQUENCE: u32 = 1;
/// The kernel's own limit (`include/linux/err.h`)
const ERRNO_MAX: i32 = 4095;
/// `IPPROTO_DCCP`
const DCCP: u8 = 33;
/// Removed in Linux 6.16
const DCCPDIAG_GETSOCK: u16 = 19;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tcp_is_listed_and_an_unknown_family_is_refused() {
        assert_eq!(refusal(Family::Inet, 6), None);
        assert!(refusal(Family::Unknown(250), 0).is_some());
    }
}
