"""The compiler of the C code in the binary (SQLite, zstd): Zig's, which has the headers of musl for each architecture.

It comes from the Python package index in this version, for whatever Linux the packages are made on, so that their bytes do not depend on its
own compiler.
"""

import os
import pathlib
import stat
import subprocess
import sys

PACKAGE = "ziglang==0.17.1"
# cc-rs names the target in the words of Rust, which Zig does not read.
COMPILER = """#!/bin/sh
for argument do
    shift
    case $argument in --target=*) ;; *) set -- "$@" "$argument" ;; esac
done
exec '{zig}' cc -target {target} "$@"
"""
ARCHIVER = """#!/bin/sh
exec '{zig}' ar "$@"
"""
# Without checks that call a library of Zig's, and without paths of the machine.
FLAGS = "-g0 -fno-sanitize=undefined -fno-stack-protector"


def environment(root, folder, architectures):
    """Variables that make cc-rs use it. `folder` is where it is installed, once."""
    zig = install(folder)
    variables = {"ZIG_LOCAL_CACHE_DIR": str(folder / "cache"), "ZIG_GLOBAL_CACHE_DIR": str(folder / "cache")}
    for architecture in architectures:
        rust = f"{architecture}_unknown_linux_musl"
        compiler = program(folder / f"cc-{architecture}", COMPILER.format(zig=zig, target=f"{architecture}-linux-musl"))
        archiver = program(folder / f"ar-{architecture}", ARCHIVER.format(zig=zig))
        variables |= {f"CC_{rust}": str(compiler), f"AR_{rust}": str(archiver), f"CFLAGS_{rust}": f"{FLAGS} -ffile-prefix-map={root}=/sockeye"}
    return variables


def install(folder):
    zig = folder / PACKAGE / "ziglang/zig"
    if not zig.exists():
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(folder / PACKAGE), PACKAGE]
        if subprocess.run(command, env=dict(os.environ, PIP_ROOT_USER_ACTION="ignore")).returncode != 0:
            sys.exit(f"scripts/dist: could not install {PACKAGE}, the C compiler, with pip")
        zig.chmod(zig.stat().st_mode | stat.S_IXUSR)
    return zig


def program(path, text):
    path.write_text(text)
    path.chmod(0o755)
    return pathlib.Path(path)
