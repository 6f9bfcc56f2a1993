//! Countries and autonomous systems of addresses, from database files.

use anyhow::Context as _;
use maxminddb::{PathElement, Reader, path};
use sockeye_model::{Place, ShortText};
use std::net::IpAddr;
use std::path::PathBuf;

/// The databases (MMDB). What one does not have, the next one may.
#[derive(Default)]
pub(crate) struct Places(Vec<Database>);

type Database = Reader<Vec<u8>>;

impl Places {
    /// Reads the files.
    ///
    /// # Errors
    /// The first file that cannot be read, or is no such database.
    pub(crate) fn open(files: &[PathBuf]) -> anyhow::Result<Self> {
        let open = |file: &PathBuf| {
            let bytes = std::fs::read(file).with_context(|| format!("read {}", file.display()))?;
            Reader::from_source(bytes).with_context(|| format!("{} is no MMDB", file.display()))
        };
        files.iter().map(open).collect::<anyhow::Result<_>>().map(Self)
    }

    /// Whether there is none.
    pub(crate) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns where an address is; `None` if no database has it.
    pub(crate) fn of(&self, ip: IpAddr) -> Option<Place> {
        let mut place = Place {
            country: None,
            as_number: None,
        };
        for database in &self.0 {
            place.country = place.country.or_else(|| country(database, ip));
            place.as_number = place.as_number.or_else(|| as_number(database, ip));
        }
        (place.country.is_some() || place.as_number.is_some()).then_some(place)
    }

    /// Returns the place in full, for one line: with the name of the autonomous system.
    pub(crate) fn in_full(&self, ip: IpAddr) -> Option<String> {
        let place = self.of(ip)?.to_string();
        let names = [
            path!["autonomous_system_organization"],
            path!["as_name"],
            path!["organization"],
        ];
        let databases = self.0.iter();
        let found = databases
            .flat_map(|database| names.iter().map(move |name| text(database, ip, name)))
            .flatten()
            .next();
        Some(match found {
            Some(name) => format!("{place} ({})", sockeye_output::harmless(name.as_bytes())),
            None => place,
        })
    }
}

/// GeoIP2 and GeoLite2 have the country, or that where the address is registered, in an object; others in a field.
fn country(database: &Database, ip: IpAddr) -> Option<ShortText<2>> {
    let paths: [&[PathElement<'_>]; 4] = [
        &path!["country", "iso_code"],
        &path!["registered_country", "iso_code"],
        &path!["country_code"],
        &path!["country"],
    ];
    let code = paths.iter().find_map(|path| text(database, ip, path))?;
    let is_code = code.len() == 2 && code.bytes().all(|byte| byte.is_ascii_uppercase());
    is_code.then(|| ShortText::new(code.as_bytes()))
}

/// GeoLite2 has a number; others a text such as `AS3320`.
fn as_number(database: &Database, ip: IpAddr) -> Option<u32> {
    let record = database.lookup(ip.to_canonical()).ok()?;
    let number = record.decode_path(&path!["autonomous_system_number"]);
    number.ok().flatten().or_else(|| {
        let text = text(database, ip, &path!["asn"])?;
        text.strip_prefix("AS").unwrap_or(&text).parse().ok()
    })
}

/// Returns a text in the record of an address; `None` if there is none, or no text. A database of IPv4 answers no question about IPv6.
fn text(database: &Database, ip: IpAddr, path: &[PathElement<'_>]) -> Option<String> {
    database.lookup(ip.to_canonical()).ok()?.decode_path(path).ok()?
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAB: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../testdata/mmdb/lab.mmdb");

    #[test]
    fn address_in_the_database_has_a_place() {
        let places = Places::open(&[LAB.into()]).unwrap();
        let of = |ip: &str| places.of(ip.parse().unwrap()).map(|place| place.to_string());
        assert_eq!(of("10.77.3.4").as_deref(), Some("DE AS64512"));
        assert_eq!(of("::ffff:10.77.3.4").as_deref(), Some("DE AS64512"));
        let in_full = places.in_full([10, 77, 0, 1].into());
        assert_eq!(in_full.as_deref(), Some("DE AS64512 (Lab network)"));
        for other in ["10.78.0.1", "192.0.2.1", "2001:db8::1"] {
            assert_eq!(of(other), None, "{other}");
        }
    }

    #[test]
    fn what_is_no_database_is_refused_with_its_name() {
        let error = |file: &str| format!("{:#}", Places::open(&[LAB.into(), file.into()]).err().unwrap());
        assert!(error("/proc/version").starts_with("/proc/version is no MMDB"));
        assert!(error("/nonexistent").starts_with("read /nonexistent"));
    }

    #[test]
    fn damaged_database_never_panics() {
        let bytes = std::fs::read(LAB).unwrap();
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0xff;
            for bytes in [damaged, bytes[..at].to_vec()] {
                if let Ok(reader) = Reader::from_source(bytes) {
                    Places(vec![reader]).in_full([10, 77, 0, 1].into());
                }
            }
        }
    }
}
