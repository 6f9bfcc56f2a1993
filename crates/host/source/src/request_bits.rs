//! The bits with which netlink and our BPF programs are asked for a [`Detail`].

use sockeye_model::Detail;
use sockeye_wire::inet_diag::attribute;
use sockeye_wire::walk::detail;

/// Returns `inet_diag_req_v2.idiag_ext` for these flags.
pub(crate) fn extensions(detail: Detail) -> u8 {
    let mut bits = 0;
    if detail.contains(Detail::TCP_INFO) {
        bits |= attribute::extension(attribute::INFO);
    }
    if detail.intersects(Detail::TCP_INFO | Detail::CONGESTION) {
        bits |= attribute::extension(attribute::CONG) | attribute::extension(attribute::VEGASINFO);
    }
    if detail.contains(Detail::MEMORY) {
        bits |= attribute::extension(attribute::MEMINFO) | attribute::extension(attribute::SKMEMINFO);
    }
    if detail.contains(Detail::SERVICE_CLASS) {
        bits |= attribute::extension(attribute::TOS) | attribute::extension(attribute::TCLASS);
    }
    bits
}

/// Returns `Request::detail` of a walk for these flags.
pub(crate) fn sections(detail: Detail) -> u32 {
    [
        (Detail::QUEUES, detail::QUEUES),
        (Detail::TIMER, detail::TIMER),
        // A socket that `sock_diag` is asked for is recognized by its inode.
        (Detail::INODE | Detail::USER | TCP_DETAILS, detail::INODE),
        (Detail::USER, detail::USER),
        (Detail::OPTIONS | Detail::SERVICE_CLASS, detail::OPTIONS),
        (Detail::MEMORY, detail::MEMORY),
        (Detail::TCP_INFO, detail::TCP_INFO),
        (TCP_DETAILS, detail::CONGESTION),
    ]
    .into_iter()
    .filter(|(flags, _)| detail.intersects(*flags))
    .fold(0, |all, (_, bit)| all | bit)
}

/// What only a program that reads `tcp_sock` knows.
pub(crate) const TCP_DETAILS: Detail = Detail::TCP_INFO.union(Detail::CONGESTION);
