//! Lines that belong to the message before them: stack traces, registers, memory tables. The functions of a trace show which
//! subsystem it is about.

/// What a line says about the message that it belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part<'l> {
    /// Registers, tables, marks
    Detail,
    /// A function on the stack
    Frame(Frame<'l>),
}

/// A function on the stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Frame<'l> {
    pub(crate) function: &'l str,
    pub(crate) module: Option<&'l str>,
}

/// Reads a line as a part of a block; `None`: it is a message of its own.
pub(crate) fn part(text: &str) -> Option<Part<'_>> {
    if head_of(text, &MARKS).is_some_and(|mark| mark.len() == text.len()) {
        return Some(Part::Detail);
    }
    // `RIP: 0010:tcp_v4_rcv+0x12/0x340`, `pc : tcp_v4_rcv+0x12/0x340 [mod]`, `? tcp_v4_rcv+0x12/0x340`
    let after = head_of(text, &FRAME_HEADS).map(|head| &text[head.len()..]);
    // `RIP  [<ffffffff815a1234>] tcp_ack+0x4d4/0x1230` at the end of an old oops
    let after = after.or_else(|| {
        text.strip_prefix("RIP ")
            .filter(|rest| rest.trim_start().starts_with("[<"))
    });
    let after = after.or_else(|| behind_mips_head(text));
    if let Some(frame) = frame(after.unwrap_or(text).trim_start()) {
        return Some(Part::Frame(frame));
    }
    // `IP: ` is also how the protocol's messages begin.
    let is_detail = after.is_some() && !text.starts_with("IP: ")
        || head_of(text, &DETAIL_HEADS).is_some()
        || is_register(text)
        || is_fault_address(text)
        || text.starts_with("Process ") && text.contains(" (pid: ")
        || is_dump(text);
    is_detail.then_some(Part::Detail)
}

/// The one of these heads that the text begins with. Comparing the first byte before costs no call.
fn head_of(text: &str, heads: &[&'static str]) -> Option<&'static str> {
    let first = text.as_bytes().first();
    let mut heads = heads.iter().copied();
    heads.find(|head| head.as_bytes().first() == first && text.starts_with(head))
}

/// The function in a head: `WARNING: CPU: 3 PID: 0 at net/sched/sch_generic.c:525 dev_watchdog+0x213/0x220`.
pub(crate) fn frame_in_head(text: &str) -> Option<Frame<'_>> {
    let at = offset_of(text)?;
    let begin = text[..at].rfind([' ', ':', '[', '(']).map_or(0, |at| at + 1);
    frame(&text[begin..])
}

/// Where `+0x` is.
fn offset_of(text: &str) -> Option<usize> {
    let mut signs = text.match_indices('+').map(|(at, _)| at);
    signs.find(|at| text[at + 1..].starts_with("0x"))
}

/// `tcp_v4_rcv+0x12/0x340 [module]`
fn frame(text: &str) -> Option<Frame<'_>> {
    offset_of(text)?;
    // `[<ffffffff81234567>] ` of old kernels, `0010:` of RIP, `0010:[<ffffffff81234567>]  [<ffffffff81234567>] ` of an old RIP
    let text = behind_addresses(text)?;
    let text = match text.split_once(':') {
        Some((segment, rest))
            if segment.len() <= 4 && segment.bytes().all(|byte| byte.is_ascii_hexdigit()) =>
        {
            behind_addresses(rest)?
        }
        _ => text,
    };
    let text = text.strip_prefix("? ").unwrap_or(text);
    let (function, rest) = text.split_once("+0x")?;
    let is_name = !function.is_empty()
        && function.len() <= 80
        && function
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"_.$".contains(&byte));
    let offset = rest.split_whitespace().next()?;
    // Kernels before 4.5 end the head of a warning with `()`.
    let is_offset = offset
        .trim_end_matches([']', ')', '(', ','])
        .split('/')
        .all(|number| {
            let digits = number.strip_prefix("0x").unwrap_or(number);
            !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
        });
    if !is_name || !is_offset {
        return None;
    }
    let module = rest
        .split_once(" [")
        .and_then(|(_, rest)| rest.split([']', ' ']).next())
        .filter(|module| !module.is_empty());
    Some(Frame { function, module })
}

/// The text behind addresses in brackets: `[<ffffffff81234567>] `.
fn behind_addresses(mut text: &str) -> Option<&str> {
    while let Some(rest) = text.strip_prefix("[<") {
        text = rest.split_once(">]")?.1.trim_start();
    }
    Some(text)
}

