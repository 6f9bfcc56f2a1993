//! What an error number means in a kernel message: drivers return the numbers of system calls for causes of their own.
//!
//! Sources: Documentation/driver-api/usb/error-codes.rst; Documentation/i2c/fault-codes.rst; drivers/base/firmware_loader/main.c;
//! drivers/mmc/core/core.c.

use crate::Entry;

/// What said the message, as far as it matters for its error number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ErrorContext {
    /// A driver, or a part of the kernel that is in none of the others
    #[default]
    Driver,
    /// A USB device, its driver or its controller
    Usb,
    /// A transfer over USB (URB), whose status the number is
    UsbTransfer,
    /// A host of memory cards, which SDIO chips are connected to
    Sdio,
    /// A client or server of the kernel that uses sockets: NFS, SMB, Ceph, NVMe/TCP
    Connection,
    /// A file system or a disk
    FileSystem,
    /// A file of firmware is loaded
    FirmwareFile,
}

impl ErrorContext {
    /// The context of a message without the log's prefix.
    #[must_use]
    pub fn of(text: &str) -> Self {
        let first = text
            .split([' ', ':', '(', '['])
            .find(|word| !word.is_empty())
            .unwrap_or("");
        let begins = |names: &[&str]| names.iter().any(|name| first.starts_with(name));
        let words = text
            .split(|character: char| !character.is_ascii_alphanumeric())
            .filter(|word| !word.is_empty());
        let has = |names: &[&str]| {
            words
                .clone()
                .any(|word| names.iter().any(|name| word.eq_ignore_ascii_case(name)))
        };
        let is_usb_device = || {
            let mut heads = text.split([' ', ',']).take(HEAD_WORDS);
            heads.any(|word| is_usb_id(word.trim_end_matches(':')))
        };
        // `rt2x00usb_vendor_request`, `usb_submit_urb`
        let names_usb = || {
            text.as_bytes()
                .windows(3)
                .any(|part| part.eq_ignore_ascii_case(b"usb"))
        };
        if text.contains("irect firmware load")
            || has(&["firmware", "fw", "ucode", "board"]) && (text.contains(".bin") || has(&["file"]))
        {
            Self::FirmwareFile
        } else if has(&["urb", "urbs"]) {
            Self::UsbTransfer
        } else if begins(USB_DRIVERS) || is_usb_device() || names_usb() {
            Self::Usb
        } else if begins(CONNECTIONS) {
            Self::Connection
        } else if has(&["sdio"]) || begins(&["mmc", "sunxi-mmc", "sdhci", "dwmmc"]) || text.contains("_sdio")
        {
            Self::Sdio
        } else if begins(FILE_SYSTEMS) {
            Self::FileSystem
        } else {
            Self::Driver
        }
    }

    /// What the error means here: its name, and words that fit who said it. `error` is the entry of the number.
    #[must_use]
    pub fn meaning(self, number: u16, error: &Entry<'_>) -> String {
        if let Some(words) = self.words(number) {
            return format!("{}: {words}", error.name);
        }
        let is_of_sockets = SOCKET_ONLY.contains(&number) || number >= 512;
        if is_of_sockets || self == Self::Connection && (number >= 88 || matches!(number, 11 | 32)) {
            return format!("{}: {}", error.name, error.first_sentence());
        }
        // The C library's words: what the number means to this driver is not known.
        let words = error
            .also
            .iter()
            .find(|also| also.contains(' ') && !also.starts_with("errno "));
        match words {
            Some(words) => format!("{} ({words})", error.name),
            None => error.name.to_string(),
        }
    }

