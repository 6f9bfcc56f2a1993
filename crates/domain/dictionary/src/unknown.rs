//! Lines of a log that no entry matches: which look like trouble, and what can be read from their form.

use crate::error_context::{ErrorContext, is_own_code};
use aho_corasick::{AhoCorasick, AhoCorasickKind};
use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::OnceLock;

/// A line without an entry; lines that differ in numbers only are one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownLine {
    /// The last one, without the log's prefix
    pub line: String,
    /// Number of lines, with those that the log omitted
    pub times: u64,
    /// Time of the first, as the log writes it
    pub first: Option<String>,
    /// Time of the last
    pub last: Option<String>,
    /// Whether it looks like trouble
    pub is_trouble: bool,
    /// What its form says
    pub reading: Reading,
}

/// What the form of a kernel message says: `DRIVER BUS-ID IFACE: text (-110)`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Reading {
    /// Network driver or subsystem
    pub driver: Option<String>,
    /// Address on the bus
    pub device: Option<String>,
    /// Network interface
    pub interface: Option<String>,
    /// Error number, positive; none if it is one of a firmware or of the driver's own
    pub errno: Option<u16>,
    /// What said it, as far as it matters for the error number
    pub context: ErrorContext,
}

/// Lines without an entry.
#[derive(Debug, Clone, Default)]
pub(crate) struct UnknownLines {
    lines: HashMap<String, UnknownLine>,
    /// Buffer for the form of a line
    form: String,
    keeps_all: bool,
    left_out: u64,
}

impl UnknownLines {
    pub(crate) fn keep_all(&mut self) {
        self.keeps_all = true;
    }

    /// Whether lines are kept that do not look like trouble.
    pub(crate) fn keeps_all(&self) -> bool {
        self.keeps_all
    }

    /// Adds a line; returns whether it looks like trouble.
    pub(crate) fn add(&mut self, text: &str, times: u64, time: Option<&str>, is_of_kernel: bool) -> bool {
        // What programs print is their business.
        let is_trouble = is_of_kernel && looks_like_trouble(text);
        if !is_trouble && !self.keeps_all {
            return false;
        }
        write_form(text, &mut self.form);
        if !self.lines.contains_key(&self.form) {
            if self.lines.len() >= LINES_MAX {
                self.left_out += 1;
                return is_trouble;
            }
            let line = UnknownLine {
                line: String::new(),
                times: 0,
                first: None,
                last: None,
                is_trouble,
                reading: Reading::of(text),
            };
            self.lines.insert(self.form.clone(), line);
        }
        let Some(line) = self.lines.get_mut(&self.form) else {
            return is_trouble;
        };
        line.times = line.times.saturating_add(times);
        line.line.clear();
        line.line.push_str(text);
        if let Some(time) = time {
            if line.first.is_none() {
                line.first = Some(time.to_owned());
            }
            let last = line.last.get_or_insert_default();
            last.clear();
            last.push_str(time);
        }
        is_trouble
    }

    pub(crate) fn left_out(&self) -> u64 {
        self.left_out
    }

    pub(crate) fn sorted(&self) -> Vec<&UnknownLine> {
        let mut lines: Vec<_> = self.lines.values().collect();
        lines.sort_by_key(|line| {
            let is_network = line.reading.driver.is_some() || line.reading.interface.is_some();
            (
                Reverse(line.is_trouble),
                Reverse(is_network),
                Reverse(line.times),
                line.line.as_str(),
            )
        });
        lines
    }
}

impl Reading {
    /// Reads the form of a message.
    #[must_use]
    pub fn of(text: &str) -> Self {
        let mut reading = Self {
            errno: errno(text)
                .or_else(|| hexadecimal_errno_of(text))
                .filter(|&number| !is_own_code(text, number)),
            context: ErrorContext::of(text),
            ..Self::default()
        };
        let head = &text[..text.floor_char_boundary(HEAD_LEN_MAX)];
        // Without a colon there is no head, but the first word may still be a driver.
        let head = head.rsplit_once(": ").map_or(head, |(head, _)| head);
        let mut words = head
            .split([' ', '(', ')', '[', ']', ','])
            .map(|word| word.trim_end_matches(':'))
            .filter(|word| !word.is_empty());
        let Some(first) = words.next() else {
            return reading;
        };
        if DRIVERS.contains(&first) || SUBSYSTEMS.contains(&first) {
            reading.driver = Some(first.to_owned());
        }
        for word in std::iter::once(first).chain(words).take(HEAD_WORDS_MAX) {
            if reading.device.is_none() && is_bus_id(word) {
                reading.device = Some(word.to_owned());
            } else if reading.interface.is_none() && is_interface(word) {
                reading.interface = Some(word.to_owned());
            }
        }
        if reading.device.is_none() {
            reading.device = bracketed_device(text)
                .or_else(|| probed_device(text))
                .map(str::to_owned);
        }
        reading
    }
}

