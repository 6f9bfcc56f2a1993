"""Debian packages of several suites, fetched aside: nothing is installed, and this system's package lists stay as they are.

apt does the work, with a configuration of its own: it takes the mirror from this system's sources, and verifies the signature of
each list and the checksum of each package. Ubuntu's archive is one more source; its keys come from a package of Debian.
"""

import contextlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import time

KEYS = "/usr/share/keyrings/debian-archive-keyring.gpg"
UBUNTU = "http://archive.ubuntu.com/ubuntu"
# The suite and the package of Debian that has Ubuntu's keys, and where.
UBUNTU_KEYS = ("trixie", "ubuntu-keyring", "usr/share/keyrings/ubuntu-archive-keyring.gpg")
# A list that is younger is not fetched again.
LIST_AGE_S = 12 * 3600
UPDATE_S = 120
DOWNLOAD_S = 400
# When all fetching has to end, by the monotonic clock.
deadline = float("inf")
# What one download may be: the packages of a full kernel are 200 MB.
BYTES_MAX = 400_000_000


class Unavailable(Exception):
    """What could not be fetched, and why."""


class Suite:
    """A suite of Debian for one architecture, such as trixie for arm64; or of Ubuntu: `ubuntu:jammy+jammy-updates` are two together."""

    def __init__(self, cache, name, architecture):
        self.cache, self.name = cache, name
        self.is_of_ubuntu = name.startswith("ubuntu:")
        self.folder = cache / "apt" / f"{re.sub(r'[:+]', '-', name)}-{architecture}"
        # When its list of packages was fetched.
        self.updated = self.folder / "updated"
        # The user as whom apt downloads has to get in.
        for folder in ("lists/partial", "archives/partial"):
            (self.folder / folder).mkdir(parents=True, exist_ok=True)
        options = {
            "Dir::Etc::SourceList": self.folder / "sources.list",
            "Dir::Etc::SourceParts": "/dev/null",
            "Dir::Etc::Preferences": "/dev/null",
            "Dir::Etc::PreferencesParts": "/dev/null",
            "Dir::State": self.folder,
            "Dir::State::Lists": self.folder / "lists",
            # As if nothing was installed: what this system has decides nothing.
            "Dir::State::status": "/dev/null",
            "Dir::Cache": self.folder,
            "Dir::Cache::archives": self.folder / "archives",
            "APT::Architecture": architecture,
            "APT::Architectures": architecture,
            "APT::Sandbox::User": "root",
            "APT::Get::Assume-Yes": "true",
            "APT::Install-Recommends": "false",
            "Acquire::Languages": "none",
            "Acquire::Retries": "1",
            "Acquire::http::Timeout": "20",
            "Acquire::https::Timeout": "20",
            "Acquire::IndexTargets::deb::DEP-11::DefaultEnabled": "false",
            "Acquire::IndexTargets::deb::Contents-deb::DefaultEnabled": "false",
        }
        self.options = [word for key, value in options.items() for word in ("-o", f"{key}={value}")]

    def update(self):
        """Fetches the list of packages, unless there is a young one. Does with an old one if that fails."""
        if not shutil.which("apt-get"):
            raise Unavailable("no apt-get")
        stamp = self.updated
        if stamp.exists() and time.time() - stamp.stat().st_mtime < LIST_AGE_S:
            return
        (self.folder / "sources.list").write_text(self._sources())
        done = self._apt("update", timeout=UPDATE_S)
        # apt succeeds also if it could not fetch some lists.
        if done.returncode == 0 and not re.search(r"^[WE]: ", done.stderr, re.MULTILINE):
            stamp.touch()
        elif not stamp.exists():
            raise Unavailable(f"the list of packages of {self.name}: {last_line(done.stderr)}")

    def _sources(self):
        if not self.is_of_ubuntu:
            return f"deb [signed-by={KEYS}] {mirror()} {self.name} main\n"
        suite, package, path = UBUNTU_KEYS
        folder = self.cache / "tools" / package
        unpacked(folder, Suite(self.cache, suite, "amd64"), [package], unpack_keys, choose=lambda name: name == package)
        names = self.name.removeprefix("ubuntu:").split("+")
        return "".join(f"deb [signed-by={folder / path}] {UBUNTU} {name} main\n" for name in names)

    def closure(self, *packages):
        """The packages and all that they need: [(address, file name, bytes)]."""
        done = self._apt("install", "--print-uris", *packages, timeout=UPDATE_S)
        rows = re.findall(r"^'([^']+)' (\S+) (\d+)", done.stdout, re.MULTILINE)
        if done.returncode != 0 or not rows:
            raise Unavailable(f"{' '.join(packages)} in {self.name}: {last_line(done.stderr)}")
        return [(address, name, int(size)) for address, name, size in rows]

    @contextlib.contextmanager
    def downloaded(self, packages):
        """The paths of these packages (NAME=VERSION) while the context lasts."""
        folder = self.folder / "archives"
        try:
            done = self._apt("download", *packages, timeout=DOWNLOAD_S, cwd=folder)
            found = sorted(folder.glob("*.deb"))
            if done.returncode != 0 or len(found) != len(packages):
                raise Unavailable(f"{' '.join(packages[:3])} of {self.name}: {last_line(done.stderr)}")
            yield found
        finally:
            for path in folder.glob("*.deb"):
                path.unlink()

    def _apt(self, *words, timeout, cwd=None):
        command = ["apt-get", "-q", *self.options, *words]
        environment = dict(os.environ, LC_ALL="C", DEBIAN_FRONTEND="noninteractive")
        timeout = min(timeout, deadline - time.monotonic())
        if timeout <= 0:
            raise Unavailable(f"no time left to fetch anything of {self.name}")
        try:
            return subprocess.run(command, cwd=cwd, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                                  timeout=timeout)
        except subprocess.TimeoutExpired:
            raise Unavailable(f"apt-get {words[0]} of {self.name} takes more than {timeout:.0f} s") from None


