//! System calls, as safe functions: netlink sockets and namespaces. The only crate that may hold `unsafe`.