impl Frame<'_> {
    /// Whether the function says what the kernel was doing: not how it reports faults, or how any task begins.
    pub(crate) fn is_telling(&self) -> bool {
        let base = self.function.split('.').next().unwrap_or(self.function);
        !REPORTING.iter().any(|prefix| base.starts_with(prefix))
    }

    /// The subsystem that the function belongs to, as far as its name shows.
    pub(crate) fn subsystem(&self) -> Option<&'static str> {
        let name = self.function.trim_start_matches('_');
        SUBSYSTEMS
            .iter()
            .find(|(prefix, _)| name.starts_with(prefix))
            .map(|(_, subsystem)| *subsystem)
    }
}

/// `RAX: 0000000000000000 RBX: ...`, `x29: ffff80001 x28: ...`, `CR2: 00007f`
fn is_register(text: &str) -> bool {
    let Some((name, rest)) = text
        .split_once(':')
        .filter(|(name, _)| name.len() <= REGISTER_LEN_MAX)
    else {
        return false;
    };
    let is_name = REGISTERS.contains(&name.trim_end())
        || name
            .trim_end()
            .strip_prefix(['x', 'r', 'R', '$'])
            .is_some_and(|number| {
                let number = number.trim_start();
                (1..=2).contains(&number.len()) && number.bytes().all(|byte| byte.is_ascii_digit())
            });
    let value = rest.split_whitespace().next().unwrap_or("");
    is_name
        && value.len() >= 4
        && value
            .bytes()
            .all(|byte| byte.is_ascii_hexdigit() || b":x".contains(&byte))
}

/// What is behind `epc   : 8e4e375c ` and `ra    : 8e4e3730 ` of MIPS.
fn behind_mips_head(text: &str) -> Option<&str> {
    let rest = text.strip_prefix("epc").or_else(|| text.strip_prefix("ra"))?;
    let (address, rest) = rest.trim_start().strip_prefix(": ")?.split_once(' ')?;
    let is_address = matches!(address.len(), 8 | 16) && address.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_address.then_some(rest)
}

/// `[dead000000000110] address between user and kernel address ranges`, `[0000000000000010] pgd=0000000041e59003, ...` of Arm
fn is_fault_address(text: &str) -> bool {
    let Some((address, rest)) = text.strip_prefix('[').and_then(|text| text.split_once("] ")) else {
        return false;
    };
    let is_address = matches!(address.len(), 8 | 16) && address.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_address
        && [
            "address between ",
            "user address but ",
            "pgd=",
            "*pgd=",
            "virtual address ",
        ]
        .iter()
        .any(|head| rest.starts_with(head))
}

/// Whether there is a `0x`. A search for one byte is much faster than one for two.
fn has_hex(text: &str) -> bool {
    let mut at = text.match_indices('x').map(|(at, _)| at);
    at.any(|at| at > 0 && text.as_bytes()[at - 1] == b'0')
}

/// `TDH                  <31>` of Intel's drivers, `0x00000010: 0x165f14e4, 0x00100506` of tg3
fn is_dump(text: &str) -> bool {
    if let Some((head, value)) = text.split_once('<')
        && let Some(value) = value.strip_suffix('>')
    {
        let is_value = !value.is_empty()
            && value
                .bytes()
                .all(|byte| byte.is_ascii_hexdigit() || b", <>x".contains(&byte));
        return is_value && head.ends_with(' ') && head.len() < 48 && !head.contains(':');
    }
    if !has_hex(text) {
        return false;
    }
    // `iwlwifi 0000:00:14.3: 0x01000000 | umac data1`
    if text.contains('|')
        && let Some((head, _)) = text.split_once(" | ")
        && let Some((_, value)) = head.rsplit_once(": 0x")
    {
        return value.len() == 8 && value.bytes().all(|byte| byte.is_ascii_hexdigit());
    }
    let Some((address, values)) = text.split_once(": 0x") else {
        return false;
    };
    // `ath10k_pci 0000:04:00.0: [00]: 0x05010000 0x00000000`
    let index = address
        .rsplit_once(": [")
        .and_then(|(_, index)| index.strip_suffix(']'));
    if index.is_some_and(|index| !index.is_empty() && index.bytes().all(|byte| byte.is_ascii_hexdigit())) {
        return true;
    }
    address.starts_with("0x")
        && address.len() == 10
        && values
            .bytes()
            .all(|byte| byte.is_ascii_hexdigit() || b"x, ".contains(&byte))
}