    fn words(self, number: u16) -> Option<&'static str> {
        let of = |table: &[(u16, &'static str)]| {
            table
                .iter()
                .find(|(of, _)| *of == number)
                .map(|(_, words)| *words)
        };
        match self {
            Self::UsbTransfer => of(USB_TRANSFER).or_else(|| of(USB)).or_else(|| of(DRIVER)),
            Self::Usb => of(USB).or_else(|| of(DRIVER)),
            Self::Sdio => of(SDIO).or_else(|| of(DRIVER)),
            Self::FirmwareFile => of(FIRMWARE_FILE).or_else(|| of(DRIVER)),
            Self::FileSystem => of(FILE_SYSTEM).or_else(|| of(DRIVER)),
            Self::Connection if number >= 88 || matches!(number, 11 | 32) => None,
            Self::Connection => of(FILE_SYSTEM).or_else(|| of(DRIVER)),
            Self::Driver => of(DRIVER),
        }
    }
}

/// Whether the number that stands in a message is no errno: the firmware's, or one that the line itself names.
///
/// `error -5 (IAVF_ERR_PARAM)`, `BCME_UNSUPPORTED (-23)`, `(-5): Invalid argument`. brcmfmac and Broadcom's own drivers print the numbers of
/// their firmware (BCME_...), besides those of their bus.
pub(crate) fn is_own_code(text: &str, number: u16) -> bool {
    let bus = ["sdio", "pcie", "usb", "bus", ".bin", "irect firmware load", "mmc"];
    let is_broadcom = ["brcmfmac", "brcmf_", "dhd", "bcmdhd", "CFG80211-ERROR", "wl_"]
        .iter()
        .any(|name| text.starts_with(name) || text.contains(": brcmf_"));
    if is_broadcom && number <= BCME_LAST && !bus.iter().any(|word| text.contains(word)) {
        return true;
    }
    let is_code = |word: &str| {
        let word = word.trim_matches(['(', ')', '[', ']', ',', ':', '.']);
        word.len() > 5
            && word.contains('_')
            && word.starts_with(|c: char| c.is_ascii_uppercase())
            && word
                .bytes()
                .all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_')
            && (word.contains("ERR") || word.starts_with("BCME_") || word.contains("_E"))
    };
    let digits = format!("-{number}");
    text.match_indices(&digits).any(|(at, _)| {
        let before = text[..at].trim_end_matches(['(', '[', ' ', ':', '=']);
        let after = &text[at + digits.len()..];
        let named_before = before.rsplit(' ').next().is_some_and(is_code);
        let named_after = after
            .trim_start_matches([')', ']', ',', ':'])
            .split_whitespace()
            .next()
            .is_some_and(is_code);
        let said = after.strip_prefix("): ").is_some_and(|said| {
            said.starts_with(|c: char| c.is_ascii_uppercase()) && text[..at].ends_with('(')
        });
        named_before || named_after || said
    })
}

/// `1-4`, `2-1.3:1.0`: a port of USB
fn is_usb_id(word: &str) -> bool {
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    word.split_once('-').is_some_and(|(bus, port)| {
        is_number(bus)
            && port.starts_with(|c: char| c.is_ascii_digit())
            && port
                .bytes()
                .all(|byte| byte.is_ascii_digit() || b".:".contains(&byte))
    })
}

/// Words of a message that may be its device.
const HEAD_WORDS: usize = 6;
/// The largest number of the firmware's own errors (drivers/net/wireless/broadcom/brcm80211/brcmfmac/fwil.c: brcmf_fil_errstr[]).
const BCME_LAST: u16 = 69;

/// Only sockets return these: their texts fit in any message.
const SOCKET_ONLY: [u16; 11] = [98, 99, 100, 101, 102, 103, 106, 107, 111, 112, 113];

