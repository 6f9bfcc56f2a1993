//! Messages that no text has and that name an error: the entry of the driver's family explains them.
//!
//! A driver has more messages than a dictionary can have, and each kernel has new ones. The entries of families say in their field
//! `Drivers` how messages of their drivers begin.

use crate::block::{self, Part};
use crate::messages::{MatchedLine, Messages, interface};
use crate::unknown::{interface_of, is_interface, is_rdma_device};
use crate::{Placeholder, Severity, packed};

/// The entry of the family, if the line is trouble of a driver that has one. `line` is what the kernel printed, and whether it
/// [`looks_like_trouble`](crate::unknown::looks_like_trouble).
pub(crate) fn matched(line: &str, is_trouble: bool) -> Option<MatchedLine<'_>> {
    // Driver, device and interface; what happened follows.
    let (head, said) = match line.strip_prefix('[') {
        // `[bnx2x_nic_load:2727(eno1)]...`
        Some(line) => line.split_once(']')?,
        None => line
            .split_once(": ")
            // `sky2 hardware hung? flushing`, `nf_conntrack_frob :cannot register`
            .or_else(|| line.split_once(' ').filter(|(name, _)| is_no_word(name)))?,
    };
    let end = line.len() - said.len();
    // `[1480]: scst: ...` has a process before the driver.
    let said = said.trim_start_matches([':', ' ']);
    if said.is_empty() || head.len() > HEAD_LEN_MAX {
        return None;
    }
    if !is_trouble && !is_refusal(said) && !said.contains(PLACE_OF_WARNING) {
        return None;
    }
    let mut devices = head.split(' ').skip(1);
    let number = if devices.any(is_rdma_device) {
        packed::driver(RDMA)
    } else {
        let of_driver = |text| driver_at(text).filter(|&number| !is_of_subsystem(number));
        of_driver(head)
            // `ieee80211 phy0: brcmf_...`: the driver says more than the subsystem, whose name is one at the start only.
            // A word of a sentence (`ice mode`) is no driver there.
            .or_else(|| of_driver(said).filter(|_| said.split([' ', ':']).next().is_some_and(is_no_word)))
            .or_else(|| driver_at(head))
            .or_else(|| packed::driver(kind_of_device(head)?))
    }?;
    if !is_trouble && is_of_subsystem(number) {
        return None;
    }
    let interface = interface(&line[..end]).or_else(|| interface_of(line));
    let values = interface.map(|interface| (Placeholder::Interface, interface));
    Some(MatchedLine {
        number,
        wording: NO_WORDING,
        severity: packed::entry(number).severity.map(|severity| {
            if is_trouble {
                severity
            } else {
                severity.min(Severity::Notice)
            }
        })?,
        values: values.into_iter().collect(),
    })
}

/// The entry of a line of a stack trace that stands alone.
pub(crate) fn trace(line: &str) -> Option<MatchedLine<'_>> {
    let Some(Part::Frame(frame)) = block::part(line) else {
        return None;
    };
    let trace = Messages::built_in().match_line(FRAME)?;
    let values = vec![(Placeholder::Text, frame.function)];
    Some(MatchedLine { values, ..trace })
}

/// Whether the words say that something is not there or not possible. Of the messages in the source of Linux 6.12's network drivers that
/// have one of them and no word of trouble, 87 % are warnings or errors; other subsystems say such things at each start.
pub(crate) fn is_refusal(said: &str) -> bool {
    let mut words = said.split([' ', ':', ',', '.', ';', '(', ')', '[', ']']);
    words.any(|word| REFUSALS.iter().any(|refusal| word.eq_ignore_ascii_case(refusal)))
}

/// The family of the driver whose name is the first word. A driver of several buses or chips says which: `qca8k-ipq4019`.
fn driver_at(text: &str) -> Option<usize> {
    let name = text.split([' ', ':', '[', '(']).next()?;
    packed::driver(name).or_else(|| {
        let (driver, _) = name.split_once('-')?;
        packed::driver(driver).filter(|&number| !is_of_subsystem(number))
    })
}

/// Whether it is no word of a sentence, so that it names a driver without a colon: `sky2`, `nf_nat`, `b43-pci-bridge`.
fn is_no_word(name: &str) -> bool {
    name.contains(|c: char| c.is_ascii_digit() || c == '_' || c == '-')
}