/// The device of `ixgbe: probe of 0000:09:00.0 failed with error -5`.
fn probed_device(text: &str) -> Option<&str> {
    let (_, rest) = text.split_once(": probe of ")?;
    rest.split(' ').next().filter(|word| is_bus_id(word))
}

/// The device that a message names behind its head: `DMAR: [DMA Read] Request device [06:00.0] fault addr ...`.
fn bracketed_device(text: &str) -> Option<&str> {
    let behind = text.split("evice [").skip(1);
    let mut inside = behind.filter_map(|rest| rest.split_once(']'));
    inside.find_map(|(word, _)| is_bus_id(word).then_some(word))
}

/// The interface in the head of a message: `bnx2x: [bnx2x_nic_load:2727(eno1)]...` has it in parentheses.
pub(crate) fn interface_of(text: &str) -> Option<&str> {
    let head = &text[..text.floor_char_boundary(HEAD_LEN_MAX)];
    let mut words = head
        .split([' ', '(', ')', '[', ']', ',', ':'])
        .take(HEAD_WORDS_MAX);
    words.find(|word| is_interface(word))
}

/// `mlx5_0`, `bnxt_re1`, `hns_0`: a device of RDMA, not an interface.
pub(crate) fn is_rdma_device(word: &str) -> bool {
    RDMA_PREFIXES.iter().any(|prefix| {
        word.strip_prefix(prefix)
            .is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit()))
    })
}

/// Whether the words or the error number of a message are those of trouble.
pub(crate) fn looks_like_trouble(text: &str) -> bool {
    is_trouble(text) || has_errno(text)
}

/// The address on the bus in the head of a message.
pub(crate) fn device_of(text: &str) -> Option<&str> {
    let head = &text[..text.floor_char_boundary(HEAD_LEN_MAX)];
    let mut words = head.split([' ', '(', ')', '[', ']', ',']).take(HEAD_WORDS_MAX);
    words.find_map(|word| Some(word.trim_end_matches(':')).filter(|word| is_bus_id(word)))
}

/// Whether a message has an error number.
pub(crate) fn has_errno(text: &str) -> bool {
    errno(text).is_some()
}

/// Whether the words of a message are those of trouble.
fn is_trouble(text: &str) -> bool {
    has_trouble_word(text) && !HARMLESS.iter().any(|harmless| text.contains(harmless))
}

/// Whether a word of a message is one of trouble, though others may say that it is none. Numbers do not matter.
pub(crate) fn has_trouble_word(text: &str) -> bool {
    static WORDS: OnceLock<Option<AhoCorasick>> = OnceLock::new();
    let words = WORDS.get_or_init(|| {
        AhoCorasick::builder()
            .kind(Some(AhoCorasickKind::DFA))
            .ascii_case_insensitive(true)
            .build(TROUBLE_WORDS)
            // The only error is an excessive number of words.
            .ok()
    });
    let mut matches = words.iter().flat_map(|words| words.find_iter(text));
    matches.any(|found| {
        let (before, from) = text.as_bytes().split_at(found.start());
        let is_begin = !before.last().is_some_and(u8::is_ascii_alphabetic);
        let is_longer = |word: &str| {
            from.get(..word.len())
                .is_some_and(|from| from.eq_ignore_ascii_case(word.as_bytes()))
        };
        (is_begin || !BEGINS_A_WORD.contains(&TROUBLE_WORDS[found.pattern()]))
            && !LONGER_WORDS.into_iter().any(is_longer)
    })
}

/// Writes the text without its numbers: lines of one message differ in them.
fn write_form(text: &str, form: &mut String) {
    form.clear();
    let mut rest = text;
    while let Some(at) = rest.bytes().position(|byte| byte.is_ascii_digit()) {
        form.push_str(&rest[..at]);
        form.push('#');
        rest = rest[at..].trim_start_matches(|character: char| character.is_ascii_digit());
    }
    form.push_str(rest);
}