/// Whole lines.
const MARKS: [&str; 18] = [
    "------------[ cut here ]------------",
    "Call Trace:",
    "Call trace:",
    "<TASK>",
    "</TASK>",
    "<IRQ>",
    "</IRQ>",
    "<NMI>",
    "</NMI>",
    "<#DF>",
    "</#DF>",
    "<SOFTIRQ>",
    "Backtrace:",
    "Mem-Info:",
    "buffer_info[next_to_clean]:",
    "Kernel Offset: disabled",
    "Mem abort info:",
    "Data abort info:",
];

/// Begins of lines that have a function.
const FRAME_HEADS: [&str; 10] = [
    "RIP: ",
    "IP: ",
    "EIP: ",
    "EIP is at ",
    "pc : ",
    "lr : ",
    "PC is at ",
    "LR is at ",
    "? ",
    "NIP [",
];

/// Begins of lines that have none.
const DETAIL_HEADS: [&str; 54] = [
    "---[ end trace ",
    "---[ end Kernel panic",
    "Call Trace: <",
    "Modules linked in:",
    "Hardware name:",
    "Workqueue: ",
    "Code: ",
    "Tainted: ",
    "CPU: ",
    "Kernel Offset:",
    "PKRU: ",
    "FS: ",
    "CS: ",
    "sp : ",
    "pstate: ",
    "Stack: ",
    "Stack:",
    "Exception stack",
    "irq event stamp:",
    "hardirqs last ",
    "softirqs last ",
    "active_anon:",
    "inactive_anon:",
    "active_file:",
    "unevictable:",
    "slab_reclaimable:",
    "mapped:",
    "kernel_misc_reclaimable:",
    "free:",
    "sec_pagetables:",
    "lowmem_reserve[]",
    "Node ",
    "DMA free:",
    "Normal free:",
    "Total swap = ",
    "Free swap ",
    "Swap cache stats",
    "pages RAM",
    "[ pid ]",
    "[last unloaded:",
    "PGD ",
    "ESR = ",
    "EC = ",
    "SET = ",
    "EA = ",
    "FSC = ",
    "ISV = ",
    "CM = ",
    "GCS = ",
    "user pgtable: ",
    "swapper pgtable: ",
    "Stack from ",
    "pgd = ",
    "Control: 1",
];

const REGISTERS: [&str; 33] = [
    "RAX", "RBX", "RCX", "RDX", "RSI", "RDI", "RBP", "RSP", "R08", "R09", "ORIG_RAX", "CR0", "CR2", "CR3",
    "CR4", "DR0", "DR3", "DR6", "EAX", "EBX", "ESP", "EFLAGS", "sp", "x29", "x30", "GS", "DS", "Hi", "Lo",
    "Status", "Cause", "BadVA", "PrId",
];

/// Length of `ORIG_RAX`, with blanks.
const REGISTER_LEN_MAX: usize = 12;

/// Functions that report a fault, or with which each stack begins.
const REPORTING: [&str; 56] = [
    "dump_stack",
    "show_stack",
    "show_trace",
    "dump_backtrace",
    "__warn",
    "warn_slowpath",
    "report_bug",
    "handle_bug",
    "exc_",
    "asm_",
    "panic",
    "oops_",
    "die",
    "no_context",
    "bad_area",
    "page_fault",
    "do_page_fault",
    "do_user_addr_fault",
    "async_page_fault",
    "nmi_",
    "watchdog_",
    "__die",
    "general_protection",
    "do_general_protection",
    "invalid_op",
    "do_invalid_op",
    "error_entry",
    "ret_from_",
    "kthread",
    "worker_thread",
    "process_one_work",
    "do_idle",
    "cpu_startup_entry",
    "start_secondary",
    "secondary_startup",
    "start_kernel",
    "rest_init",
    "entry_SYSCALL",
    "do_syscall_64",
    "x64_sys_call",
    "irq_exit",
    "__irq_exit",
    "do_softirq",
    "__do_softirq",
    "handle_softirqs",
    "__raw_spin",
    "_raw_spin",
    "native_",
    "default_idle",
    "arch_cpu_idle",
    "cpuidle_",
    "call_timer_fn",
    "run_timer_softirq",
    "__schedule",
    "schedule",
    "rcu_",
];