def unpack_keys(deb, into):
    done = subprocess.run(["dpkg-deb", "--extract", deb, into], capture_output=True, text=True)
    if done.returncode != 0:
        raise Unavailable(f"dpkg-deb cannot read {deb.name}: {last_line(done.stderr)}")


def mirror():
    """The mirror of Debian that this system uses."""
    if not os.path.exists(KEYS):
        raise Unavailable("the keys of Debian's archive are not installed")
    command = ["apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages", "Origin: Debian", "Label: Debian"]
    found = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True).stdout.split()
    if not found:
        raise Unavailable("no mirror of Debian is known: its lists of packages are not here, or this is another system")
    return found[0]


def name_and_version(file_name):
    """("kmod", "34.2-2") of kmod_34.2-2_amd64.deb."""
    name, version, _ = file_name.split("_", 2)
    return name, version.replace("%3a", ":")


def last_line(text):
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "no message"


def unpacked(folder, suite, packages, unpack, choose=lambda name: True, recipe=""):
    """Sees to it that the packages and what they need are unpacked in a folder of the cache.

    `choose` says by name which of them are wanted, `unpack(deb, into)` unpacks one, in the way that the text `recipe` describes:
    with another one all is fetched again. Returns {package: version}. Without the network it does with what an earlier run has
    unpacked.
    """
    record = folder / "packages.json"
    present = json.loads(record.read_text()) if record.exists() else None
    if present is not None and present.pop("recipe", "") != recipe:
        present = None
    try:
        suite.update()
        if present is not None and record.stat().st_mtime > suite.updated.stat().st_mtime:
            return present
        rows = suite.closure(*packages)
    except Unavailable:
        if present is None:
            raise
        return present
    wanted = {}
    sizes = {}
    for _, file_name, size in rows:
        name, version = name_and_version(file_name)
        if choose(name):
            wanted[name], sizes[name] = version, size
    if present == wanted:
        record.touch()
        return present
    if sum(sizes.values()) > BYTES_MAX:
        raise Unavailable(f"{' '.join(packages)} of {suite.name} would be {sum(sizes.values())} bytes")
    fresh = pathlib.Path(f"{folder}.new")
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir(parents=True)
    try:
        with suite.downloaded([f"{name}={version}" for name, version in wanted.items()]) as debs:
            for deb in debs:
                unpack(deb, fresh)
    except Unavailable:
        shutil.rmtree(fresh, ignore_errors=True)
        if present is None:
            raise
        return present
    (fresh / "packages.json").write_text(json.dumps({**wanted, "recipe": recipe}, indent=1, sort_keys=True))
    shutil.rmtree(folder, ignore_errors=True)
    fresh.rename(folder)
    return wanted