/// The error number of `failed (-110)`, `error -110`, `ret=-110`, `err 4294967186`.
fn errno(text: &str) -> Option<u16> {
    let mut found = None;
    for (at, _) in text.match_indices('-') {
        let before = text[..at].chars().next_back();
        let digits = text[at + 1..].bytes().take_while(u8::is_ascii_digit).count();
        let after = text[at + 1 + digits..].chars().next();
        let is_alone = matches!(before, Some(' ' | '(' | '=' | ':' | '[' | ','))
            && matches!(after, None | Some(' ' | ')' | ',' | '.' | ';' | ':' | ']' | '\n'));
        if is_alone
            && (1..=3).contains(&digits)
            && let Ok(number) = text[at + 1..at + 1 + digits].parse::<u16>()
            && is_errno(number)
        {
            found = Some(number);
        }
    }
    found.or_else(|| unsigned_errno_of(text))
}

/// The error number that is printed without its sign, as 4294967186 for -110. 4294967295 is no EPERM, but mostly "not set"
/// (`audit: ... auid=4294967295`).
fn unsigned_errno_of(text: &str) -> Option<u16> {
    let at = memchr::memmem::rfind(text.as_bytes(), b"429496")?;
    let digits = text[at..].bytes().take_while(u8::is_ascii_digit).count();
    let is_part = |neighbour: char| neighbour.is_ascii_alphanumeric();
    let is_alone = !text[..at].ends_with(is_part) && !text[at + digits..].starts_with(is_part);
    let number = text[at..at + digits].parse().ok().filter(|_| is_alone)?;
    unsigned_errno(number).filter(|&number| number > 1 && is_errno(number))
}

/// The error number that is printed as hexadecimal digits of 32 bits, `fffffff5` for -11. Registers may have such values, too: it says
/// nothing about whether the line is trouble.
fn hexadecimal_errno_of(text: &str) -> Option<u16> {
    let words = text.rsplit(|character: char| !character.is_ascii_alphanumeric());
    let digits = words.map(|word| word.strip_prefix("0x").unwrap_or(word));
    let mut numbers = digits.filter(|digits| digits.len() == 8 && digits.starts_with("ffffff"));
    let number = u32::from_str_radix(numbers.next()?, 16).ok()?;
    unsigned_errno(number).filter(|&number| number > 1 && is_errno(number))
}

/// The error number of its negative value in 32 bits without a sign.
pub(crate) fn unsigned_errno(number: u32) -> Option<u16> {
    let number = u16::try_from(number.wrapping_neg()).ok()?;
    (1..=ERRNO_MAX).contains(&number).then_some(number)
}

/// Whether a system call, or the kernel inside of itself, has an error of this number.
fn is_errno(number: u16) -> bool {
    (1..=133).contains(&number) || (512..=531).contains(&number)
}

/// `0000:00:1f.6`, `1-4:1.0`, `vmbus_0_11`, `virtio3`, `2040000.ethernet`
pub(crate) fn is_bus_id(word: &str) -> bool {
    let is_pci = || {
        let mut parts = word.split([':', '.']);
        let lens: Vec<usize> = parts.by_ref().map(str::len).collect();
        (lens == [4, 2, 2, 1] || lens == [2, 2, 1])
            && word
                .bytes()
                .all(|byte| byte.is_ascii_hexdigit() || b":.".contains(&byte))
    };
    let is_usb = || {
        word.split_once('-').is_some_and(|(bus, port)| {
            !bus.is_empty()
                && bus.bytes().all(|byte| byte.is_ascii_digit())
                && !port.is_empty()
                && port
                    .bytes()
                    .all(|byte| byte.is_ascii_digit() || b".:".contains(&byte))
        })
    };
    let is_platform = || {
        word.split_once('.').is_some_and(|(address, name)| {
            address.len() >= 6
                && address.bytes().all(|byte| byte.is_ascii_hexdigit())
                && name.starts_with(|first: char| first.is_ascii_lowercase())
                // `8000000.ethernet:mdio@f00`
                && name
                    .bytes()
                    .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_:@".contains(&byte))
        })
    };
    let is_virtual = || {
        word.strip_prefix("virtio")
            .or_else(|| word.strip_prefix("vmbus_"))
            .is_some_and(|rest| rest.starts_with(|first: char| first.is_ascii_digit()))
    };
    let is_spi = || {
        word.strip_prefix("spi")
            .and_then(|rest| rest.split_once('.'))
            .is_some_and(|(bus, chip)| {
                let is_number =
                    |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
                is_number(bus) && is_number(chip)
            })
    };
    // The bus of Hyper-V
    let is_guid = || {
        word.split('-').map(str::len).eq([8, 4, 4, 4, 12])
            && word.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-')
    };
    is_guid() || is_pci() || is_usb() || is_platform() || is_virtual() || is_spi()
}

