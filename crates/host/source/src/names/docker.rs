//! Names of Docker containers, for labels of namespaces (`netns_name.rs`) and of containers (`container_names.rs`), and for finding the cgroup of a
//! container (`cgroups.rs`). The files are untrusted: length and characters of a name are checked.

use std::fs::File;
use std::io::Read;
use std::path::PathBuf;

/// Docker's files about its containers, which have the names without a query to the daemon.
#[derive(Debug)]
pub(super) struct Docker {
    containers: PathBuf,
}

impl Docker {
    /// Opens them; `None` if Docker is not used here or keeps its data in another place than the default.
    pub(super) fn here() -> Option<Self> {
        Self::at(PathBuf::from("/var/lib/docker/containers"))
    }

    /// Opens those in a folder; `None` if there is none.
    pub(super) fn at(containers: PathBuf) -> Option<Self> {
        containers.is_dir().then_some(Self { containers })
    }

    /// Returns the name of the container with this id; `None` if unknown, or without the right to read it (root's).
    pub(super) fn name(&self, id: &[u8]) -> Option<String> {
        let folder = self.containers.join(std::str::from_utf8(id).ok()?);
        let file = File::open(folder.join("config.v2.json")).ok()?;
        let mut json = Vec::new();
        file.take(LEN_MAX).read_to_end(&mut json).ok()?;
        container_name(&json)
    }
}

/// Returns the name in the text of `config.v2.json`; `None` if there is none, or it is not one that the daemon allows.
pub(super) fn container_name(json: &[u8]) -> Option<String> {
    let name = top_level_text(json, b"Name")?;
    let name = name.strip_prefix(b"/").unwrap_or(name);
    // The characters that the daemon allows (moby's `names.RestrictedNameChars`). JSON escapes none of them.
    let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || b"_.-".contains(byte);
    let is_good = (1..=NAME_LEN_MAX).contains(&name.len()) && name.iter().all(is_name);
    is_good.then(|| String::from_utf8_lossy(name).into_owned())
}

/// The longest name that is shown, in bytes: the daemon has no limit, but a host name, which it usually becomes, has one.
pub(super) const NAME_LEN_MAX: usize = 255;
/// The file usually has some 5 KiB; labels and environment can make it longer.
const LEN_MAX: u64 = 1024 * 1024;

/// Returns the string with this key of the top-level object in `json`, undecoded; `None` if there is none. Nested
/// objects, which may have the same key, are skipped.
fn top_level_text<'a>(json: &'a [u8], key: &[u8]) -> Option<&'a [u8]> {
    let (mut depth, mut at) = (0_usize, 0);
    let mut last_text: Option<&[u8]> = None;
    let mut is_after_key = false;
    while let Some(byte) = json.get(at) {
        at += 1;
        match byte {
            b'"' => {
                let start = at;
                loop {
                    match json.get(at)? {
                        b'"' => break,
                        b'\\' => at += 2,
                        _ => at += 1,
                    }
                }
                let text = json.get(start..at)?;
                at += 1;
                if is_after_key {
                    return Some(text);
                }
                last_text = Some(text);
            }
            b'{' | b'[' => {
                depth += 1;
                is_after_key = false;
            }
            b'}' | b']' => depth = depth.checked_sub(1)?,
            b':' => is_after_key = depth == 1 && last_text == Some(key),
            b',' => is_after_key = false,
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(json: &str, expected: Option<&str>) {
        let found = top_level_text(json.as_bytes(), b"Name");
        assert_eq!(found, expected.map(str::as_bytes), "{json}");
    }

    #[test]
    fn nested_names_are_skipped() {
        check(
            r#"{"State":{"Name":"no"},"MountPoints":[{"Name":"vol"}],"Name":"/web1","X":1}"#,
            Some("/web1"),
        );
        check(r#"{ "Name" : "/web" }"#, Some("/web"));
        check(r#"{"A":"Name","B":"x"}"#, None);
        check(r#"{"A":"\"Name\":\"x\\","Name":"y"}"#, Some("y"));
        check(r#"{"Name":null,"B":"x"}"#, None);
        check(r#"{"Name":{"A":"x"}}"#, None);
        check(r#"{"Name":["x"]}"#, None);
        for broken in [
            "",
            "}",
            "{",
            "]]",
            "{\"Name\":\"",
            "{\"Name\":\"\\",
            "\"Name\":\"x\"",
            "{\"Name",
        ] {
            check(broken, None);
        }
    }

    #[test]
    fn name_longer_than_any_host_name_is_none() {
        let named = |len: usize| container_name(format!(r#"{{"Name":"/{}"}}"#, "a".repeat(len)).as_bytes());
        assert_eq!(named(NAME_LEN_MAX).map(|name| name.len()), Some(NAME_LEN_MAX));
        assert_eq!(named(NAME_LEN_MAX + 1), None);
        assert_eq!(named(500_000), None);
    }

    #[test]
    fn invalid_or_missing_names_are_none() {
        let containers = std::env::temp_dir().join(format!("sockeye-docker-{}", std::process::id()));
        let write = |id: &str, json: &str| {
            let folder = containers.join(id);
            std::fs::create_dir_all(&folder)?;
            std::fs::write(folder.join("config.v2.json"), json)
        };
        let cases = [
            ("good", r#"{"Name":"/web_1.a-b"}"#, Some("web_1.a-b")),
            ("odd", r#"{"Name":"/a\u001b[31m"}"#, None),
            ("empty", r#"{"Name":"/"}"#, None),
            ("none", "", None),
        ];
        let written = cases.map(|(id, json, _)| write(id, json));
        let docker = Docker {
            containers: containers.clone(),
        };
        let found = cases.map(|(id, ..)| docker.name(id.as_bytes()));
        let missing = [&b"nosuch"[..], b"\xff"].map(|id| docker.name(id));
        std::fs::remove_dir_all(&containers).unwrap();
        assert!(written.iter().all(Result::is_ok), "{written:?}");
        assert_eq!(
            found.each_ref().map(Option::as_deref),
            cases.map(|(.., name)| name)
        );
        assert_eq!(missing, [None, None]);
    }
}
