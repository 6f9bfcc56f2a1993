"""What the binary is made from: crates, and what the toolchain links."""

import pathlib
import re
import subprocess

LICENCE_NAMES = ("LICENSE", "LICENCE", "COPYING", "NOTICE", "UNLICENSE")


def packages(release, kinds=(None,)):
    """Packages whose code is in the binary, sorted by name; with kinds, also those that only run during the build."""
    by_id = {package["id"]: package for package in release.metadata["packages"]}
    nodes = {node["id"]: node for node in release.metadata["resolve"]["nodes"]}
    waiting = [id for id in release.metadata["workspace_members"] if by_id[id]["name"] == "sockeye"]
    found = set(waiting)
    while waiting:
        for dependency in nodes[waiting.pop()]["deps"]:
            id = dependency["pkg"]
            is_used = any(kind["kind"] in kinds for kind in dependency["dep_kinds"])
            if is_used and id not in found and (len(kinds) > 1 or not is_macro(by_id[id])):
                found.add(id)
                waiting.append(id)
    return sorted((by_id[id] for id in found), key=lambda package: (package["name"], package["version"]))


def is_macro(package):
    """Whether it runs in the compiler."""
    return any("proc-macro" in target["kind"] for target in package["targets"])


def depends_on(release, package, among):
    """The ids of the packages among these that it uses."""
    node = next(node for node in release.metadata["resolve"]["nodes"] if node["id"] == package["id"])
    ids = {other["id"] for other in among}
    return sorted(dependency["pkg"] for dependency in node["deps"] if dependency["pkg"] in ids)


def checksums(release):
    """SHA-256 of the files of other packages, by name and version, from Cargo.lock."""
    text = (release.root / "Cargo.lock").read_text()
    entry = r'name = "(.+)"\nversion = "(.+)"\nsource = ".+"\nchecksum = "([0-9a-f]{64})"'
    return {(name, version): checksum for name, version, checksum in re.findall(entry, text)}


def toolchain(release):
    """Versions of the standard library and of musl, both of which come with the compiler."""
    from build import TARGETS, output
    verbose = output("rustc", "-vV", cwd=release.root)
    libraries = output("rustc", "--print", "target-libdir", "--target", TARGETS[release.architecture], cwd=release.root)
    musl = (pathlib.Path(libraries.strip()) / "self-contained/libc.a").read_bytes()
    version = re.search(rb"\0(1\.\d+\.\d+)\0", musl)
    return {"std": re.search(r"release: (\S+)", verbose)[1], "musl": version[1].decode() if version else None}


def licence_texts(release):
    """One text with the notices of all parts of others; equal texts once."""
    users = {}
    for package in packages(release):
        if not package["source"]:
            continue
        name = f"{package['name']} {package['version']} ({package['license']})"
        users.setdefault(notice(package), []).append(name)
    parts = [(release.root / "packaging/notices.txt").read_text()]
    parts += [", ".join(names) + "\n\n" + text for text, names in sorted(users.items(), key=lambda item: item[1])]
    return f"\n{'=' * 78}\n\n".join(part.strip() + "\n" for part in parts).encode()


def notice(package):
    """The text of its licence; of several the one for MIT, which we choose."""
    folder = pathlib.Path(package["manifest_path"]).parent
    files = sorted(path for path in folder.iterdir() if path.name.upper().startswith(LICENCE_NAMES) and path.is_file())
    files = [path for path in files if "MIT" in path.name.upper()] or files
    if not files:
        return f"Its package has no text of the licence. Authors: {', '.join(package['authors'])}"
    return "\n".join(path.read_text(errors="replace").replace("\r\n", "\n").strip() for path in files)