/// A name that network interfaces have by convention.
pub(crate) fn is_interface(word: &str) -> bool {
    let is_name = (2..16).contains(&word.len())
        && word
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"_.-@".contains(&byte));
    is_name
        && !DRIVERS.contains(&word)
        && !is_rdma_device(word)
        && INTERFACE_PREFIXES.iter().any(|prefix| {
            word.strip_prefix(prefix).is_some_and(|rest| {
                rest.starts_with(|first: char| first.is_ascii_digit())
                    || rest.contains(|c: char| c.is_ascii_digit())
            })
        })
}

/// Larger ones are no error numbers (include/linux/err.h: MAX_ERRNO).
const ERRNO_MAX: u16 = 4_095;
/// Distinct lines that are kept.
const LINES_MAX: usize = 2_000;
/// Where driver, device and interface are.
const HEAD_LEN_MAX: usize = 120;
const HEAD_WORDS_MAX: usize = 8;

const TROUBLE_WORDS: [&str; 78] = [
    "fail",
    "error",
    "timeout",
    "timed out",
    "timed-out",
    "time out",
    "warning",
    "bug:",
    "hang",
    "hung",
    "stuck",
    "stall",
    "unable to",
    "cannot ",
    "can't ",
    "could not",
    "couldn't",
    "can not",
    "did not",
    "didn't",
    "doesn't",
    "not respond",
    "no response",
    "invalid",
    "corrupt",
    "dropped",
    "dropping",
    "overflow",
    "overrun",
    "underrun",
    "out of ",
    "denied",
    "refused",
    "lost",
    "resetting",
    "reset adapter",
    "abort",
    "fatal",
    "panic",
    "oops",
    "exception",
    "unexpected",
    "bad ",
    "unreachable",
    "mismatch",
    "illegal",
    "broken",
    "crash",
    "exceed",
    "leak",
    "unhandled",
    "rejected",
    "too many",
    "too long",
    "too small",
    "unsupported",
    "giving up",
    "not enough",
    "died",
    "assert",
    "compromised",
    "not trusted",
    "not supported",
    "not found",
    "no phy found",
    "missing",
    "nmi_interrupt",
    "badtlp",
    "baddllp",
    "interface down",
    "falling back",
    "is down",
    "not completed",
    "not reported",
    "flooding",
    "problem",
    "not initialized",
    "watchdog",
];

/// Parts of lines with such words that report no trouble.
/// Those of [`TROUBLE_WORDS`] that are parts of others: "changed", "installed", "loops".
const BEGINS_A_WORD: [&str; 6] = ["hang", "hung", "stall", "oops", "lost", "died"];
/// Words that begin with a word of trouble and are none.
const LONGER_WORDS: [&str; 4] = ["invalidat", "failover", "failsafe", "watchdog_thread"];
const HARMLESS: [&str; 14] = [
    "errors=",
    "no error",
    "no problem",
    "0 errors",
    "error=0",
    "errno=0",
    "success=",
    "error handling enabled",
    "error reporting enabled",
    "Error Reporting",
    "watchdog: enabled",
    "out of reset",
    "error containment capabilities",
    // `(REQ INFO) 0: enabled=0, timeout=-1` of MediaTek.
    "INFO)",
];

/// How names of interfaces begin.
const INTERFACE_PREFIXES: [&str; 25] = [
    "eth", "en", "wl", "ww", "sl", "ib", "br", "bond", "team", "veth", "tun", "tap", "wg", "ppp", "vlan",
    "vxlan", "docker", "lan", "wan", "swp", "usb", "can", "cali", "dummy", "vnet",
];