/// How names of functions begin, by subsystem.
const SUBSYSTEMS: [(&str, &str); 88] = [
    ("dev_watchdog", "queueing, the watchdog of transmit queues"),
    ("qdisc_", "queueing disciplines (tc)"),
    ("sch_", "queueing disciplines (tc)"),
    ("tcf_", "packet classification (tc)"),
    ("fq_codel_", "queueing disciplines (tc)"),
    ("htb_", "queueing disciplines (tc)"),
    ("mptcp_", "MPTCP"),
    ("tcp_v6_", "TCP over IPv6"),
    ("tcp_", "TCP"),
    ("inet_csk_", "TCP"),
    ("inet6_", "IPv6"),
    ("inet_", "IPv4 sockets"),
    ("udp_tunnel", "UDP tunnels"),
    ("udp", "UDP"),
    ("icmp", "ICMP"),
    ("igmp", "multicast groups"),
    ("mld_", "multicast groups"),
    ("ip_vs_", "IPVS"),
    ("ipvlan_", "ipvlan"),
    ("ip_tunnel", "IP tunnels"),
    ("ipgre_", "GRE tunnels"),
    ("gre_", "GRE tunnels"),
    ("ip6_", "IPv6"),
    ("ipv6_", "IPv6"),
    ("addrconf_", "IPv6 addresses"),
    ("ndisc_", "IPv6 neighbour discovery"),
    ("ip_", "IPv4"),
    ("fib6_", "IPv6 routes"),
    ("fib_", "IPv4 routes"),
    ("rt6_", "IPv6 routes"),
    ("rt_", "IPv4 routes"),
    ("dst_", "route cache"),
    ("neigh_", "neighbour table (ARP, ND)"),
    ("arp_", "ARP"),
    ("nft_", "nf_tables"),
    ("nf_tables_", "nf_tables"),
    ("nf_conntrack_", "connection tracking"),
    ("nf_ct_", "connection tracking"),
    ("nf_nat_", "NAT"),
    ("nf_flow", "flow tables of netfilter"),
    ("nf_", "netfilter"),
    ("ipt_", "iptables"),
    ("xt_", "iptables"),
    ("ip_set_", "ipset"),
    ("xfrm", "IPsec (XFRM)"),
    ("esp", "IPsec (ESP)"),
    ("wg_", "WireGuard"),
    ("sctp_", "SCTP"),
    ("tls_", "kernel TLS"),
    ("tipc_", "TIPC"),
    ("smc_", "SMC"),
    ("rds_", "RDS"),
    ("unix_", "UNIX sockets"),
    ("packet_", "packet sockets"),
    ("tpacket_", "packet sockets"),
    ("netlink_", "netlink"),
    ("genl_", "netlink"),
    ("rtnl_", "network configuration (rtnetlink)"),
    ("rtnetlink_", "network configuration (rtnetlink)"),
    ("br_", "bridge"),
    ("bond_", "bonding"),
    ("team_", "team"),
    ("vlan_", "VLAN"),
    ("vxlan_", "VXLAN"),
    ("geneve_", "GENEVE"),
    ("macvlan_", "macvlan"),
    ("veth_", "veth"),
    ("tun_", "TUN/TAP"),
    ("virtnet_", "virtio-net driver"),
    ("ppp_", "PPP"),
    ("l2tp_", "L2TP"),
    ("ovs_", "Open vSwitch"),
    ("ieee80211_", "Wi-Fi (mac80211)"),
    ("cfg80211_", "Wi-Fi (cfg80211)"),
    ("iwl_", "Wi-Fi driver iwlwifi"),
    ("phy_", "PHY"),
    ("mdiobus_", "PHY"),
    ("usbnet_", "USB network drivers"),
    ("bpf_", "BPF"),
    ("xdp_", "XDP"),
    ("napi_", "receive processing (NAPI)"),
    ("net_rx_action", "receive processing (NAPI)"),
    ("netif_", "network devices"),
    ("dev_", "network devices"),
    ("register_netdevice", "network devices"),
    ("unregister_netdevice", "network devices"),
    ("skb_", "packet buffers"),
    ("sock_", "sockets"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, function: &str, module: Option<&str>, subsystem: Option<&str>) {
        let Some(Part::Frame(frame)) = part(text) else {
            panic!("{text}: {:?}", part(text));
        };
        assert_eq!(
            (frame.function, frame.module, frame.subsystem()),
            (function, module, subsystem),
            "{text}"
        );
    }

    #[test]
    fn frames_of_traces_are_read() {
        check("tcp_v4_rcv+0x12/0x340", "tcp_v4_rcv", None, Some("TCP"));
        check(
            "? nf_ct_get+0x1/0x2 [nf_conntrack]",
            "nf_ct_get",
            Some("nf_conntrack"),
            Some("connection tracking"),
        );
        check(
            "RIP: 0010:__skb_release+0x12/0x340",
            "__skb_release",
            None,
            Some("packet buffers"),
        );
        check(
            "[<ffffffff81234567>] ? dev_watchdog+0x1/0x2",
            "dev_watchdog",
            None,
            Some("queueing, the watchdog of transmit queues"),
        );
        check(
            "epc   : 8e4e375c nf_conntrack_tuple_taken+0xc8/0x8d8 [nf_conntrack]",
            "nf_conntrack_tuple_taken",
            Some("nf_conntrack"),
            Some("connection tracking"),
        );
        check("pc : frob+0x12/0x340 [mod 1234]", "frob", Some("mod"), None);
        check(
            "RIP: 0010:[<ffffffff815a1234>]  [<ffffffff815a1234>] tcp_ack+0x4d4/0x1230",
            "tcp_ack",
            None,
            Some("TCP"),
        );
        check(
            "RIP  [<ffffffff815a1234>] tcp_ack+0x4d4/0x1230",
            "tcp_ack",
            None,
            Some("TCP"),
        );
        let head = "WARNING: CPU: 3 PID: 0 at net/sched/sch_generic.c:525 dev_watchdog+0x213/0x220";
        let frame = frame_in_head(head).unwrap();
        assert_eq!(frame.function, "dev_watchdog");
        assert!(frame.is_telling());
        assert!(!frame_in_head("at: dump_stack_lvl+0x1/0x2").unwrap().is_telling());
        assert_eq!(frame_in_head("WARNING: no function"), None);
        let old = "WARNING: at net/mac80211/rx.c:2300 ieee80211_rx+0x1a2/0x8c0 [mac80211]()";
        let frame = frame_in_head(old).unwrap();
        assert_eq!((frame.function, frame.module), ("ieee80211_rx", Some("mac80211")));
        let old = "WARNING: CPU: 0 PID: 0 at net/core/skbuff.c:4212 skb_try_coalesce+0x210/0x34c()";
        let frame = frame_in_head(old).unwrap();
        assert_eq!(
            (frame.function, frame.subsystem()),
            ("skb_try_coalesce", Some("packet buffers"))
        );
    }

    #[test]
    fn details_of_blocks_are_no_messages() {
        for text in [
            "------------[ cut here ]------------",
            "---[ end trace 0000000000000000 ]---",
            "Modules linked in: veth bridge",
            "RAX: 0000000000000000 RBX: ffff888103a4c000 RCX: 0",
            "x29: ffff80001 x28: 0000",
            "R10: ffff888103a4c000",
            "CR2: 00007f1234567890 CR3: 0000",
            "TDH                  <31>",
            "MAC Status             <80083>",
            "TDH, TDT             <1>, <2>",
            "0x00000010: 0x165f14e4, 0x00100506",
            "Code: 48 8b",
            "iwlwifi 0000:00:14.3: 0x01000000 | umac data1",
            "ath10k_pci 0000:04:00.0: [00]: 0x05010000 0x00000000",
            "Mem abort info:",
            "ESR = 0x0000000096000004",
            "EC = 0x25: DABT (current EL), IL = 32 bits",
            "user pgtable: 4k pages, 39-bit VAs, pgdp=0000000041e59000",
            "[dead000000000110] address between user and kernel address ranges",
            "[0000000000000010] pgd=0000000041e59003, p4d=0000000041e59003",
            "$ 0   : 00000000 00000001 00000024 80242e58",
            "$12   : 8e157800 8e157844 804e225c 00000001",
            "Hi    : 00000002",
            "BadVA : 0000002f",
            "Cause : 40800008 (ExcCode 02)",
            "Status: 11007c03 KERNEL EXL IE",
            "pgd = b9284000",
            "[40018684] *pgd=00000000",
            "Process asterisk (pid: 32643, stack limit = 0xaf920210)",
            "Control: 10c5383d  Table: 3928406a  DAC: 00000055",
        ] {
            assert_eq!(part(text), Some(Part::Detail), "{text}");
        }
        for text in [
            "TCP: out of memory",
            "eth0: link up",
            "2: eth0: <UP>",
            "e1000e 0000:00:1f.6 eth0: Detected Hardware Unit Hang:",
            "x: y",
            "state <UP>",
            "Status: link up",
            "Process accounting resumed",
            "ra: eth0 got an advertisement",
            "[12345678] eth0: link up",
            "",
        ] {
            assert_eq!(part(text), None, "{text}");
        }
    }
}
