//! Lines of programs as their logs show them, with the prefixes of syslog, `logread`, klog and their own.

use super::check_lines;
use sockeye_dictionary::Severity;

#[test]
fn lines_of_vpn_programs_are_known_in_each_form() {
    use Severity::{Critical, Notice, Warning};
    check_lines(&[
        (
            "Tue Apr 09 23:36:58 2019 TLS Error: TLS handshake failed",
            "openvpn-tls-handshake-failed",
            Warning,
        ),
        (
            "2024-05-01 12:00:00 us=123456 203.0.113.9:51234 TLS Error: TLS handshake failed",
            "openvpn-tls-handshake-failed",
            Warning,
        ),
        (
            "Tue Apr 09 23:35:58 2019 read UDP: Unknown error (code=10054)",
            "openvpn-udp-refused-or-lost",
            Warning,
        ),
        (
            "May 01 12:00:00 gw openvpn[812]: VERIFY ERROR: depth=0, error=certificate has expired: CN=client1",
            "openvpn-certificate-refused",
            Critical,
        ),
        (
            "Nov 21 16:11:31 gw charon[29833]: 00[DMN] initialization failed - aborting charon",
            "strongswan-start-failed",
            Critical,
        ),
        (
            "Jun 16 10:24:53 gw charon: 12[IKE] <net-net|3> failed to establish CHILD_SA, keeping IKE_SA",
            "strongswan-child-not-set-up",
            Warning,
        ),
        (
            "002 \"conn\" #1030: IKE SA authentication request rejected by peer: AUTHENTICATION_FAILED",
            "pluto-peer-refused",
            Warning,
        ),
        (
            "Mar 20 10:03:56 gw pluto[123920]: \"conn\"[3] ...192.0.2.51 #3: IKE_SA_INIT_I: retransmission; will wait 8 seconds for response",
            "pluto-no-answer",
            Warning,
        ),
        (
            "000 \"conn\" #1030: scheduling retry attempt 1 of an unlimited number, but releasing whack",
            "pluto-no-answer",
            Notice,
        ),
        (
            "Tue Aug  6 00:06:27 2019 daemon.warn pppd[2391]: Timeout waiting for PADO packets",
            "pppoe-discovery-failed",
            Critical,
        ),
        (
            "Apr  6 18:57:26 gw pppd[6145]: LCP: timeout sending Config-Requests",
            "pppd-no-negotiation",
            Warning,
        ),
    ]);
}

#[test]
fn lines_of_storage_and_firewall_programs_are_known() {
    use Severity::{Critical, Notice, Warning};
    check_lines(&[
        (
            "Mon Jul 26 20:06:39 2021 daemon.notice procd: /etc/rc.d/S99nfsd: rpc.nfsd: writing fd to kernel failed: errno 111 (Connection refused)",
            "nfs-server-program-cannot-start",
            Critical,
        ),
        (
            "exportfs: No options for /mnt : suggest (sync) to avoid warning",
            "nfs-exports-wrong",
            Notice,
        ),
        (
            "19/06/2023 15:46:16 : epoch 03c5d313 : host : ganesha.nfsd-1[main] rados_kv_traverse :CLIENT ID :EVENT :Failed to lst kv ret=-2",
            "ganesha-trouble",
            Warning,
        ),
        (
            "Jan 03 03:57:34 host iscsid[40456]: iscsid: can't bind conn 3:0 to session 3, retcode -107 (115)",
            "iscsid-session-trouble",
            Warning,
        ),
        (
            "iptables v1.8.2 (nf_tables):  TABLE_ADD failed (Invalid argument): table filter",
            "iptables-refused-by-kernel",
            Critical,
        ),
        (
            "/etc/nftables.conf:2:1-14: Error: Could not process rule: Operation not supported",
            "nft-refused",
            Critical,
        ),
        (
            "time=\"2024-05-01T12:00:00Z\" level=fatal msg=\"conn.Receive: netlink receive: operation not supported\"",
            "nft-refused",
            Critical,
        ),
        (
            "Feb 12 10:02:06 node1 kubelet[148526]: W0212 10:02:06.262549  148526 cni.go:171] Unable to update cni config: No networks \
             found in /etc/cni/net.d",
            "cni-setup-failed",
            Critical,
        ),
        (
            "Feb 19 16:49:58 host haproxy[33386]: [WARNING] 049/164958 (33386) : parsing [/etc/haproxy/haproxy.cfg:45] : a 'redirect' rule \
             placed after a 'use_backend' rule will still be processed before.",
            "haproxy-configuration-warning",
            Notice,
        ),
        (
            "[WARNING]  (2410509) : config : missing timeouts for backend 'web'.",
            "haproxy-configuration-warning",
            Notice,
        ),
        (
            "2019-09-23T03:14:48.824Z|00035|dpif_netlink(handler2)|ERR|failed to offload flow: Operation not supported: 621b9db0ed0b6aa",
            "ovs-daemon-trouble",
            Warning,
        ),
    ]);
}

/// Regression: these had the entry of another cause.
#[test]
fn reason_of_a_line_decides_its_entry() {
    use Severity::{Info, Notice, Warning};
    check_lines(&[
        (
            "NetworkManager[503]: <info>  [1727501934.8837] device (wlan0): state change: disconnected -> unavailable (reason \
             'supplicant-failed', sys-iface-state: 'managed')",
            "networkmanager-supplicant-failed",
            Warning,
        ),
        (
            "Using degraded feature set UDP+EDNS0 instead of TLS+EDNS0 for DNS server 2001:db8::53.",
            "resolved-gives-up-tls",
            Notice,
        ),
        (
            "Using degraded feature set UDP instead of UDP+EDNS0 for DNS server 192.0.2.53.",
            "resolved-degraded-feature-set",
            Notice,
        ),
        (
            "Mon Jun 12 14:16:12 2017 daemon.err hostapd: hostapd_free_hapd_data: Interface wlan0 wasn't started",
            "hostapd-interface-ends",
            Info,
        ),
        (
            "ModemManager[989]: <warn>  [base-manager] couldn't create modem for device '/sys/devices/pci0000:00/0000:00:16.3': Failed to \
             find primary AT port",
            "modem-port-is-no-modem",
            Info,
        ),
        (
            "19:44:36 NetworkManager[1650]: <info> (wlan0): device state change: 8 -> 9 (reason 5)",
            "networkmanager-old-device-state",
            Notice,
        ),
        (
            "Feb 02 10:34:17 ModemManager[2761]: <wrn> [modem0] couldn't enable interface: 'Invalid transition'",
            "modem-lost-its-port",
            Warning,
        ),
    ]);
}
