//! Lines of public trouble reports that only the general entry of a driver's family explained, or none: each has one of its own.

use super::check_lines;
use sockeye_dictionary::{Dictionary, Severity};

/// Checks the entry of each line, and its severity there: one of its own, not that of a family.
#[track_caller]
fn check(lines: &[(&str, &str, Severity)]) {
    check_lines(lines);
    for (line, name, _) in lines {
        let found = Dictionary::new().find(name);
        assert!(
            found
                .entries
                .iter()
                .any(|entry| entry.name == *name && !entry.is_family()),
            "{line}"
        );
    }
}

#[test]
fn lines_of_reports_have_an_entry_of_their_own() {
    use Severity::{Critical, Notice, Warning};
    check(&[
        (
            "i40e 0000:01:00.0: unidentified MAC or BLANK NVM: -11",
            "intel-nvm-unreadable",
            Critical,
        ),
        (
            "dwmac-sun8i 5020000.ethernet: Current syscon value is not the default 50846 (expect 50000)",
            "stmmac-settings-odd",
            Notice,
        ),
        (
            "ipheth 1-1.1:4.2: ipheth_tx: usb_submit_urb: -16",
            "ipheth-transmit-failed",
            Warning,
        ),
        (
            "hub 1-1:1.0: cannot disable port 2 (err = -110)",
            "usb-port-does-not-obey",
            Warning,
        ),
        (
            "mcp251xfd spi0.1 can0: Single ECC Error detected at address 0x0000.",
            "mcp251xfd-ecc-error",
            Warning,
        ),
        (
            "mcp251xfd spi0.1 can0: CRC write command format error.",
            "mcp251xfd-spi-trouble",
            Warning,
        ),
        (
            "mcp25xxfd spi0.0: CRC read of clock register resulted in a bad CRC mismatch - hw not found",
            "mcp251xfd-spi-trouble",
            Warning,
        ),
        (
            "ath10k_pci 0000:02:00.0: Cannot communicate with firmware, attempting to fake crash and restart firmware.",
            "ath10k-firmware-silent",
            Warning,
        ),
        (
            "e1000e 0000:00:00.0: Xen PCI frontend error: -22!",
            "intel-interrupts-fallback",
            Notice,
        ),
        (
            "eth1: bogus packet size: 65280, status=0x0 nxpg=0x0",
            "ne2000-receive-ring-broken",
            Warning,
        ),
        (
            "vxlan: IPv6 is disabled via sysctl",
            "vxlan-ipv6-disabled",
            Warning,
        ),
        (
            "wilc_sdio mmc1:0001:1: failed to get Reset GPIO, try default",
            "wilc1000-no-reset-line",
            Notice,
        ),
        (
            "i40e 0000:3b:00.0: PF reset failed, -15",
            "intel-server-nic-reset-failed",
            Critical,
        ),
        (
            "mt7921e 0000:02:00.0: Message 00020007 (seq 5) timeout",
            "mt76-command-timeout",
            Warning,
        ),
        (
            "mt7921e 0000:02:00.0: chip reset failed",
            "mt76-chip-reset-failed",
            Critical,
        ),
        (
            "iwlwifi 0000:03:00.0: Failed to run INIT ucode: -5",
            "iwlwifi-start-fails",
            Critical,
        ),
        (
            "rtw_8822bu 2-1.4:1.0: failed to get tx report from firmware",
            "rtw88-tx-report-missing",
            Notice,
        ),
        (
            "ieee80211 phy0: rt2800usb_tx_sta_fifo_read_completed: Warning - TX status read failed -71",
            "rt2x00-usb-request-failed",
            Warning,
        ),
        (
            "ath11k c000000.wifi: failed to update reo for rx tid 0: -108",
            "ath11k-peer-not-added",
            Warning,
        ),
        (
            "rtw89_8852ae 0000:05:00.0: [ERR]fw PC = 0xb898feaf",
            "rtw89-firmware-stuck",
            Warning,
        ),
        (
            "rtw_8812au 2-1:1.0: failed to get urb length:32768",
            "rtw-usb-transfer-failed",
            Warning,
        ),
        (
            "batman_adv: Unable to register the batman interface '': -22",
            "batman-register-failed",
            Warning,
        ),
        ("hub 1-1:1.0: 200mA over power budget!", "usb-hub-power", Warning),
        (
            "ice 0000:8a:00.1: PF failed to honor VF 0, opcode 53, error -22",
            "ice-vf-request-refused",
            Warning,
        ),
        (
            "iavf 0000:ec:01.1: PF returned error -64 (IAVF_NOT_SUPPORTED) to our request 51",
            "iavf-pf-refused",
            Warning,
        ),
        (
            "ice 0000:83:00.1: Cannot set RSS lut, err -5 aq_err ICE_AQ_RC_EACCES",
            "ice-rss-table-not-set",
            Warning,
        ),
        (
            "bnxt_en 0000:3b:00.0 eno1: RX cons 5a != expected cons 59",
            "bnxt-ring-out-of-order",
            Warning,
        ),
        (
            "mlx5_core 0000:04:00.0: mlx5_reclaim_root_pages:727:(pid 1): FW did not return all pages. giving up...",
            "mlx5-pages-not-returned",
            Warning,
        ),
        (
            "mcp251x spi0.0: Cannot initialize MCP2515. Wrong wiring?",
            "can-mcp251x-no-answer",
            Critical,
        ),
        (
            "enic 0000:0a:00.0 eth0: interface MTU (9000) set higher than switch port MTU (1500)",
            "enic-mtu-larger-than-switch",
            Warning,
        ),
        (
            "mdio_bus 30be0000.ethernet-1: MDIO device at address 4 is missing.",
            "mdio-device-missing",
            Critical,
        ),
    ]);
}

