//! The files with which people install the fleet.

use crate::fixtures::binary::run;
use sockeye_lab::{Skip, need, program};
use std::process::Command;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/fleet");

/// Runs a script of Python that needs a module, with the path of a file.
fn python(module: &str, script: &str, file: &str) -> Result<(Option<i32>, String), Skip> {
    let python = program("python3")?;
    let check = format!("import importlib.util, sys; sys.exit(importlib.util.find_spec('{module}') is None)");
    if run(Command::new(&python).args(["-c", &check])).code != Some(0) {
        return Err(Skip::new(format!("python3 has no {module} (scripts/peers)")));
    }
    let outcome = run(Command::new(python).args(["-c", script, file]));
    let text = [outcome.stdout.as_slice(), outcome.stderr.as_slice()].concat();
    Ok((outcome.code, String::from_utf8_lossy(&text).into_owned()))
}

/// Asserts that a validator accepts a file, and refuses it with a word misspelt.
#[track_caller]
fn check(module: &str, script: &str, file: &str, wrong: (&str, &str)) {
    let path = format!("{FOLDER}/{file}");
    let (code, text) = need!(python(module, script, &path));
    assert_eq!(code, Some(0), "{text}");
    let content = std::fs::read_to_string(path).expect("a file");
    let broken = content.replacen(wrong.0, wrong.1, 1);
    assert_ne!(broken, content);
    let copy = std::env::temp_dir().join(format!("sockeye-{}-{file}", std::process::id()));
    std::fs::write(&copy, broken).expect("a file");
    let outcome = python(module, script, &copy.display().to_string());
    std::fs::remove_file(copy).expect("it is there");
    let (code, text) = need!(outcome);
    assert_eq!(code, Some(1), "{text}");
}

#[test]
fn compose_file_is_one_by_the_specification() {
    let script =
        "import sys, compose_spec; compose_spec.PyCompose.from_yaml(open(sys.argv[1]).read()).validate()";
    check("compose_spec", script, "compose.yaml", ("ulimits:", "ulimit:"));
}

#[test]
fn manifest_is_one_of_kubernetes() {
    let script = "
import sys, yaml, kubernetes_validate
for resource in yaml.safe_load_all(open(sys.argv[1])):
    kubernetes_validate.validate(resource, '1.37', strict=True)
";
    check(
        "kubernetes_validate",
        script,
        "kubernetes.yaml",
        ("readOnlyRootFilesystem:", "readOnlyRoot:"),
    );
}
