//! Manual pages: their sections, and what man and mandoc say to them.

use super::folder;
use crate::fixtures::binary::{command, run};
use sockeye_lab::{need, program};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The pages in a folder of their own, which is removed in the end.
struct Pages {
    folder: PathBuf,
    text_by_name: BTreeMap<String, String>,
}

impl Pages {
    fn written(test: &str) -> Self {
        let folder = folder(test);
        let outcome = run(command().arg("man").arg(&folder));
        assert_eq!(outcome.quiet(), "");
        let files = std::fs::read_dir(&folder).expect("list");
        let text_by_name = files
            .map(|file| {
                let path = file.expect("a file").path();
                let name = path.file_name().expect("a name").to_str().expect("UTF-8");
                (name.to_owned(), std::fs::read_to_string(&path).expect("read"))
            })
            .collect();
        Self { folder, text_by_name }
    }

    fn get(&self, page: &str) -> &str {
        &self.text_by_name[page]
    }

    /// Returns the terms of a section, in their order.
    fn terms(&self, page: &str, section: &str) -> Vec<String> {
        let text = self.get(page);
        let (_, rest) = text.split_once(&format!(".SH {section}\n")).expect(section);
        let section = rest.split("\n.SH ").next().unwrap_or_default();
        section
            .split(".TP\n\\fB")
            .skip(1)
            .filter_map(|item| Some(item.split_once("\\fR")?.0.replace("\\-", "-")))
            .collect()
    }

    /// Fails if a program has something to say to a page.
    fn assert_accepted_by(&self, program: &Path, arguments: &[&str]) {
        for page in self.text_by_name.keys() {
            let outcome = run(Command::new(program)
                .args(arguments)
                .arg(self.folder.join(page))
                .env("MANWIDTH", "80")
                .env("LC_ALL", "C.UTF-8"));
            assert_eq!(outcome.error(), "", "{page}: {outcome}");
            assert!(outcome.code == Some(0), "{page}: {outcome}");
        }
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

#[test]
fn every_command_has_a_page_with_all_sections() {
    let pages = Pages::written("man");
    for expected in [
        "sockeye.1",
        "sockeye-flows.1",
        "sockeye-sockets.1",
        "sockeye-doctor.1",
        "sockeye-bench.1",
        "sockeye-bench-stream.1",
        "sockeye-bench-sources.1",
        "sockeye-filter.7",
    ] {
        assert!(pages.text_by_name.contains_key(expected), "{expected}");
    }
    for (page, text) in &pages.text_by_name {
        let mut sections = vec![
            "NAME",
            "EXAMPLES",
            "FILES",
            "ENVIRONMENT",
            "\"EXIT STATUS\"",
            "\"SEE ALSO\"",
        ];
        if page.ends_with(".1") {
            sections.push("SYNOPSIS");
        }
        for section in sections {
            assert!(text.contains(&format!(".SH {section}\n")), "{page}: {section}");
        }
        // Examples are not reflowed.
        assert!(text.contains(".SH EXAMPLES\n.nf\n"), "{page}");
    }
    assert!(pages.get("sockeye-sockets.1").contains("all fields of tcp_info"));
    assert!(pages.get("sockeye-flows.1").contains("group\\-by"));
    assert!(
        pages
            .get("sockeye-sockets.1")
            .contains(".SH EXAMPLES\n.nf\n  sockeye sockets \\-tlnp")
    );
    assert!(
        pages
            .get("sockeye-sockets.1")
            .contains(".SH SYNOPSIS\n.nf\nsockeye sockets [OPTIONS] [FILTER]...\n.fi\n")
    );
}

#[test]
fn pages_name_only_what_their_command_reads() {
    let pages = Pages::written("man-notes");
    let and = |more: &[&'static str]| {
        let shared = ["SOCKEYE_COLOR", "NO_COLOR", "CLICOLOR_FORCE", "CLICOLOR", "TERM"];
        [&shared[..], more].concat()
    };
    for (page, more) in [
        ("sockeye.1", &["SOCKEYE_CONFIG", "SOCKEYE_*"][..]),
        ("sockeye-sockets.1", &[]),
        (
            "sockeye-graph.1",
            &["LC_ALL, LC_CTYPE, LANG", "TERM_PROGRAM", "COLORFGBG"],
        ),
        ("sockeye-kill.1", &["SSH_CONNECTION"]),
    ] {
        assert_eq!(pages.terms(page, "ENVIRONMENT"), and(more), "{page}");
    }
    for (page, expected) in [
        ("sockeye-capture.1", &["TZ"][..]),
        (
            "sockeye-config.1",
            &[
                "SOCKEYE_CONFIG",
                "SOCKEYE_*",
                "XDG_CONFIG_HOME, HOME",
                "NO_COLOR, CLICOLOR_FORCE, CLICOLOR",
            ],
        ),
        ("sockeye-ss.1", &["TCPDIAG_FILE", "POSIXLY_CORRECT"]),
        ("sockeye-lstf.1", &["LSTF_DEBUG", "PROC_ROOT"]),
        ("sockeye-ns-exec.1", &["PATH"]),
        ("sockeye-ns-set.1", &[]),
        ("sockeye-man.1", &[]),
    ] {
        assert_eq!(pages.terms(page, "ENVIRONMENT"), expected, "{page}");
    }
    let btf = "/sys/kernel/btf/vmlinux";
    for (page, expected) in [
        ("sockeye-explain.1", &[][..]),
        ("sockeye-analyze.1", &[]),
        ("sockeye-completions.1", &[]),
        ("sockeye-ns-set.1", &["/run/netns/"]),
        ("sockeye-lstf.1", &[btf, "/proc/PID/"]),
    ] {
        assert_eq!(pages.terms(page, "FILES"), expected, "{page}");
    }
    for page in [
        "sockeye.1",
        "sockeye-check.1",
        "sockeye-prof.1",
        "sockeye-doctor.1",
    ] {
        assert!(pages.terms(page, "FILES").contains(&btf.to_owned()), "{page}");
    }
}

#[test]
fn other_pages_that_are_named_exist() {
    let pages = Pages::written("man-see-also");
    for (page, text) in &pages.text_by_name {
        let (_, see) = text.rsplit_once("SEE ALSO").expect("a section");
        let names = see.replace("\\-", "-").replace(['"', '\n'], " ");
        for name in names.split([',', ' ']).filter(|name| name.starts_with("sockeye")) {
            let file = name.replace('(', ".").replace(')', "");
            assert!(pages.text_by_name.contains_key(&file), "{page}: {name}");
            assert_ne!(&file, page);
        }
    }
}

#[test]
fn man_prints_pages_without_warnings() {
    let man = need!(program("man"));
    Pages::written("man-warnings").assert_accepted_by(&man, &["--warnings", "-l"]);
}

#[test]
fn mandoc_has_no_complaints() {
    let mandoc = need!(program("mandoc"));
    Pages::written("man-lint").assert_accepted_by(&mandoc, &["-Tlint"]);
}

#[test]
fn pages_that_cannot_be_written_are_an_error() {
    let outcome = run(command().arg("man").arg("/nowhere/pages"));
    assert!(
        outcome
            .failed(1)
            .contains("write manual pages into /nowhere/pages: 0 written, then sockeye-filter.7: "),
        "{outcome}"
    );
}
