"""Builds static binaries whose bytes depend on the sources and on the compiler alone."""

import json
import os
import pathlib
import struct
import subprocess
import sys

import c_compiler

TARGETS = {"x86_64": "x86_64-unknown-linux-musl", "aarch64": "aarch64-unknown-linux-musl"}
# <elf.h>: EM_X86_64, EM_AARCH64.
MACHINES = {"x86_64": 62, "aarch64": 183}
PT_INTERP = 3


def output(*command, cwd=None):
    return subprocess.run(command, cwd=cwd, check=True, stdout=subprocess.PIPE, text=True).stdout


def metadata(root, architecture):
    """What `cargo metadata` prints of the packages for this architecture; fetches those that are missing."""
    target = TARGETS[architecture]
    return json.loads(output("cargo", "metadata", "--locked", "--format-version=1", f"--filter-platform={target}", cwd=root))


def binaries(root, architectures, folder, profile="dist"):
    """Builds for all of these at once, and returns the path of each."""
    targets = [TARGETS[architecture] for architecture in architectures]
    for target in targets:
        add_target(root, target)
    environment = {name: value for name, value in os.environ.items()
                   if not name.startswith(("CARGO_PROFILE_", "CARGO_BUILD_", "CARGO_TARGET_")) and name != "RUSTFLAGS"}
    environment["CARGO_ENCODED_RUSTFLAGS"] = "\x1f".join(flags(root, metadata(root, architectures[0])))
    environment["CARGO_TARGET_DIR"] = str(folder)
    environment |= c_compiler.environment(root, folder / "c-compiler", architectures)
    command = ["cargo", "build", "--locked", "--profile", profile, "-p", "sockeye"]
    command += [word for target in targets for word in ("--target", target)]
    subprocess.run(command, cwd=root, env=environment, check=True)
    return {architecture: folder / TARGETS[architecture] / profile / "sockeye" for architecture in architectures}


def flags(root, metadata):
    """Flags of rustc: the linker and the C library of the toolchain, and paths that are the same on each machine."""
    registries = {pathlib.Path(package["manifest_path"]).parent.parent for package in metadata["packages"] if package["source"]}
    standard = pathlib.Path(output("rustc", "--print", "sysroot", cwd=root).strip()) / "lib/rustlib/src/rust"
    commit = next(line.split()[1] for line in output("rustc", "-vV", cwd=root).splitlines() if line.startswith("commit-hash"))
    remaps = {root: "/sockeye", standard: f"/rustc/{commit}", **dict.fromkeys(sorted(registries), "/crates")}
    # The last one: addresses that the program adjusts when it starts take 14 KB instead of 1.5 MB.
    link = ["-Clinker=rust-lld", "-Clink-self-contained=yes", "-Clink-arg=-zpack-relative-relocs"]
    return [*link, *(f"--remap-path-prefix={old}={new}" for old, new in remaps.items())]


def add_target(root, target):
    libraries = output("rustc", "--print", "target-libdir", "--target", target, cwd=root).strip()
    if not pathlib.Path(libraries).is_dir():
        subprocess.run(["rustup", "target", "add", target], cwd=root, check=True)


def check(binary, architecture, must_be_static=True):
    """Ends the program if the binary is not static, or for another architecture."""
    bytes = binary.read_bytes()
    if bytes[:6] != b"\x7fELF\x02\x01":
        sys.exit(f"{binary}: not a 64-bit little-endian ELF file")
    machine, = struct.unpack_from("<H", bytes, 18)
    table, = struct.unpack_from("<Q", bytes, 32)
    size, number = struct.unpack_from("<HH", bytes, 54)
    kinds = {struct.unpack_from("<I", bytes, table + size * index)[0] for index in range(number)}
    if machine != MACHINES[architecture]:
        sys.exit(f"{binary}: not for {architecture}")
    if must_be_static and PT_INTERP in kinds:
        sys.exit(f"{binary}: not static: it needs the dynamic loader of a C library")


def version(binary, metadata):
    """The version that the binary prints, which is that of the sources."""
    printed = output(binary, "--version").split()[1]
    written = next(package["version"] for package in metadata["packages"] if package["name"] == "sockeye")
    if printed != written:
        sys.exit(f"{binary} is version {printed}, the sources are {written}")
    return written
