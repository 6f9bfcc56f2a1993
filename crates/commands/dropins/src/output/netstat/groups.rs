//! `-g`: memberships in multicast groups.

use super::field::{push_left, push_number_left};
use super::inet::push_host;
use sockeye_model::Names;
use std::net::IpAddr;

/// The title and the names of the columns.
pub const GROUPS_HEADER: &[u8] = b"IPv6/IPv4 Group Memberships\n\
    Interface       RefCnt Group\n\
    --------------- ------ ---------------------\n";

/// Appends a membership; `users` is its reference count.
pub fn push_group(
    out: &mut Vec<u8>,
    interface: &[u8],
    users: i64,
    group: IpAddr,
    numeric: bool,
    names: &dyn Names,
) {
    push_left(out, interface, 15);
    out.push(b' ');
    push_number_left(out, users, 6);
    out.push(b' ');
    push_host(out, group, numeric, names);
    out.push(b'\n');
}

#[cfg(test)]
mod tests {
    use super::*;
    use sockeye_model::NoNames;

    #[test]
    fn membership_is_a_row() {
        let mut out = Vec::new();
        push_group(&mut out, b"eth0", 12, [224, 0, 0, 1].into(), false, &NoNames);
        push_group(
            &mut out,
            b"a_name_of_15_by",
            1,
            "ff02::1".parse().unwrap(),
            true,
            &NoNames,
        );
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "eth0            12     224.0.0.1\na_name_of_15_by 1      ff02::1\n"
        );
    }
}
