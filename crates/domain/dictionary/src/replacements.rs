//! Values of a message in the commands of its entry: `ethtool IFACE` becomes `ethtool eth0`.

use crate::Placeholder;
use std::borrow::Cow;

/// Values that replace `IFACE`, `PORT`, `ADDRESS` in commands, where the messages have only one.
#[derive(Debug, Default)]
pub struct Replacements<'a>(Vec<(&'static str, &'a str)>);

impl<'a> Replacements<'a> {
    /// Returns the replacements for the values of a message; none for a place with several values, or with one that is not safe
    /// without quotes.
    pub fn of(values: impl Iterator<Item = (Placeholder, &'a str)>) -> Self {
        let mut replacements: Vec<(&'static str, &'a str)> = Vec::new();
        let mut several = Vec::new();
        for (place, value) in values {
            let word = match place {
                Placeholder::Interface => "IFACE",
                Placeholder::Port => "PORT",
                Placeholder::Address => "ADDRESS",
                _ => continue,
            };
            match replacements.iter().find(|(known, _)| *known == word) {
                Some((_, known)) if *known != value => several.push(word),
                Some(_) => {}
                None if is_plain(value, len_max(place)) => replacements.push((word, value)),
                None => several.push(word),
            }
        }
        replacements.retain(|(word, _)| !several.contains(word));
        Self(replacements)
    }

    /// Also replaces the address of a device on its bus.
    #[must_use]
    pub fn and_device(mut self, device: Option<&'a str>) -> Self {
        if let Some(device) = device.filter(|device| is_plain(device, DEVICE_LEN_MAX)) {
            self.0.extend([("BUSID", device), ("BUS-ID", device)]);
            self.0.extend(usb_port(device).map(|port| ("BUS-PORT", port)));
        }
        self
    }

    /// Also replaces names that the words of a line have: the file of one about firmware (`Direct firmware load for NAME failed`),
    /// and the radio (`phy0`) for `PHY`.
    #[must_use]
    pub fn and_names(mut self, line: &'a str) -> Self {
        let file = line
            .split_once("irmware load for ")
            .and_then(|(_, rest)| rest.split(' ').next())
            .filter(|file| is_file(file));
        self.0.extend(file.map(|file| ("NAME", file)));
        let mut words = line.split([' ', ':', '(', ')']);
        self.0
            .extend(words.find(|word| is_radio(word)).map(|radio| ("PHY", radio)));
        self
    }

    /// Returns the text with these words replaced.
    #[must_use]
    pub fn fill<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let mut text = Cow::Borrowed(text);
        for (word, value) in &self.0 {
            if text.contains(word) {
                text = Cow::Owned(replace_word(&text, word, value));
            }
        }
        text
    }
}

/// The USB device of an address: `4-2.3` of `4-2.3:1.0`.
fn usb_port(device: &str) -> Option<&str> {
    let (bus, port) = device.split_once('-')?;
    let port = port.split_once(':').map_or(port, |(port, _)| port);
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    (is_number(bus) && port.split('.').all(is_number)).then(|| &device[..bus.len() + 1 + port.len()])
}

/// Whether a word is the name of a radio: `phy0`.
fn is_radio(word: &str) -> bool {
    let number = word.strip_prefix("phy").unwrap_or_default();
    (1..=4).contains(&number.len()) && number.bytes().all(|byte| byte.is_ascii_digit())
}

/// Returns whether a value from outside is safe in a command without quotes.
fn is_plain(value: &str, len_max: usize) -> bool {
    !value.starts_with('-')
        && value.len() <= len_max
        && value
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"._@:-".contains(&byte))
}

/// Returns whether it is the name of a file, with folders, that is safe in a command without quotes.
fn is_file(value: &str) -> bool {
    value.len() <= FILE_LEN_MAX
        && !value.contains("..")
        && value.split('/').all(|part| is_plain(part, FILE_LEN_MAX))
}

fn len_max(place: Placeholder) -> usize {
    match place {
        Placeholder::Address => ADDRESS_LEN_MAX,
        _ => NAME_LEN_MAX,
    }
}

/// Limit for names of interfaces (`IFNAMSIZ`); ports are shorter.
const NAME_LEN_MAX: usize = 15;
/// Limit for addresses of devices; those of the device tree are the longest.
const DEVICE_LEN_MAX: usize = 40;
/// Limit for addresses: IPv6 is the longest.
const ADDRESS_LEN_MAX: usize = 45;
/// Limit for names of firmware.
const FILE_LEN_MAX: usize = 120;

fn replace_word(text: &str, word: &str, value: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(word) {
        let (before, after) = (&rest[..at], &rest[at + word.len()..]);
        let is_in_word =
            |character: Option<char>| character.is_some_and(|c| c.is_ascii_alphanumeric() || c == '_');
        let is_word = !is_in_word(before.chars().next_back()) && !is_in_word(after.chars().next());
        out.push_str(before);
        out.push_str(if is_word { value } else { word });
        rest = after;
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_have_single_safe_values_of_message() {
        let values = [
            (Placeholder::Interface, "eth0"),
            (Placeholder::Port, "80"),
            (Placeholder::Port, "80"),
        ];
        let replacements = Replacements::of(values.into_iter());
        assert_eq!(
            replacements.fill("`ethtool IFACE`, PORTS, :PORT"),
            "`ethtool eth0`, PORTS, :80"
        );
        let several = [(Placeholder::Interface, "eth0"), (Placeholder::Interface, "eth1")];
        assert_eq!(
            Replacements::of(several.into_iter()).fill("`ethtool IFACE`"),
            "`ethtool IFACE`"
        );
        assert_eq!(
            Replacements::of(values.into_iter())
                .and_device(Some("0000:00:1f.6"))
                .fill("`lspci -s BUSID`, `ethtool IFACE`"),
            "`lspci -s 0000:00:1f.6`, `ethtool eth0`"
        );
        assert_eq!(
            Replacements::default().and_device(Some("$(x)")).fill("BUSID"),
            "BUSID"
        );
        for (device, port) in [
            ("4-2.3", "4-2.3"),
            ("1-1:1.0", "1-1"),
            ("0000:00:1f.6", "BUS-PORT"),
        ] {
            let replacements = Replacements::default().and_device(Some(device));
            assert_eq!(replacements.fill("BUS-PORT"), port, "{device}");
        }
        let line = "ieee80211 phy3: Hardware restart was requested";
        assert_eq!(
            Replacements::default()
                .and_names(line)
                .fill("`iw phy PHY info`, PHYs"),
            "`iw phy phy3 info`, PHYs"
        );
        let address = [(Placeholder::Address, "52:54:00:12:34:56")];
        assert_eq!(
            Replacements::of(address.into_iter()).fill("`bridge fdb show | grep -i ADDRESS`"),
            "`bridge fdb show | grep -i 52:54:00:12:34:56`"
        );
        let of_line = |line| {
            Replacements::default()
                .and_names(line)
                .fill("`ls /lib/firmware/NAME*`")
        };
        assert_eq!(
            of_line("frob 1-1: Direct firmware load for brcm/x-1.bin failed with error -2"),
            "`ls /lib/firmware/brcm/x-1.bin*`"
        );
        for line in [
            "Direct firmware load for ../x failed",
            "firmware load for $(x) failed",
            "x",
        ] {
            assert_eq!(of_line(line), "`ls /lib/firmware/NAME*`");
        }
        let hostile = [(Placeholder::Interface, "x;reboot")];
        assert_eq!(
            Replacements::of(hostile.into_iter()).fill("`ethtool IFACE`"),
            "`ethtool IFACE`"
        );
    }
}
