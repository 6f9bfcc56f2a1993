//! A generated kernel log: mostly unrelated lines, some about the network.

use std::io::{self, Write};

/// Writes this many lines, the same each time.
pub fn write(lines: usize, out: &mut impl Write) -> io::Result<()> {
    for nth in 0..lines {
        let (second, part) = (nth / 40, nth % 40 * 25_000);
        write!(out, "[{second:>8}.{part:06}] ")?;
        match nth % 10 {
            0 => writeln!(
                out,
                "audit: type=1400 audit(1700000000.{:03}:{nth}): apparmor=\"ALLOWED\" operation=\"open\" name=\"/etc/hosts\" pid={}",
                nth % 1000,
                nth % 32_768
            ),
            1 => writeln!(
                out,
                "TCP: request_sock_TCP: Possible SYN flooding on port {}. Sending cookies.",
                nth % 60_000
            ),
            2 => writeln!(out, "e1000e 0000:00:1f.6 eth{}: NIC Link is Down", nth % 7),
            3 => writeln!(
                out,
                "e1000e 0000:00:1f.6 eth{}: NIC Link is Up 1000 Mbps Full Duplex, Flow Control: Rx/Tx",
                nth % 7
            ),
            4 => writeln!(
                out,
                "IPv4: martian source 10.0.{}.{} from 192.0.2.1, on dev eth0",
                nth % 200,
                nth % 250
            ),
            5 => writeln!(
                out,
                "usb 1-{}: new high-speed USB device number {} using xhci_hcd",
                nth % 8,
                nth % 128
            ),
            6 => writeln!(
                out,
                "docker0: port {}(veth{:07x}) entered forwarding state",
                nth % 30,
                nth
            ),
            7 => writeln!(
                out,
                "EXT4-fs (sda{}): mounted filesystem with ordered data mode. Quota mode: none.",
                nth % 9
            ),
            8 => writeln!(out, "nf_conntrack: nf_conntrack: table full, dropping packet"),
            _ => writeln!(
                out,
                "systemd[1]: Started session-{nth}.scope - Session {nth} of User root."
            ),
        }?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requested_number_of_lines_is_written() {
        let mut log = Vec::new();
        write(1_000, &mut log).expect("writing to memory");
        assert_eq!(log.iter().filter(|byte| **byte == b'\n').count(), 1_000);
    }
}
