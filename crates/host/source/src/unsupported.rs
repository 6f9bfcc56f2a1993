//! Protocols that a kernel may lack, and that nothing here lists.

use rustix::io::Errno;
use sockeye_model::Family;
use sockeye_sys::netlink::DiagSocket;
use sockeye_wire::inet_diag::Query;
use sockeye_wire::netlink::{Messages, NLMSG_DONE, NLMSG_ERROR};

/// Why the kernel does not list the sockets of this family and protocol, in the network namespace of the calling thread;
/// `None` if it would.
///
/// The oldest kind of request is asked for DCCP too, as `ss` does in the end: kernels without it say more then.
#[must_use]
pub fn refusal(family: Family, protocol: u8) -> Option<Errno> {
    let query = Query {
        states: u32::MAX,
        extensions: 0,
        ports: (0, 0),
        bytecode: &[],
    };
    let request = query.v2(family.number(), protocol.into(), SEQUENCE)?;
    let refused = answer(&request).err()?;
    if protocol != DCCP {
        return Some(refused);
    }
    let mut request = query.one_pass(SEQUENCE)?;
    request[4..6].copy_from_slice(&DCCPDIAG_GETSOCK.to_ne_bytes());
    answer(&request).err()
}

/// Puts a request, and looks at the beginning of the answer.
fn answer(request: &[u8]) -> Result<(), Errno> {
    let socket = DiagSocket::open()?;
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
        Ok(outcome) if outcome.code < 0 => Err(Errno::from_raw_os_error(outcome.code.saturating_neg())),
        _ => Ok(()),
    }
}

const SEQUENCE: u32 = 1;
/// `IPPROTO_DCCP`
const DCCP: u8 = 33;
/// Gone since Linux 6.16
const DCCPDIAG_GETSOCK: u16 = 19;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tcp_is_not_refused_and_nonsense_is() {
        assert_eq!(refusal(Family::Inet, 6), None);
        assert!(refusal(Family::Unknown(250), 0).is_some());
    }
}
