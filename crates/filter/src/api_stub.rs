#![allow(missing_docs, unused_variables, clippy::todo)]
use sockeye_model::{CgroupId, Entry, InterfaceIndex, NetnsInode, StateSet, Uid};
use std::net::IpAddr;

/// Looks names up while an expression is parsed. Every method has a default that knows nothing.
pub trait Resolve {
    fn service(&self, name: &str) -> Option<u16> {
        None
    }
    fn host(&self, name: &str) -> Vec<IpAddr> {
        Vec::new()
    }
    fn interface(&self, name: &str) -> Option<InterfaceIndex> {
        None
    }
    fn cgroup(&self, path: &str) -> Option<CgroupId> {
        None
    }
    fn user(&self, name: &str) -> Option<Uid> {
        None
    }
    fn netns(&self, name: &str) -> Option<NetnsInode> {
        None
    }
    /// `net.ipv4.ip_local_port_range`
    fn ephemeral_ports(&self) -> (u16, u16) {
        (32768, 60999)
    }
}
#[derive(Debug, Clone, Copy, Default)]
pub struct NoResolve;
impl Resolve for NoResolve {}

pub fn parse(text: &str, resolve: &dyn Resolve) -> Result<Filter, ParseError> {
    todo!()
}
/// Joined by spaces, as `ss` reads its arguments; render an error over `join_words(words)`.
pub fn parse_words<S: AsRef<str>>(words: &[S], resolve: &dyn Resolve) -> Result<Filter, ParseError> {
    todo!()
}
pub fn join_words<S: AsRef<str>>(words: &[S]) -> String {
    todo!()
}

/// `Default`: matches everything. `Display`: canonical expression.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Filter(());
impl Filter {
    pub fn is_empty(&self) -> bool {
        todo!()
    }
    pub fn matches(&self, entry: &Entry<'_>) -> bool {
        todo!()
    }
    /// None: no state is named anywhere, the caller's default applies. Some: ask for exactly these.
    pub fn states(&self) -> Option<StateSet> {
        todo!()
    }
    pub fn needs(&self) -> Needs {
        todo!()
    }
    pub fn program(&self, kernel: Kernel) -> Program {
        todo!()
    }
    pub fn and(self, other: Filter) -> Filter {
        todo!()
    }
}
impl std::fmt::Display for Filter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        Ok(())
    }
}

/// What has to be asked for before the filter can be judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Needs {
    pub tcp_info: bool,
    pub memory: bool,
    pub congestion: bool,
    pub owners: bool,
    pub mark: bool,
    pub cgroup: bool,
    pub netns: bool,
    /// `autobound`: only the kernel's program knows; `matches` alone guesses by the port range
    pub kernel_only: bool,
}

/// What the kernel that will run the program accepts. On EPERM drop `net_admin`, on EINVAL use `OLDEST`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kernel {
    pub net_admin: bool,
    pub device_condition: bool,
    pub cgroup_condition: bool,
}
impl Kernel {
    pub const FULL: Self = Self {
        net_admin: true,
        device_condition: true,
        cgroup_condition: true,
    };
    pub const UNPRIVILEGED: Self = Self {
        net_admin: false,
        ..Self::FULL
    };
    pub const OLDEST: Self = Self {
        net_admin: false,
        device_condition: false,
        cgroup_condition: false,
    };
}

/// `bytecode` goes into `wire::inet_diag::Query::bytecode`; empty: the kernel can decide nothing.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Program {
    pub bytecode: Vec<u8>,
    /// With `bytecode` and `states()` asked for, what comes back is the answer: `matches` need not run.
    pub exact: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParseError {
    pub span: std::ops::Range<usize>,
    pub found: String,
    pub expected: Vec<String>,
    pub hint: Option<String>,
}
impl ParseError {
    /// Several lines with a caret, ended by a newline.
    pub fn render(&self, text: &str) -> String {
        todo!()
    }
}
impl std::fmt::Display for ParseError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        Ok(())
    }
}
impl std::error::Error for ParseError {}
