//! Compiles the holder a second time, by itself: cargo does not build the binaries of a dependency, and the tests
//! of other crates need it.

use std::env;
use std::path::PathBuf;
use std::process::Command;

fn main() {
    let source = "src/bin/lab-holder.rs";
    println!("cargo::rerun-if-changed={source}");
    println!("cargo::rerun-if-changed=build.rs");
    let variable = |name: &str| env::var_os(name).unwrap_or_else(|| panic!("cargo sets {name}"));
    let binary = PathBuf::from(variable("OUT_DIR")).join("lab-holder");
    let mut rustc = Command::new(variable("RUSTC"));
    rustc.args([
        "--edition=2024",
        "--crate-name=lab_holder",
        "-Cstrip=symbols",
        "-Cpanic=abort",
        "--target",
    ]);
    rustc.arg(variable("TARGET")).arg(source).arg("-o").arg(&binary);
    if let Some(linker) = env::var_os("RUSTC_LINKER") {
        let mut flag = std::ffi::OsString::from("-Clinker=");
        flag.push(linker);
        rustc.arg(flag);
    }
    let status = rustc
        .status()
        .unwrap_or_else(|error| panic!("run {rustc:?}: {error}"));
    assert!(status.success(), "{rustc:?}: {status}");
    println!("cargo::rustc-env=LAB_HOLDER={}", binary.display());
}