#[test]
fn lines_about_wifi_and_modems_have_an_entry_of_their_own() {
    use Severity::{Critical, Info, Notice, Warning};
    check(&[
        (
            "Mon May 26 19:15:39 2025 daemon.warn [3263]: <wrn> [modem1] modem couldn't be initialized: Failed to load current capabilities",
            "modem-not-initialized",
            Warning,
        ),
        (
            "jun 06 05:58:09 mobian ModemManager[519]: <warn>  [ttyUSB0/probe] failed to parse QCDM version info command result: -7",
            "modem-port-probing",
            Info,
        ),
        (
            "ModemManager[33505]: <wrn> [1767016030.416679] [modem0] registration in network failed: Network timeout",
            "modem-registration-failed",
            Warning,
        ),
        (
            "Dec 25 09:05:47 pc NetworkManager[472]: <warn>  [1608879947.0957] device (wlan0): Activation: (wifi) association took too long, failing activation",
            "networkmanager-wifi-failed",
            Warning,
        ),
        (
            "Jul 20 00:19:52 pc wpa_supplicant[1485]: wlan0: CTRL-EVENT-SCAN-FAILED ret=-16",
            "wpa-supplicant-scan-failed",
            Notice,
        ),
        (
            "[   10.564106] [dhd-sdio] CFG80211-ERROR) wl_cfg80211_event : Event handler is not created (WLC_E_ALLOW_CREDIT_BORROW)",
            "bcmdhd-start-notes",
            Info,
        ),
        (
            "[   13.811344] [dhd] [wlan0] CFG80211-ERROR) wl_cfg80211_macaddr_sync_reqd : no macthing if type",
            "bcmdhd-start-notes",
            Info,
        ),
        (
            "[93472.389759] [01:33:53.914383][cfg80211][wlan] _wl_cfgscan_cancel_scan : No scan in progress",
            "bcmdhd-shutting-down",
            Info,
        ),
        (
            "mhi-pci-generic 0000:03:00.0: failed to power up MHI controller",
            "mhi-modem-power-up-failed",
            Critical,
        ),
        (
            "mtk_t7xx 0000:01:00.0: MD handshake timeout",
            "t7xx-modem-handshake-failed",
            Critical,
        ),
        (
            "ath11k_pci 0000:01:00.0: failed to stop wmi scan: -11",
            "ath-command-not-taken",
            Warning,
        ),
        (
            "ath11k c000000.wifi: qmi failed to respond fw mem req: -110",
            "ath-calibration-timed-out",
            Critical,
        ),
        (
            "ieee80211 phy0: brcmf_p2p_send_action_frame: Unknown Frame: category 0x5, action 0x4",
            "brcmfmac-action-frame-failed",
            Notice,
        ),
        (
            "rtw89_8852be 0000:09:00.0: Unknown firmware header version 10",
            "rtw89-firmware-not-recognized",
            Critical,
        ),
        (
            "rtw_8822bu 6-4.3:1.0: failed to do USB write, ret=-2",
            "rtw88-usb-request-failed",
            Warning,
        ),
        (
            "ath12k_pci 0001:11:00.0: failed to fetch board.bin from QCN9274/hw2.0",
            "ath-board-data-missing",
            Critical,
        ),
        (
            "iwlwifi 0000:00:14.3: Failed to send LINK_CONFIG_CMD (action:3): -5",
            "iwlwifi-step-of-connection-failed",
            Warning,
        ),
        (
            "daemon.err hostapd: Line 51: invalid key_mgmt 'SAE'",
            "hostapd-configuration-refused",
            Critical,
        ),
        (
            "Fri Aug 16 19:44:01 2024 daemon.notice pppd[26720]: Modem hangup",
            "pppd-hangup",
            Warning,
        ),
        (
            "wlcore: ERROR SW watchdog interrupt received! starting recovery.",
            "wlcore-firmware-recovery",
            Warning,
        ),
    ]);
}