/// How names of RDMA devices begin that the kernel gives.
const RDMA_PREFIXES: [&str; 16] = [
    "bnxt_re", "cxgb4_", "efa_", "erdma_", "hfi1_", "hns_", "i40iw", "ionic_", "irdma", "mana_", "mlx4_",
    "mlx5_", "mthca", "ocrdma", "qedr", "rxe",
];

/// Modules of network drivers, as they stand at the start of a message.
const DRIVERS: [&str; 113] = [
    "8139cp",
    "8139too",
    "alx",
    "amd-xgbe",
    "aqc111",
    "ath10k_pci",
    "ath10k_sdio",
    "ath11k_pci",
    "ath12k_pci",
    "ath9k",
    "ath9k_htc",
    "atl1c",
    "atl1e",
    "atlantic",
    "ax88179_178a",
    "axienet",
    "b43",
    "b44",
    "be2net",
    "bcmgenet",
    "bna",
    "bnx2",
    "bnx2x",
    "bnxt_en",
    "brcmfmac",
    "brcmsmac",
    "cavium",
    "cdc_ether",
    "cdc_mbim",
    "cdc_ncm",
    "cdc_wdm",
    "cpsw",
    "cxgb3",
    "cxgb4",
    "cxgb4vf",
    "dpaa2_eth",
    "dpaa_eth",
    "e100",
    "e1000",
    "e1000e",
    "ena",
    "enetc",
    "enic",
    "et131x",
    "fec",
    "fm10k",
    "forcedeth",
    "fsl_dpa",
    "ftgmac100",
    "gianfar",
    "gve",
    "hinic",
    "hinic3",
    "hns3",
    "hv_netvsc",
    "i40e",
    "iavf",
    "i40evf",
    "ice",
    "idpf",
    "igb",
    "igbvf",
    "igc",
    "ionic",
    "ipheth",
    "ipw2200",
    "iwl3945",
    "iwl4965",
    "iwlwifi",
    "ixgbe",
    "ixgbevf",
    "jme",
    "lan743x",
    "lan78xx",
    "liquidio",
    "macb",
    "mana",
    "mlx4_core",
    "mlx4_en",
    "mlx5_core",
    "mlxsw_spectrum",
    "mt7601u",
    "mt76x2u",
    "mt7915e",
    "mt7921e",
    "mt7925e",
    "mvneta",
    "mvpp2",
    "mwifiex",
    "mwifiex_pcie",
    "myri10ge",
    "netxen_nic",
    "nfp",
    "octeontx2",
    "qede",
    "qed",
    "qlcnic",
    "qmi_wwan",
    "r8125",
    "r8152",
    "r8168",
    "r8169",
    "rndis_host",
    "rt2800usb",
    "rtl8192ce",
    "rtl8xxxu",
    "rtw_8822ce",
    "rtw89_8852be",
    "sfc",
    "sky2",
    "stmmac",
    "tg3",
    "thunderbolt-net",
];

