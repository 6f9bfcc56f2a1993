//! Lines of reports that were read against the kernel's sources: the entry that is true for each, how bad it is, and the name of the
//! driver that really prints it.

use super::check_lines;
use sockeye_dictionary::Severity;

#[test]
fn lines_have_the_meaning_of_their_source() {
    use Severity::{Critical, Info, Notice, Warning};
    check_lines(&[
        (
            "ath10k_pci 0000:01:00.0: No VIF found for vdev 0",
            "ath-event-for-unknown-interface",
            Notice,
        ),
        (
            "igb 0000:41:00.0: device [8086:1516] error status/mask=00100000",
            "pcie-aer-details",
            Notice,
        ),
        (
            "mv88e6085 5b040000.ethernet-1:1d: p0: phylink_mac_link_state() failed: -95",
            "dsa-port-link-state-not-read",
            Warning,
        ),
        (
            "ath10k_pci 0000:01:00.0: Unknown FW IE: 30",
            "ath-firmware-file-newer",
            Info,
        ),
        (
            "BUG: workqueue leaked lock or atomic: kworker/0:1/0x00000000/353",
            "kernel-job-kept-lock",
            Critical,
        ),
        (
            "brcmfmac: CONSOLE: 000929.711 wl0.0: wlc_send_bar: seq 0x8eb tid 0",
            "brcmfmac-firmware-console",
            Info,
        ),
        (
            "rtw89_8852be 0000:02:00.0: R_AX_HALT_C2H = 0x1001",
            "rtw89-firmware-state-dump",
            Notice,
        ),
        (
            "Bluetooth: hci0 urb ffff8953ec764b40 failed to resubmit (113)",
            "bluetooth-usb-transfer-not-started",
            Warning,
        ),
        (
            "mwifiex_pcie 0000:01:00.0: scan failed: -14",
            "mwifiex-scan-not-started",
            Warning,
        ),
        (
            "pcieport 0000:00:1c.7: broken device, retraining non-functional downstream link at 2.5GT/s",
            "pcie-link-retrained-slowly",
            Notice,
        ),
        (
            "b43-phy0 warning: 5 GHz band is unsupported on this PHY",
            "b43-no-5-ghz",
            Info,
        ),
        (
            "mv88e6085 f1072004.mdio-bus-mii:10: phylink: error: empty supported_interfaces",
            "phylink-driver-names-no-modes",
            Critical,
        ),
        ("Failed to disable zero-copy!", "xsk-zero-copy-not-ended", Warning),
        (
            "xhci_hcd 0000:3b:00.0: Host not accessible, reset failed.",
            "usb-controller-dead",
            Critical,
        ),
        (
            "ath10k_pci 0000:01:00.0: Firmware lacks feature flag indicating a retry limit of > 2 is OK, requested limit: 4",
            "ath10k-firmware-note",
            Info,
        ),
        (
            "AMD-Vi: Event logged [IO_PAGE_FAULT domain=0x001a address=0xfffc8000 flags=0x0050]",
            "amd-vi-io-page-fault",
            Critical,
        ),
        (
            "i40e 0000:b7:00.2: setup of MAIN VSI failed",
            "i40e-main-vsi-not-set-up",
            Critical,
        ),
        (
            "tg3 0000:01:00.0: DMA engine test failed, aborting",
            "tg3-dma-test-failed",
            Critical,
        ),
        (
            "ena 0000:00:03.0: Can not reserve msix vectors",
            "ena-interrupts-not-available",
            Critical,
        ),
    ]);
}

#[test]
fn messages_begin_with_the_driver_that_prints_them() {
    use Severity::{Critical, Notice, Warning};
    check_lines(&[
        (
            "sky2 0000:02:00.0: cannot assign irq 16",
            "sky2-skge-start-failed",
            Critical,
        ),
        (
            "mvneta f1070000.ethernet eth0: cannot probe MDIO bus",
            "marvell-mac-setup-failed",
            Critical,
        ),
        (
            "rk_gmac-dwmac fe1c0000.ethernet eth0: MAC_VLAN_Tag_Filter full (size: 4)",
            "stmmac-function-refused",
            Notice,
        ),
        (
            "am65-cpsw-nuss 8000000.ethernet: couldn't enable rx chn: -16",
            "ti-cpsw-setup-failed",
            Critical,
        ),
        (
            "fsl_dpaa2_switch dpsw.0: DPSW device has no interfaces",
            "dpaa2-setup-failed",
            Critical,
        ),
        (
            "mlxsw_spectrum3 0000:03:00.0: FIB replace failed.",
            "mlxsw-route-not-offloaded",
            Critical,
        ),
        (
            "mlx5_core 0000:03:00.0: mlxfw: Firmware flash failed: Reactivate FSM: prohibited fw ver, err (3)",
            "mlxfw-activation-refused",
            Critical,
        ),
        (
            "Marvell-CGX-RPM 0002:0c:00.1: cgx port 0:0 Link error 3",
            "octeontx2-packet-or-link-error",
            Warning,
        ),
        (
            "Aquantia AQR107 mdio-bus:01: firmware loading failed: -2",
            "phy-firmware-failed",
            Critical,
        ),
        (
            "MediaTek MT7981 PHY mdio-bus:00: TX-VCM SW cal result at low margin 0x1",
            "phy-calibration-failed",
            Warning,
        ),
        (
            "bgmac-enet 18024000.ethernet: Cannot connect to phy",
            "broadcom-soc-mac-setup",
            Critical,
        ),
        (
            "RDS/IB: rdma_connect_locked failed (-22)",
            "rds-connection-restarted",
            Warning,
        ),
        (
            "ftgmac100 1e660000.ethernet eth0: Wrong NCSI state 0x100 in suspend",
            "ncsi-packet-ignored",
            Warning,
        ),
        (
            "bond0: invalid ARP target specified",
            "bond-option-invalid",
            Warning,
        ),
    ]);
}