#[test]
fn lines_of_programs_have_an_entry() {
    use Severity::{Critical, Notice, Warning};
    check(&[
        (
            "Sep 28 09:12:12 k8s-sh-03 haproxy[3065]: [WARNING] 271/091212 (3065) : Server web/10.10.10.168 is DOWN, reason: Layer4 \
             connection problem, info: \"Connection refused\", check duration: 0ms.",
            "haproxy-server-down",
            Critical,
        ),
        (
            "May 01 12:00:00 node1 kubelet[812]: E0501 12:00:00.000000 812 controller.go:144] \"Failed to ensure lease exists\" \
             err=\"Get \\\"https://10.96.0.1:443/apis\\\": dial tcp 10.96.0.1:443: connect: connection refused\"",
            "go-connection-refused",
            Warning,
        ),
        (
            "Apr 14 08:29:32 minikube kubelet[3690]: E0414 08:29:32.281121 3690 x.go:801] failed: dial udp [2001:4860:4860::8888]:53: connect: \
             cannot assign requested address",
            "go-no-source-address",
            Warning,
        ),
        (
            "May 01 12:00:00 web1 app[812]: Caused by: java.net.ConnectException: Connection refused (Connection refused)",
            "java-connect-failed",
            Warning,
        ),
        (
            "May 01 12:00:00 web1 app[812]: socket.gaierror: [Errno -3] Temporary failure in name resolution",
            "python-name-not-resolved",
            Warning,
        ),
        (
            "May 01 12:00:00 web1 node[812]: Error: connect ECONNREFUSED 127.0.0.1:5432",
            "node-connect-failed",
            Warning,
        ),
        (
            "May 01 12:00:00 db1 postgres[812]: FATAL: sorry, too many clients already",
            "postgres-connection-refused-or-full",
            Critical,
        ),
        (
            "May 01 12:00:00 gw openvpn[812]: 203.0.113.9:51234 TLS Error: TLS handshake failed",
            "openvpn-tls-handshake-failed",
            Warning,
        ),
        (
            "May 01 12:00:00 gw charon[812]: 05[IKE] giving up after 5 retransmits",
            "strongswan-no-answer",
            Warning,
        ),
        (
            "May 01 12:00:00 gw dnsmasq[812]: Maximum number of concurrent DNS queries reached (max: 150)",
            "dnsmasq-trouble",
            Warning,
        ),
        (
            "May 01 12:00:00 ns1 named[812]: error (network unreachable) resolving './NS/IN': 2001:500:2f::f#53",
            "bind-trouble",
            Notice,
        ),
        (
            "2021-01-19T02:20:41.920Z|00089|bridge|WARN|could not add network device ovn-faced1-0 to ofproto (Address family not supported \
             by protocol)",
            "ovs-vswitchd-refused",
            Warning,
        ),
        (
            "Jan 19 02:20:41 node1 ovs-vswitchd[812]: ovs|00206|dpif(handler14)|WARN|system@ovs-system: failed to put[create] (Invalid \
             argument) ufid:d586ff25",
            "ovs-vswitchd-refused",
            Warning,
        ),
        (
            "May 01 12:00:00 web1 ifup[812]: RTNETLINK answers: File exists",
            "iproute2-refused",
            Notice,
        ),
        (
            "curl: (56) Recv failure: Connection reset by peer",
            "curl-failed",
            Warning,
        ),
        (
            "May 01 12:00:00 web1 systemd-networkd[319]: eth0: Could not set NDisc route or address: Invalid argument",
            "networkd-configuration-failed",
            Warning,
        ),
    ]);
}
