"""What every package has, as files below /usr."""

import gzip
import os
import pathlib
import subprocess
import tempfile

import components
from release import File

# Where shells look for completions. zsh of Debian looks elsewhere than that of others.
COMPLETIONS = {
    "bash": "usr/share/bash-completion/completions/sockeye",
    "zsh": "usr/share/zsh/site-functions/_sockeye",
    "fish": "usr/share/fish/vendor_completions.d/sockeye.fish",
}
DOCUMENTS = "usr/share/doc/sockeye"


def files(release, binary, generator):
    """All files of a package, sorted by path. The generator is a binary of this version that runs here."""
    found = [File("usr/bin/sockeye", binary.read_bytes(), 0o755)]
    found += manuals(generator)
    for shell, path in COMPLETIONS.items():
        found.append(File(path, output(generator, "completions", shell)))
    for unit in sorted((release.root / "packaging/systemd").iterdir()):
        found.append(File(f"usr/lib/systemd/system/{unit.name}", unit.read_bytes()))
    found.append(File(f"{DOCUMENTS}/changelog.gz", compressed((release.root / "CHANGELOG.md").read_bytes())))
    found += licences(release)
    return sorted(found, key=lambda file: file.path)


def licences(release):
    """Our licences and those of the parts of others, which ask to be copied along."""
    own = {name: release.root / name for name in ("LICENSE-APACHE", "LICENSE-MIT")}
    own["LICENSE-fonts"] = release.root / "crates/output/fonts/LICENSE"
    found = [File(f"{DOCUMENTS}/{name}", path.read_bytes()) for name, path in own.items()]
    return [*found, File(f"{DOCUMENTS}/LICENSES-of-others.gz", compressed(components.licence_texts(release)))]


def manuals(generator):
    with tempfile.TemporaryDirectory() as folder:
        output(generator, "man", folder)
        pages = sorted(pathlib.Path(folder).iterdir())
        return [File(f"usr/share/man/man{page.suffix[1:]}/{page.name}.gz", compressed(page.read_bytes())) for page in pages]


def output(*command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout


def compressed(bytes, is_fast=False):
    """As `gzip -9n`: without name and time."""
    return gzip.compress(bytes, compresslevel=1 if is_fast else 9, mtime=0)


def staged(files, folder, epoch):
    """Writes files below a folder, with the time of the release."""
    for file in files:
        path = folder / file.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(file.content)
        path.chmod(file.mode)
    for path, folders, names in os.walk(folder):
        os.chmod(path, 0o755)
        for name in (*names, "."):
            os.utime(pathlib.Path(path, name), (epoch, epoch))
