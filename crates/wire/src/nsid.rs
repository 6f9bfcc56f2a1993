//! `RTM_GETNSID`, `RTM_NEWNSID`: the ids (nsid) of other network namespaces in one namespace (`ip netns set`).
//!
//! ```text
//! struct rtgenmsg { u8 family; }                          1, padded to 4
//! NETNSA_NSID 1: i32      NETNSA_PID 2: u32      NETNSA_FD 3: u32
//! ```
//! Source: `include/uapi/linux/net_namespace.h`, `net/core/net_namespace.c`; Linux 4.0, dumps too.
//!
//! ```
//! use sockeye_wire::nsid;
//!
//! assert_eq!(nsid::of_descriptor(7, 1).len(), 16 + 4 + 8);
//! assert_eq!(nsid::parse(&[0; 4]), Ok(None)); // it has no id
//! ```

use crate::bytes::{ne_i32, split_fixed};
use crate::netlink::{Attributes, Request};
use crate::{Error, Layer};
use alloc::vec::Vec;

/// Returns a request for all assigned ids. The answers do not identify the namespaces.
#[must_use]
pub fn dump(sequence: u32) -> Vec<u8> {
    Request::dump(RTM_GETNSID, sequence).payload(&[0; 4]).finish()
}

/// Returns a request for the id of the namespace that is open as this descriptor of the requesting process.
#[must_use]
pub fn of_descriptor(fd: u32, sequence: u32) -> Vec<u8> {
    let request = Request::one(RTM_GETNSID, sequence).payload(&[0; 4]);
    let with_fd = request.clone().attribute(NETNSA_FD, &fd.to_ne_bytes());
    with_fd.unwrap_or(request).finish()
}

/// Returns a request to assign an id, 0 or more, to the namespace that is open as this descriptor; `None` for the
/// lowest free one. The answer is `EEXIST` if it has an id, or another namespace has this one.
#[must_use]
pub fn assign(fd: u32, id: Option<i32>, sequence: u32) -> Vec<u8> {
    let id = id.unwrap_or(NETNSA_NSID_NOT_ASSIGNED);
    let request = Request::act(RTM_NEWNSID, sequence).payload(&[0; 4]);
    let with_id = request.clone().attribute(NETNSA_NSID, &id.to_ne_bytes());
    let with_both = with_id.and_then(|request| request.attribute(NETNSA_FD, &fd.to_ne_bytes()));
    with_both.unwrap_or(request).finish()
}

/// Parses the payload of an `RTM_NEWNSID` and returns the id; `None` if the namespace has none.
///
/// # Errors
/// When it is shorter than `struct rtgenmsg`, or the envelope of an attribute is broken.
pub fn parse(payload: &[u8]) -> Result<Option<i32>, Error> {
    let (_, attributes) = split_fixed::<4>(payload, Layer::RouteNsid)?;
    let mut id = None;
    for attribute in Attributes::new(attributes) {
        let attribute = attribute?;
        if attribute.kind == NETNSA_NSID {
            id = ne_i32(attribute.payload, 0);
        }
    }
    Ok(id.filter(|&id| id != NETNSA_NSID_NOT_ASSIGNED))
}

/// `RTM_NEWNSID`: the answer to both requests
pub const RTM_NEWNSID: u16 = 88;
const RTM_GETNSID: u16 = 90;
const NETNSA_NSID: u16 = 1;
const NETNSA_FD: u16 = 3;
const NETNSA_NSID_NOT_ASSIGNED: i32 = -1;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netlink::Messages;

    #[test]
    fn assign_request_has_id_and_descriptor() {
        for (id, on_the_wire) in [(Some(5), 5), (None, -1)] {
            let request = assign(9, id, 4);
            let message = Messages::new(&request).next().unwrap().unwrap();
            assert_eq!((message.kind, message.flags, message.sequence), (88, 5, 4));
            let all: Vec<_> = Attributes::new(&message.payload[4..]).flatten().collect();
            assert_eq!(ne_i32(all[0].payload, 0), Some(on_the_wire));
            assert_eq!((all[1].kind, all[1].u32()), (NETNSA_FD, Some(9)));
            // The kernel answers in the same form.
            assert_eq!(parse(message.payload), Ok(id));
        }
    }

    fn answer(id: i32) -> Vec<u8> {
        let mut bytes = alloc::vec![0; 4];
        bytes.extend(8_u16.to_ne_bytes());
        bytes.extend(NETNSA_NSID.to_ne_bytes());
        bytes.extend(id.to_ne_bytes());
        bytes
    }

    #[test]
    fn unassigned_id_is_none() {
        assert_eq!(parse(&answer(0)), Ok(Some(0)));
        assert_eq!(parse(&answer(i32::MAX)), Ok(Some(i32::MAX)));
        assert_eq!(parse(&answer(-1)), Ok(None));
        assert_eq!(parse(&[0; 4]), Ok(None));
        assert!(parse(&[0; 3]).is_err());
        assert!(parse(&answer(5)[..11]).is_err());
    }

    #[test]
    fn requests_have_the_kernels_layout() {
        let request = of_descriptor(7, 9);
        assert_eq!(request[..4], 28_u32.to_ne_bytes());
        assert_eq!(request[4..6], RTM_GETNSID.to_ne_bytes());
        assert_eq!(
            request[20..24],
            [8_u16.to_ne_bytes(), 3_u16.to_ne_bytes()].concat()
        );
        assert_eq!(request[24..], 7_u32.to_ne_bytes());
        assert_eq!(dump(1).len(), 20);
    }
}