const USB_DRIVERS: &[&str] = &[
    "usb",
    "xhci",
    "ehci",
    "ohci",
    "dwc2",
    "dwc3",
    "r8152",
    "r8153",
    "ax88179",
    "asix",
    "cdc_",
    "qmi_wwan",
    "huawei_cdc",
    "smsc75",
    "smsc95",
    "lan78xx",
    "rndis",
    "mt7601u",
    "mt76x0u",
    "mt76x2u",
    "mt7663u",
    "mt7921u",
    "mt7925u",
    "rt2x00usb",
    "rt2800usb",
    "rt2500usb",
    "rt73usb",
    "rtl8xxxu",
    "r8188eu",
    "r8712u",
    "8188eu",
    "carl9170",
    "ath6kl_usb",
    "option1",
    "option",
    "pl2303",
    "ftdi",
    "gs_usb",
    "peak_usb",
    "kaweth",
    "pegasus",
    "rtl8150",
    "mcs7830",
    "dm9601",
    "sr9",
    "aqc111",
    "ipheth",
    "btusb",
];
const CONNECTIONS: &[&str] = &[
    "libceph",
    "ceph",
    "NFS",
    "nfs",
    "RPC",
    "rpc",
    "svc",
    "lockd",
    "sunrpc",
    "CIFS",
    "cifs",
    "smb",
    "ksmbd",
    "nvme_tcp",
    "nvmet_tcp",
    "nvme_fabrics",
    "iSCSI",
    "iscsi",
    "connection",
    "rxrpc",
    "kAFS",
    "afs",
    "9p",
    "dlm",
    "o2net",
    "nbd",
    "block",
    "drbd",
    "IPVS",
    "TLS",
    "RDS",
    "tipc",
    "MPTCP",
    "TCP",
    "UDP",
    "SCTP",
    "sctp",
    "L2TP",
    "l2tp",
    "SMC",
    "smc",
    "wireguard",
    "siw",
    "rnbd",
    "rtrs",
];
const FILE_SYSTEMS: &[&str] = &[
    "EXT4",
    "EXT3",
    "EXT2",
    "XFS",
    "BTRFS",
    "F2FS",
    "FAT",
    "JBD2",
    "overlayfs",
    "OCFS2",
    "GFS2",
    "gfs2",
    "Buffer",
    "blk_",
    "I/O",
    "md",
    "dm",
];