/// Whether the family is that of a subsystem, not of drivers: such an entry explains no refusals, as subsystems say at each start what
/// they do not find.
fn is_of_subsystem(number: usize) -> bool {
    packed::entry(number).name.ends_with("-trouble")
}

/// What the field `Drivers` calls the device or interface of a message whose driver has no family: a PHY, a PCIe host bridge
/// (`rockchip-pcie f8000000.pcie`), a wireless interface (`wlan0`, or the last word of `frob 0000:01:00.0 wlan0`).
fn kind_of_device(head: &str) -> Option<&'static str> {
    if is_phy(head) {
        return Some(PHY);
    }
    if head.split(' ').next()?.contains("pcie") {
        return Some(PCIE_HOST);
    }
    // Of another interface nothing is known but its name: the line stays unknown, with its driver, device and errno.
    let interface = head.rsplit(' ').next().filter(|word| is_interface(word))?;
    interface.starts_with("wl").then_some(WIRELESS_INTERFACE)
}

/// Whether a PHY says it: `RTL8211F Gigabit Ethernet stmmac-0:01`, the name of its driver and its address on an MDIO bus.
fn is_phy(head: &str) -> bool {
    let Some((name, address)) = head.rsplit_once(' ') else {
        return false;
    };
    let Some((bus, address)) = address.rsplit_once(':') else {
        return false;
    };
    let is_address = address.len() == 2 && address.bytes().all(|byte| byte.is_ascii_hexdigit());
    // Devices of ACPI and of other buses end likewise: `PNP0A03:00`, `i2c-RTL5682:00`, `00:03`, `mei::3e8d0870-...:04`.
    let is_bus_of_mdio = bus.contains(|c: char| c.is_ascii_lowercase())
        && !bus.contains("::")
        && !bus
            .rsplit('-')
            .next()
            .unwrap_or(bus)
            .contains(|c: char| c.is_ascii_uppercase());
    is_address && is_bus_of_mdio && name.contains(|first: char| first.is_ascii_alphabetic())
}

