//! `-g`: memberships in multicast groups.

use super::buffered_stdout::{BufferedStdout, shown_name};
use super::names::HostNames;
use super::options::Flags;
use crate::output::netstat::{GROUPS_HEADER, push_group};
use crate::proc_note;
use sockeye_source::net_file;
use sockeye_wire::proc_net::{Igmp6Line, IgmpLine};
use std::net::IpAddr;

/// Prints the memberships of the selected families.
pub(super) fn push(flags: &Flags, names: &HostNames, out: &mut BufferedStdout) -> anyhow::Result<()> {
    // A kernel without a family lacks its file.
    let igmp = flags.families.inet.then(|| net_file("igmp").ok()).flatten();
    let igmp6 = flags.families.inet6.then(|| net_file("igmp6").ok()).flatten();
    if igmp.is_none() && igmp6.is_none() {
        proc_note::say_if_missing("netstat");
    }
    let (igmp, igmp6) = (igmp.unwrap_or_default(), igmp6.unwrap_or_default());
    let mut groups: Vec<(&[u8], u64, IpAddr)> = Vec::new();
    let mut interface: &[u8] = b"";
    for line in lines(&igmp).filter_map(IgmpLine::parse) {
        match line {
            IgmpLine::Interface(name) => interface = name,
            IgmpLine::Group { address, users } => groups.push((interface, users, address.into())),
        }
    }
    for line in lines(&igmp6).filter_map(Igmp6Line::parse) {
        groups.push((line.interface, line.users, line.address.into()));
    }
    if !flags.numeric_hosts {
        names.resolve_hosts(groups.iter().map(|(_, _, group)| *group));
    }
    out.text.extend_from_slice(GROUPS_HEADER);
    for (interface, users, group) in groups {
        let users = i64::try_from(users).unwrap_or(i64::MAX);
        push_group(
            &mut out.text,
            &shown_name(interface),
            users,
            group,
            flags.numeric_hosts,
            names,
        );
        out.flush_if_large()?;
    }
    Ok(())
}

fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(|&byte| byte == b'\n')
}
