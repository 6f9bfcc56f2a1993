//! The names that a filter may have while it is typed.

use crate::args::TopArgs;
use sockeye_filter::Resolve;
use sockeye_model::{CgroupId, InterfaceIndex, NetnsInode, Uid};
use sockeye_output::flow::Flows;
use sockeye_output::listing::find_column;
use sockeye_output::socket::Sockets;
use sockeye_query::args::ListingArgs;
use sockeye_query::context::QueryContext;
use std::cell::OnceCell;
use std::net::{IpAddr, Ipv4Addr};

/// Names of this host, read when the first one is asked for. A key does not wait for a name server, nor for 4000 namespaces: hosts, and
/// interfaces where all namespaces are listed, are taken for known ones here. A sample with an unknown one fails, and says so.
pub(crate) struct FilterNames {
    common: ListingArgs,
    are_many: bool,
    /// Names of recorded time are not those of now.
    is_recorded: bool,
    /// `None` in it: it cannot be read.
    context: OnceCell<Option<QueryContext>>,
}

impl FilterNames {
    /// Returns the names for samples with these arguments.
    pub(crate) fn new(args: &TopArgs, is_recorded: bool) -> Self {
        let are_many = args.common.netns.as_deref() == Some("all");
        let mut common = args.common.clone();
        if are_many || is_recorded {
            common.netns = None;
        }
        Self {
            common,
            are_many,
            is_recorded,
            context: OnceCell::new(),
        }
    }

    /// Forgets what was read: it may be other ones the next time.
    pub(crate) fn forget(&mut self) {
        self.context.take();
    }

    /// Asks the names of the host; `unread` is what is answered without them.
    fn ask<T>(&self, unread: T, ask: impl FnOnce(&dyn Resolve) -> T) -> T {
        let context = self
            .context
            .get_or_init(|| QueryContext::new(&self.common, false, false).ok());
        context.as_ref().map_or(unread, |context| {
            ask(&context.resolver(context.namespaces.iter().next().flatten()))
        })
    }
}

impl Resolve for FilterNames {
    fn service(&self, name: &str) -> Option<u16> {
        self.ask(Some(1), |names| names.service(name))
    }

    fn host(&self, _: &str) -> Vec<IpAddr> {
        vec![IpAddr::V4(Ipv4Addr::LOCALHOST)]
    }

    fn interface(&self, name: &str) -> Option<InterfaceIndex> {
        if self.are_many || self.is_recorded {
            return Some(InterfaceIndex(1));
        }
        self.ask(Some(InterfaceIndex(1)), |names| names.interface(name))
    }

    fn cgroup(&self, path: &str) -> Option<CgroupId> {
        self.ask(Some(CgroupId(1)), |names| names.cgroup(path))
    }

    fn user(&self, name: &str) -> Option<Uid> {
        self.ask(Some(Uid(0)), |names| names.user(name))
    }

    fn netns(&self, name: &str) -> Vec<NetnsInode> {
        if self.is_recorded {
            return vec![NetnsInode(1)];
        }
        self.ask(vec![NetnsInode(1)], |names| names.netns(name))
    }

    fn is_column(&self, name: &str) -> bool {
        find_column::<Flows>(name).is_ok() || find_column::<Sockets>(name).is_ok()
    }
}
