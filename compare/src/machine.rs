//! The measuring environment: processor, kernel, versions of the compared programs.

use std::path::Path;
use std::process::{Command, Stdio};

/// A machine; `None` for unknown values.
#[derive(Clone, Debug, Default)]
pub struct Machine {
    /// Number of processors that this process may use.
    pub cores: usize,
    /// Name of the processor.
    pub processor: Option<String>,
    /// Release of the kernel.
    pub kernel: Option<String>,
    /// Programs, and the first line of their version output.
    pub versions: Vec<(String, Option<String>)>,
}

impl Machine {
    /// Reads the values of this machine.
    pub fn this() -> Self {
        let processor = std::fs::read_to_string("/proc/cpuinfo")
            .ok()
            .and_then(|text| processor(&text));
        let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").ok();
        Self {
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            processor,
            kernel: kernel.map(|kernel| kernel.trim().to_owned()),
            versions: Vec::new(),
        }
    }

    /// Runs a program to get its version; `None` if it is not installed.
    pub fn ask_version(&mut self, name: &str, program: Option<&Path>, argument: &str) {
        let version =
            program.map(|program| version(program, argument).unwrap_or_else(|| "unknown version".to_owned()));
        self.versions.push((name.to_owned(), version));
    }

    /// The known values, for the report.
    pub fn lines(&self) -> Vec<String> {
        let unknown = || "unknown".to_owned();
        let versions = self
            .versions
            .iter()
            .map(|(name, version)| format!("{name}: {}", version.as_deref().unwrap_or("not installed")));
        let mut lines = vec![
            format!(
                "machine: {} cores, {}",
                self.cores,
                self.processor.clone().unwrap_or_else(unknown)
            ),
            format!("kernel: {}", self.kernel.clone().unwrap_or_else(unknown)),
        ];
        lines.extend(versions);
        lines
    }
}

fn processor(cpuinfo: &str) -> Option<String> {
    // x86 has `model name`, some others `Processor` or `cpu model`; many ARM kernels have none of these.
    ["model name", "Processor", "cpu model", "cpu"]
        .into_iter()
        .find_map(|name| {
            let mut fields = cpuinfo.lines().filter_map(|line| line.split_once(':'));
            fields
                .find(|(key, _)| key.trim() == name)
                .map(|(_, value)| value.trim().to_owned())
        })
}

fn version(program: &Path, argument: &str) -> Option<String> {
    let output = Command::new(program)
        .arg(argument)
        .stdin(Stdio::null())
        .output()
        .ok()?;
    version_line(&output.stdout).or_else(|| version_line(&output.stderr))
}

/// The first line with a digit: lsof prints a heading before it.
fn version_line(bytes: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(bytes);
    let line: String = text
        .lines()
        .find(|line| line.contains(|c: char| c.is_ascii_digit()))
        .or_else(|| text.lines().next())?
        .chars()
        .filter(|c| !c.is_control())
        .take(100)
        .collect();
    (!line.trim().is_empty()).then(|| line.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processor_of_several_architectures() {
        let x86 = "processor\t: 0\nvendor_id\t: X\nmodel name\t: Some CPU @ 2 GHz\n";
        assert_eq!(processor(x86).as_deref(), Some("Some CPU @ 2 GHz"));
        assert_eq!(
            processor("cpu\t\t: POWER9, altivec\n").as_deref(),
            Some("POWER9, altivec")
        );
        assert_eq!(processor("BogoMIPS : 50\n"), None);
    }

    #[test]
    fn version_is_one_printable_line() {
        assert_eq!(
            version_line(b"ss utility\x1b[0m, 6.1\nmore").as_deref(),
            Some("ss utility[0m, 6.1")
        );
        assert_eq!(
            version_line(b"lsof version information:\n    revision: 4.95.0\n    latest: 5").as_deref(),
            Some("revision: 4.95.0")
        );
        assert_eq!(version_line(b"some program\n").as_deref(), Some("some program"));
        assert_eq!(version_line(b"\n\n"), None);
    }

    #[test]
    fn missing_program_is_listed() {
        let mut machine = Machine::this();
        machine.ask_version("nothing", None, "-V");
        assert_eq!(
            machine.lines().last().map(String::as_str),
            Some("nothing: not installed")
        );
    }
}