/// Status of a transfer. Source: Documentation/driver-api/usb/error-codes.rst.
const USB_TRANSFER: &[(u16, &str)] = &[
    (
        2,
        "the driver ended the transfer itself; expected while the interface goes down or the device is removed",
    ),
    (12, "the controller has no memory or no room for this transfer"),
    (
        104,
        "the driver took the transfer back; expected while the interface goes down or the device is removed",
    ),
    (115, "the transfer is not done yet"),
];
const USB: &[(u16, &str)] = &[
    (
        12,
        "the kernel has no memory, or the controller has no room or bandwidth for this configuration: too many devices or endpoints on it",
    ),
    (19, "the device is gone, or its controller"),
    (
        28,
        "the bus has no bandwidth left for the transfers that this device asks for",
    ),
    (
        32,
        "the device refused the request (a stall): it does not know it, or its firmware is in a wrong state",
    ),
    (
        62,
        "the device did not answer within the time of the bus: it is gone, or the signal is bad",
    ),
    (70, "data came faster than the controller could store it"),
    (
        71,
        "the transfer was garbled or got no answer: a bad cable, hub, port or supply, or the device is just gone",
    ),
    (
        75,
        "babble: the device sent more than it was asked for, after a bad signal or by an error of its firmware",
    ),
    (
        84,
        "checksum or bit error, or no answer: a bad cable, hub, port or supply, or the device is just gone",
    ),
    (108, "the device or its controller was switched off or removed"),
    (
        110,
        "the device did not answer in time: its firmware hangs, its supply is weak, or it is going away",
    ),
    (121, "the device sent less than was asked for"),
];
const SDIO: &[(u16, &str)] = &[
    (
        84,
        "a command or its data had a wrong checksum: the bus is too fast for its wires, or the supply is bad",
    ),
    (
        110,
        "the card or chip did not answer in time: it hangs, sleeps or has no supply",
    ),
    (
        123,
        "there is no card: it was removed, or the chip lost its supply",
    ),
];
const FIRMWARE_FILE: &[(u16, &str)] = &[
    (
        2,
        "there is no such file in the folders of firmware; the next line says whether the driver goes on with another one",
    ),
    (
        5,
        "the file could not be read whole, or the device did not take it",
    ),
    (11, "the device is not ready to take the firmware yet"),
    (
        22,
        "the file is not what the driver expects: damaged, of another version, or for another chip",
    ),
    (27, "the file is larger than the driver takes"),
    (
        12,
        "no memory for the file, or the driver takes no file of this kind and tries the next one",
    ),
];
const FILE_SYSTEM: &[(u16, &str)] = &[
    (2, "there is no such file, share or export"),
    (5, "a read or write failed: of the disk, or of the server"),
    (13, "the user or host has no right to it"),
    (28, "no space is left"),
    (
        30,
        "the file system is mounted read-only, or became so after an error",
    ),
    (74, "a checksum does not fit: the data is damaged"),
    (117, "the file system's structure is damaged"),
];
/// What the number mostly means in a driver; texts of system calls (open files, sockets, `bind()`) do not fit there.
const DRIVER: &[(u16, &str)] = &[
    (1, "not permitted here, or in this state of the device"),
    (
        2,
        "something that is looked up by name or number is not there: a file, a node of the device tree, an object in a table",
    ),
    (
        4,
        "a signal ended the waiting, as when the process that asked was killed",
    ),
    (
        5,
        "the device or its bus did not do what was asked, as when a register could not be read",
    ),
    (6, "the device, its interrupt or its address is not there"),
    (7, "more than the command or the buffer takes"),
    (11, "not possible at the moment; the caller may try again"),
    (
        12,
        "no memory was to be had (of this size, or for DMA), or a table of the device is full",
    ),
    (14, "a wrong memory address: an error of the driver"),
    (
        16,
        "the device or a part of it is in use, or does not become ready",
    ),
    (
        17,
        "it is there already: the same name, address or filter was added before",
    ),
    (
        19,
        "the device is not there any more, does not answer, or is not one that the driver knows",
    ),
    (
        22,
        "a parameter, a state or the content of a table is not what the driver or device accepts",
    ),
    (28, "a table or a memory of the device is full"),
    (
        32,
        "the device refused the request, or the channel to it is closed",
    ),
    (34, "a value is outside of what the device accepts"),
    (38, "the driver or device has no such function"),
    (
        52,
        "the device answered with something that does not belong to the request",
    ),
    (
        61,
        "there is no data: nothing was sent, or the property is not set",
    ),
    (62, "the device did not answer in time"),
    (63, "no room for the answer, or the firmware does not offer this"),
    (
        71,
        "the device did not keep to the protocol between it and the driver",
    ),
    (74, "the device's answer is damaged"),
    (75, "a value or an answer is larger than its place"),
    (84, "data came with a wrong checksum, or not in the expected form"),
    (95, "the driver, the device or its firmware does not support this"),
    (104, "the request was taken back, or the other end was reset"),
    (105, "a queue or a buffer is full"),
    (108, "the device is shut down or is being removed"),
    (110, "the device or its firmware did not answer in time"),
    (114, "it is under way already"),
    (115, "it is under way and not done yet"),
    (
        121,
        "the device, or a chip on its management bus (I2C, MDIO), did not answer or refused",
    ),
    (
        125,
        "the operation was given up, as at a reset or removal of the device",
    ),
    (
        131,
        "the device is in a state from which it does not recover without a reset",
    ),
    (524, "the driver or device does not support this"),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Dictionary, Reading};

    /// Texts of system calls that have no place in a driver's message.
    const OF_SYSTEM_CALLS: [&str; 8] = [
        "bind()",
        "file-max",
        "SO_BINDTODEVICE",
        "ICMP",
        "netlink",
        "optmem",
        "TUN",
        "socket",
    ];

    #[track_caller]
    fn check(line: &str, context: ErrorContext, number: u16, says: &str) {
        let reading = Reading::of(line);
        assert_eq!(
            (reading.context, reading.errno),
            (context, Some(number)),
            "{line}"
        );
        let dictionary = Dictionary::new();
        let said = context.meaning(number, dictionary.error(number).unwrap());
        assert!(said.contains(says), "{line}: {said}");
    }

    #[test]
    fn error_is_read_by_who_says_it() {
        for (line, number, says) in [
            (
                "mt7921u 2-2:1.3: vendor request req:63 off:8178 failed:-71",
                71,
                "cable",
            ),
            (
                "r8152 2-2:1.0: read type=0x0133, index=0xb400 fail -71",
                71,
                "cable",
            ),
            ("usb 2-1.4: can't set config #1, error -12", 12, "no room"),
            ("usb 1-1: device descriptor read/64, error -32", 32, "stall"),
            (
                "ieee80211 phy0: rt2x00usb_vendor_request: Error - Vendor Request 0x07 failed for offset 0x1004 with error -71",
                71,
                "cable",
            ),
        ] {
            check(line, ErrorContext::Usb, number, says);
        }
        check(
            "mt7921u 2-2:1.3: rx urb failed: -75",
            ErrorContext::UsbTransfer,
            75,
            "babble",
        );
        for (line, number, says) in [
            (
                "ath10k_pci 0000:04:00.0: failed to get memcpy hi address: -16",
                16,
                "become ready",
            ),
            (
                "hv_netvsc 5620e0c7-8062-4dce-aeb7-520c7ef76171 eth0: unable to open channel: -19",
                19,
                "not there",
            ),
            (
                "EDAC pnd2: Failed to register device with error -22.",
                22,
                "accepts",
            ),
            (
                "batman_adv: Unable to register the batman interface '': -22",
                22,
                "accepts",
            ),
        ] {
            check(line, ErrorContext::Driver, number, says);
        }
        check(
            "libceph: mon0 (1)10.0.0.1:6789 connect error -111",
            ErrorContext::Connection,
            111,
            "said no",
        );
        check(
            "ath11k_pci 0000:03:00.0: boot failed to load firmware-2.bin: -12",
            ErrorContext::FirmwareFile,
            12,
            "tries",
        );
        check(
            "mwifiex_sdio mmc1:0001:1: write iomem failed: -110",
            ErrorContext::Sdio,
            110,
            "supply",
        );
    }

    #[test]
    fn firmware_code_is_no_errno() {
        for line in [
            "brcmfmac: brcmf_inetaddr_changed: fail to get arp ip table err:-23",
            "iavf 0000:02:05.0: PF returned error -5 (IAVF_ERR_PARAM) to our request 3",
            "frob 0000:02:05.0: BCME_UNSUPPORTED (-23)",
            "frob: request failed (-5): Invalid state of the port",
        ] {
            assert_eq!(Reading::of(line).errno, None, "{line}");
        }
        for (line, number) in [
            ("brcmfmac: brcmf_sdio_bus_rxctl: failed with -110", 110),
            (
                "brcmfmac mmc1:0001:1: Direct firmware load for x.bin failed with error -2",
                2,
            ),
            ("frob 0000:02:05.0: failed (-5): retrying", 5),
        ] {
            assert_eq!(Reading::of(line).errno, Some(number), "{line}");
        }
    }

    #[test]
    fn error_of_driver_is_not_explained_with_system_calls() {
        let dictionary = Dictionary::new();
        for number in 1..=133 {
            let Some(error) = dictionary.error(number) else {
                continue;
            };
            for context in [ErrorContext::Driver, ErrorContext::Usb, ErrorContext::Sdio] {
                let said = context.meaning(number, error);
                let is_wrong = OF_SYSTEM_CALLS.iter().any(|word| said.contains(word));
                // "Destination address required", "Socket operation on non-socket": the words of the C library.
                let is_named = SOCKET_ONLY.contains(&number) || said.ends_with(')');
                assert!(!is_wrong || is_named, "{context:?} {number}: {said}");
            }
        }
    }
}