/// Subsystems of the network that begin their messages with their name.
const SUBSYSTEMS: [&str; 56] = [
    "IPv4",
    "IPv6",
    "TCP",
    "UDP",
    "ICMP",
    "MPTCP",
    "SCTP",
    "sctp",
    "TIPC",
    "tipc",
    "nf_conntrack",
    "nf_tables",
    "nft",
    "netfilter",
    "ipvs",
    "IPVS",
    "xt_addrtype",
    "bonding",
    "bond",
    "bridge",
    "team",
    "vxlan",
    "geneve",
    "wireguard",
    "macsec",
    "macvlan",
    "ipvlan",
    "tun",
    "veth",
    "virtio_net",
    "vmxnet3",
    "xen_netfront",
    "vif",
    "xfrm",
    "IPsec",
    "openvswitch",
    "cfg80211",
    "mac80211",
    "ieee80211",
    "mt76",
    "rtw88",
    "rtw89",
    "usbnet",
    "asix",
    "phy",
    "sfp",
    "dsa",
    "mdio_bus",
    "PPP",
    "ppp",
    "l2tp_core",
    "TLS",
    "tls",
    "XDP",
    "neighbour",
    "smc",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(line: &str, driver: &str, device: &str, interface: &str, errno: Option<u16>) {
        let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        let reading = Reading {
            driver: some(driver),
            device: some(device),
            interface: some(interface),
            errno,
            context: ErrorContext::of(line),
        };
        assert_eq!(Reading::of(line), reading, "{line}");
    }

    #[test]
    fn form_of_driver_message_is_read() {
        check(
            "i40e 0000:03:00.0 ens1f0: Frobnication failed (-110)",
            "i40e",
            "0000:03:00.0",
            "ens1f0",
            Some(110),
        );
        check("r8152 1-4:1.0: intr status -71", "r8152", "1-4:1.0", "", Some(71));
        check(
            "hv_netvsc vmbus_0_11 eth0: no",
            "hv_netvsc",
            "vmbus_0_11",
            "eth0",
            None,
        );
        check(
            "fec 2188000.ethernet eth0: MDIO read, error = -5",
            "fec",
            "2188000.ethernet",
            "eth0",
            Some(5),
        );
        check(
            "DMAR: [DMA Read NO_PASID] Request device [06:00.0] fault addr 0xcf4d2000 [fault reason 0x06] PTE Read access is not set",
            "",
            "06:00.0",
            "",
            None,
        );
        check(
            "hv_netvsc 6c96f725-6e4b-415a-9879-7621e9ec0651 (unnamed net_device) (uninitialized): unable to open channel: -19",
            "hv_netvsc",
            "6c96f725-6e4b-415a-9879-7621e9ec0651",
            "",
            Some(19),
        );
        check("bond0: (slave eth1): frob", "", "", "bond0", None);
        check(
            "davinci_mdio: probe of 8000000.ethernet:mdio@f00 failed with error -22",
            "",
            "8000000.ethernet:mdio@f00",
            "",
            Some(22),
        );
        check(
            "igc 0000:01:00.0: frob 4294967186",
            "igc",
            "0000:01:00.0",
            "",
            Some(110),
        );
        check(
            "carl9170 1-4:1.0: frob failed (fffffff5).",
            "",
            "1-4:1.0",
            "",
            Some(11),
        );
        check("frob 0xffffffff fffff000 xfffffff5 fffffff5a", "", "", "", None);
        check("frob 4294967186x 04294967186 4294960000", "", "", "", None);
        check("audit: frob auid=4294967295", "", "", "", None);
        check("ata1: failed -9999 x-5 2026-11-20", "", "", "", None);
        check("", "", "", "", None);
    }

    #[test]
    fn words_of_trouble_are_found() {
        assert!(is_trouble("i40e: Failed to frob"));
        assert!(is_trouble("WARNING: CPU: 1"));
        assert!(!is_trouble("i40e: frob done"));
        assert!(!is_trouble("cfg80211: Regulatory domain changed to country: CN"));
        assert!(!is_trouble("Installing knfsd: loops, queued invalidation"));
        assert!(is_trouble("e1000: Detected Tx Unit Hang") && is_trouble("tx_hang") && is_trouble("Oops: 2"));
        assert!(is_trouble("exchanged, but failed") && is_trouble("failover: invalid"));
        assert!(is_trouble("usb 1-1: timed-out") && is_trouble("Timed-out"));
        assert!(!is_trouble("EXT4-fs: re-mounted. Opts: errors=remount-ro"));
    }

    #[test]
    fn lines_that_differ_in_numbers_are_one() {
        let mut lines = UnknownLines::default();
        assert!(lines.add("eth0: frob failed 12", 1, Some("1.0"), true));
        assert!(lines.add("eth0: frob failed 7", 2, Some("2.0"), true));
        assert!(!lines.add("eth0: frob failed 7", 1, None, false));
        assert!(!lines.add("eth0: frob", 1, None, true));
        let sorted = lines.sorted();
        assert_eq!(sorted.len(), 1);
        assert_eq!(
            (sorted[0].times, sorted[0].line.as_str()),
            (3, "eth0: frob failed 7")
        );
        assert_eq!(
            (sorted[0].first.as_deref(), sorted[0].last.as_deref()),
            (Some("1.0"), Some("2.0"))
        );
        for nth in 0..3_000 {
            let letters: String = format!("{nth:04}")
                .bytes()
                .map(|byte| (byte + 49) as char)
                .collect();
            lines.add(&format!("failed {letters}"), 1, None, true);
        }
        assert_eq!(lines.sorted().len(), LINES_MAX);
        assert_eq!(lines.left_out(), 1_001);
    }
}
