"""What all packages of one architecture have in common."""

import dataclasses
import datetime
import pathlib

DEBIAN = {"x86_64": "amd64", "aarch64": "arm64"}
SUMMARY = "Shows every connection of a Linux host and what is wrong with it"
DESCRIPTION = """\
Sockeye reads sockets from the kernel with few and cheap questions, folds
connections into flows, names their owners, finds faults with evidence and
remedy, measures paths, and changes running sockets. One static binary."""


@dataclasses.dataclass
class Release:
    """A version for an architecture."""

    root: pathlib.Path
    # As the kernel calls it: x86_64, aarch64.
    architecture: str
    version: str
    # Time of everything in the packages, in seconds since 1970.
    epoch: int
    # What `cargo metadata` prints.
    metadata: dict
    # Whether to compress little, for tests.
    is_fast: bool = False

    @property
    def debian(self):
        """The architecture as Debian and OCI call it."""
        return DEBIAN[self.architecture]

    @property
    def time(self):
        return datetime.datetime.fromtimestamp(self.epoch, datetime.timezone.utc)


@dataclasses.dataclass(frozen=True)
class File:
    """A file of a package. Its path begins with `usr/`, or below it as `{zsh}/` where formats differ."""

    path: str
    content: bytes
    mode: int = 0o644
