//! `-g`: members of multicast groups.

use super::args::Flags;
use super::names::HostNames;
use super::page::Page;
use crate::output::netstat::{GROUPS_HEADER, push_group};
use sockeye_source::net_file;
use sockeye_wire::proc_net::{Igmp6Line, IgmpLine};
use std::net::IpAddr;

pub(super) fn push(flags: &Flags, names: &HostNames, page: &mut Page) -> anyhow::Result<()> {
    // A kernel without one of the families has no file of it.
    let igmp = flags.families.inet.then(|| net_file("igmp").ok()).flatten();
    let igmp6 = flags.families.inet6.then(|| net_file("igmp6").ok()).flatten();
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
        names.seek(groups.iter().map(|(_, _, group)| *group));
    }
    page.text.extend_from_slice(GROUPS_HEADER);
    for (interface, users, group) in groups {
        let users = i64::try_from(users).unwrap_or(i64::MAX);
        push_group(
            &mut page.text,
            interface,
            users,
            group,
            flags.numeric_hosts,
            names,
        );
        page.turn()?;
    }
    Ok(())
}

fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(|&byte| byte == b'\n')
}