/// A line of the entry `kernel-trace`.
const FRAME: &str = "PC is at f+0x0/0x1";
/// How RDMA devices are called in the field `Drivers`.
const RDMA: &str = "infiniband";
/// How kinds of devices are called there: no message begins so.
const PHY: &str = "@phy";
const PCIE_HOST: &str = "@pcie-host";
const WIRELESS_INTERFACE: &str = "@wireless-interface";
const REFUSALS: [&str; 48] = [
    "already",
    "bogus",
    "busy",
    "but",
    "collide",
    "conflict",
    "conflicts",
    "damaged",
    "dead",
    "disabling",
    "disallowed",
    "duplicate",
    "greater",
    "ignored",
    "ignoring",
    "incoherent",
    "incompatible",
    "inconsistent",
    "incorrect",
    "insufficient",
    "isn't",
    "malformed",
    "malfunction",
    "malicious",
    "missed",
    "must",
    "negative",
    "never",
    "no",
    "not",
    "null",
    "only",
    "problem",
    "rejecting",
    "requires",
    "should",
    "still",
    "stopped",
    "too",
    "truncated",
    "unable",
    "unavailable",
    "unhandled",
    "unknown",
    "unrecognized",
    "without",
    "won't",
    "wrong",
];
/// `bnxt_en 0000:02:00.0 (unnamed net_device) (uninitialized)` is a long one.
const HEAD_LEN_MAX: usize = 120;
/// In the place in its source that mlx5_core prints before warnings, errors and debug output: `cmd_work_handler:877:(pid 5): `.
const PLACE_OF_WARNING: &str = ":(pid ";
/// No text has the line.
pub(crate) const NO_WORDING: usize = usize::MAX;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::unknown::looks_like_trouble;

    #[track_caller]
    fn check(line: &str, entry: &str, interface: &str) {
        let found = matched(line, looks_like_trouble(line)).map(|known| {
            let value = known.values.first().map_or("", |(_, value)| value);
            (packed::entry(known.number).name.as_ref(), value)
        });
        let expected = (!entry.is_empty()).then_some((entry, interface));
        assert_eq!(found, expected, "{line}");
    }

    #[test]
    fn trouble_of_a_driver_has_the_entry_of_its_family() {
        check(
            "bnxt_en 0000:3b:00.0 p1p1: Frobnication is gone, resetting",
            "broadcom-driver-error",
            "p1p1",
        );
        check(
            "bnx2x: [bnx2x_frob:12(eno1)]Frob exceeded",
            "broadcom-driver-error",
            "eno1",
        );
        check("rtw89_8852zz 0000:01:00.0: frob mismatch", "wifi-rtw89-error", "");
        check(
            "ieee80211 phy0: brcmf_frob: no frob (-5)",
            "wifi-brcmfmac-error",
            "",
        );
        check(
            "[bnx2x_frob:2514(ens9f0)]frob failed with -12",
            "broadcom-driver-error",
            "ens9f0",
        );
        check(
            "mt7530-mdio mdio-bus:1f: frob is missing",
            "switch-chip-driver-error",
            "",
        );
    }

    #[test]
    fn driver_needs_no_colon() {
        check("bnxt_en Frobnication failed", "broadcom-driver-error", "");
        check("nf_frob :frob failed", "network-stack-error", "");
        check("[1480]: bnx2x: frob failed", "broadcom-driver-error", "");
    }

    #[test]
    fn refusal_is_a_notice() {
        let severity = |line| matched(line, looks_like_trouble(line)).map(|known| known.severity);
        assert_eq!(severity("ice 0000:01:00.0: Frob failed"), Some(Severity::Warning));
        assert_eq!(
            severity("ice 0000:01:00.0: Frob is not there"),
            Some(Severity::Notice)
        );
        assert_eq!(severity("ice 0000:01:00.0: Frob is there"), None);
        // mlx5_core says so of warnings.
        assert_eq!(
            severity("mlx5_core 0000:01:00.0: frob:12:(pid 5): Frob is there"),
            Some(Severity::Notice)
        );
    }

    #[test]
    fn rdma_devices_are_no_interfaces() {
        check(
            "hns3 0000:7d:00.0 hns_0: frob is illegal",
            "rdma-driver-error",
            "",
        );
        check(
            "infiniband mlx5_2: frob is not supported",
            "rdma-driver-error",
            "",
        );
    }

    #[test]
    fn phy_is_known_by_its_address() {
        check(
            "Frob 88X f1072004.mdio-mii:01: frob timed out",
            "phy-driver-error",
            "",
        );
        check("frob f1072004.mdio:x1: frob timed out", "", "");
        for other in [
            "acpi PNP0A03:00",
            "system 00:03",
            "rt5682s i2c-RTL5682:00",
            "ipts mei::3e8d0870-271a:04",
        ] {
            check(&format!("{other}: frob failed"), "", "");
        }
    }

    #[test]
    fn device_without_a_driver_has_the_family_of_its_kind() {
        check("wlan0: frob failed (-5)", "wireless-stack-trouble", "wlan0");
        check(
            "frob 0000:01:00.0 wlp1s0: frob failed",
            "wireless-stack-trouble",
            "wlp1s0",
        );
        check("frob 0000:01:00.0 eth0: frob failed", "", "");
        check("frob-pcie f8000000.pcie: frob timed out", "pci-bus-trouble", "");
        check("IPv4: frob failed", "network-core-trouble", "");
        check(
            "qca8k-frob c000000.switch wan: frob failed",
            "switch-chip-driver-error",
            "wan",
        );
        // These are other subsystems.
        check("phy phy-fe830000.phy.3: frob failed", "", "");
        check("ar7200-usb-phy usb-phy: phy frob is missing", "", "");
        check("frob: usb frob failed", "", "");
        check("usb-frob 1-1:1.0: frob failed", "", "");
        // What a subsystem does not find is no trouble.
        check("wlan0: no frob", "", "");
        check("IPv4: frob is not there", "", "");
    }

    #[test]
    fn other_lines_have_no_family() {
        check(
            "bnxt_en 0000:3b:00.0 p1p1: Frobnication done, nothing to do",
            "",
            "",
        );
        check("frob 0000:3b:00.0 p1p1: Frobnication failed", "", "");
        check("ice Frobnication failed", "", "");
        check("frob42 Frobnication failed", "", "");
        check("bnxt_en: ", "", "");
    }
}
