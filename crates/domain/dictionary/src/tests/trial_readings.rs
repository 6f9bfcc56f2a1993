//! Readings that a trial with lines of other people found wrong: the entry that explains each of them, and how bad it is.

use super::check_lines;
use sockeye_dictionary::Severity;

#[test]
fn lines_have_the_entry_that_speaks_of_them() {
    use Severity::{Critical, Info, Notice, Warning};
    check_lines(&[
        (
            "usb 2-1.4: Not enough host controller resources for new device state.",
            "usb-controller-full",
            Warning,
        ),
        (
            "usb 2-1.4: can't set config #1, error -12",
            "usb-controller-full",
            Warning,
        ),
        (
            "usb 2-1.4: can't set config #1, error -71",
            "usb-enumeration-failed",
            Notice,
        ),
        (
            "iwlwifi 0000:00:14.3: RFIm is deactivated, reason = 4",
            "wifi-iwlwifi-rfi-deactivated",
            Info,
        ),
        (
            "batman_adv: bat0: No MLD Querier present - multicast optimizations disabled",
            "batman-adv-multicast-querier",
            Info,
        ),
        (
            "batman_adv: bat0: Interface deactivated: eth0",
            "batman-adv-interface",
            Notice,
        ),
        (
            "mmc0: queuing unknown CIS tuple 0x01 (3 bytes)",
            "sdio-cis-tuple-unknown",
            Info,
        ),
        (
            "mttcan c310000.mttcan can0: Bit1 Error Detected",
            "can-state",
            Warning,
        ),
        (
            "mttcan c310000.mttcan can0: entered error passive state",
            "can-state",
            Warning,
        ),
        (
            "flexcan 2090000.flexcan can0: entered error passive state",
            "can-state",
            Warning,
        ),
        (
            "flexcan 2090000.flexcan can0: entered bus off state",
            "can-bus-off",
            Critical,
        ),
        (
            "cfg80211: loaded regulatory.db is malformed or signature is missing/invalid",
            "wifi-regulatory-db-signature",
            Notice,
        ),
        (
            "xhci-hcd xhci-hcd.0.auto: xHCI host controller not responding, assume dead",
            "usb-controller-dead",
            Critical,
        ),
        (
            "xhci_hcd 0000:00:14.0: HC died; cleaning up",
            "usb-controller-dead",
            Critical,
        ),
        (
            "platform regulatory.0: Direct firmware load for regulatory.db failed with error -2",
            "wifi-regulatory-db",
            Notice,
        ),
        ("libceph: osd0 down", "ceph-osd-down", Notice),
        (
            "ath11k_warn: 68 callbacks suppressed",
            "callbacks-suppressed-own-limit",
            Info,
        ),
        (
            "net_ratelimit: 68 callbacks suppressed",
            "callbacks-suppressed",
            Info,
        ),
        (
            "ath10k_pci 0000:04:00.0: firmware crashed! (guid 5a3ff1e9-9e38-4b5e-8aa9-6e0c0d5e7b1f)",
            "wifi-firmware-crashed",
            Warning,
        ),
        (
            "MPTCP: out of memory: force closing socket",
            "mptcp-fork-out-of-memory",
            Critical,
        ),
        (
            "pcieport 0000:00:01.0: AER: found no error details for 0000:00:01.0",
            "pcie-aer-no-details",
            Notice,
        ),
        (
            "pcieport 0000:00:1c.0: AER: Correctable error message received from 0000:01:00.0 (no details found)",
            "pcie-aer-no-details",
            Notice,
        ),
        (
            "bond0: (slave eth1): slave is up - this may be due to an out of date ifenslave",
            "bonding-enslave-refused",
            Warning,
        ),
        (
            "team0: Device eth1 failed to register rx_handler",
            "team-port-refused",
            Warning,
        ),
        (
            "cdc_mbim 1-1.2:1.3: wdm_int_callback - 0 bytes",
            "cdc-wdm-urb-error",
            Warning,
        ),
        (
            "nvme_tcp: queue 0: failed to receive icresp, error -4",
            "nvme-tcp-start-failed",
            Warning,
        ),
        ("could not attach to PHY", "phy-attach-failed", Warning),
        (
            "sunxi-mmc 1c0f000.mmc: fatal err update clk timeout",
            "sdio-host-trouble",
            Warning,
        ),
        (
            "iwlwifi 0000:02:00.0: Queue 3 is active on fifo 1 and stuck for 10000 ms. SW [112, 116] HW [112, 116] FH TRB=0x080305070",
            "wifi-iwlwifi-queue-stuck",
            Warning,
        ),
        (
            "rtw_8822ce 0000:03:00.0: firmware failed to leave lps state",
            "wifi-realtek-firmware-silent",
            Warning,
        ),
        (
            "rtw89_8852be 0000:03:00.0: FW does not process h2c registers",
            "wifi-realtek-firmware-silent",
            Warning,
        ),
        (
            "ieee80211 phy0: brcmf_sdio_bus_rxctl: resumed on timeout",
            "wifi-brcmfmac-sdio-timeout",
            Warning,
        ),
        (
            "i40e 0000:18:00.0: Cannot add more MAC addresses, VF is not trusted, switch the VF to trusted",
            "intel-vf-admin-notice",
            Notice,
        ),
        (
            "i40e 0000:18:00.0 eth9: tx_timeout recovery level 1",
            "intel-tx-timeout-recovery",
            Critical,
        ),
        (
            "iavf 0000:00:06.0: Unable to get VF config due to PF error condition, not retrying",
            "iavf-pf-communication",
            Critical,
        ),
        (
            "hv_netvsc 6c96f725-6e4b-415a-9879-7621e9ec0651 (unnamed net_device) (uninitialized): unable to open channel: -19",
            "netvsc-channel-refused",
            Critical,
        ),
    ]);
}
