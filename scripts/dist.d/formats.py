"""Reads packages with the programs of others, and compares what is in them."""

import gzip
import hashlib
import io
import json
import re
import shutil
import subprocess
import tarfile

import components
import oci


def output(*command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def check(release, files, folder):
    """Raises AssertionError where a package of the folder has not exactly these files, of root, with the time of the release."""
    expected = {f"usr/{file.path.removeprefix('usr/')}": (len(file.content), file.mode) for file in files}
    check_deb(release, expected, next(folder.glob("*.deb")))
    check_rpm(release, expected, next(folder.glob("*.rpm")))
    check_tarball(release, files, next(folder.glob("*.tar.gz")))
    check_image(release, files, next(folder.glob("*.oci.tar")), folder)
    check_sbom(release, json.loads(next(folder.glob("*.cdx.json")).read_text()))
    subprocess.run(["sha256sum", "--quiet", "--check", "SHA256SUMS"], cwd=folder, check=True)
    names = {line.split()[1] for line in (folder / "SHA256SUMS").read_text().splitlines()}
    assert names == {path.name for path in folder.iterdir()} - {"SHA256SUMS"}, names


def check_deb(release, expected, path):
    control = output("dpkg-deb", "--field", path)
    for line in (f"Version: {release.version}-1", f"Architecture: {release.debian}"):
        assert line in control.splitlines(), control
    renamed = {"usr/share/zsh/vendor-completions/_sockeye": "usr/share/zsh/site-functions/_sockeye",
               "usr/share/doc/sockeye/NEWS.gz": "usr/share/doc/sockeye/changelog.gz"}
    own = {"usr/share/doc/sockeye/copyright", "usr/share/doc/sockeye/changelog.Debian.gz", "usr/share/lintian/overrides/sockeye"}
    found = {}
    for line in output("dpkg-deb", "--contents", path).splitlines():
        kind, owner, size, *_, name = line.split()
        assert owner == "root/root", line
        name = name.removeprefix("./")
        if not kind.startswith("d") and name not in own:
            found[renamed.get(name, name)] = (int(size), mode(kind))
    compare(expected, found)


def check_rpm(release, expected, path):
    wanted = f"{release.version}-1 {release.architecture} {release.epoch}"
    printed = output("rpm", "-qp", "--queryformat", "%{VERSION}-%{RELEASE} %{ARCH} %{BUILDTIME}", path)
    assert printed == wanted, printed
    listed = output("rpm", "-qp", "--queryformat",
                    "[%{FILENAMES} %{FILESIZES} %{FILEMODES:perms} %{FILEUSERNAME} %{FILEGROUPNAME} %{FILEMTIMES}\n]", path)
    found = {}
    for line in listed.splitlines():
        name, size, kind, user, group, time = line.split()
        assert (user, group, int(time)) == ("root", "root", release.epoch), line
        if not kind.startswith("d"):
            found[name.removeprefix("/")] = (int(size), mode(kind))
    compare(expected, found)
    needs = [line for line in output("rpm", "-qp", "--requires", path).splitlines() if not line.startswith("rpmlib(")]
    assert set(needs) <= {"/bin/sh"}, needs


def check_tarball(release, files, path):
    top = f"sockeye-{release.version}-{release.architecture}/"
    with tarfile.open(path) as archive:
        entries = archive.getmembers()
    assert all((entry.uid, entry.gid, entry.mtime) == (0, 0, release.epoch) for entry in entries)
    assert [entry.name for entry in entries] == sorted(entry.name for entry in entries)
    found = {entry.name: entry.mode for entry in entries if entry.isfile()}
    compare({top + file.path.removeprefix("usr/"): file.mode for file in files}, found)


def check_image(release, files, path, folder):
    with tarfile.open(path) as archive:
        blobs = {entry.name: archive.extractfile(entry).read() for entry in archive if entry.isfile()}
    for name, blob in blobs.items():
        if name.startswith("blobs/"):
            assert name == f"blobs/sha256/{hashlib.sha256(blob).hexdigest()}", name

    def follow(descriptor):
        blob = blobs["blobs/" + descriptor["digest"].replace(":", "/")]
        assert len(blob) == descriptor["size"], descriptor
        return blob

    assert json.loads(blobs["oci-layout"]) == {"imageLayoutVersion": "1.0.0"}
    entry, = json.loads(blobs["index.json"])["manifests"]
    manifest = json.loads(follow(entry))
    config = json.loads(follow(manifest["config"]))
    layer, = manifest["layers"]
    plain = gzip.decompress(follow(layer))
    assert config["rootfs"]["diff_ids"] == [oci.digest(plain)]
    assert config["architecture"] == entry["platform"]["architecture"] == release.debian
    program = config["config"]["Entrypoint"][0].removeprefix("/")
    binary = next(file.content for file in files if file.path == program)
    assert tarfile.open(fileobj=io.BytesIO(plain)).extractfile(program).read() == binary
    if shutil.which("skopeo"):
        seen = json.loads(output("skopeo", "inspect", "--override-arch", release.debian, f"oci-archive:{path}:{release.version}"))
        assert (seen["Architecture"], seen["Digest"]) == (release.debian, entry["digest"]), seen


def check_sbom(release, document):
    """Every crate that Cargo.toml files of the binary name is in it, with the hash of Cargo.lock; the licences are all known."""
    entries = {(entry["name"], entry.get("version")): entry for entry in document["components"]}
    for name in re.findall(r"^\| `([\w-]+)` \|", (release.root / "docs/DEPENDENCIES.md").read_text(), re.M):
        assert any(known == name for known, _ in entries), f"{name} of docs/DEPENDENCIES.md is not in the SBOM"
    checksums = components.checksums(release)
    for key, entry in entries.items():
        if key in checksums:
            assert entry["hashes"] == [{"alg": "SHA-256", "content": checksums[key]}], key
    known = {entry["bom-ref"] for entry in document["components"]} | {document["metadata"]["component"]["bom-ref"]}
    assert len(known) == len(document["components"]) + 1, "two components have one name"
    assert {edge["ref"] for edge in document["dependencies"]} == known
    assert all(set(edge.get("dependsOn", [])) <= known for edge in document["dependencies"])


def schema_error(text):
    """What CycloneDX 1.5's schema says against this text, "" if nothing. Raises ImportError without cyclonedx-python-lib."""
    from cyclonedx.exception import MissingOptionalDependencyException
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator

    try:
        return str(JsonStrictValidator(SchemaVersion.V1_5).validate_str(text) or "")
    except MissingOptionalDependencyException as error:
        raise ImportError(str(error)) from error


def compare(expected, found):
    missing, more = expected.keys() - found.keys(), found.keys() - expected.keys()
    assert not missing and not more, f"missing: {sorted(missing)}, more: {sorted(more)}"
    different = {name: (expected[name], found[name]) for name in expected if expected[name] != found[name]}
    assert not different, different


def mode(permissions):
    """The number of `-rwxr-xr-x`."""
    return sum(1 << (8 - index) for index, letter in enumerate(permissions[1:10]) if letter != "-")
