"""The package of Fedora, RHEL, openSUSE and others that use rpm."""

import os
import pathlib
import shutil
import subprocess
import tempfile

import content
from release import DESCRIPTION, SUMMARY

REVISION = 1


def make(release, files, into):
    name = f"sockeye-{release.version}-{REVISION}.{release.architecture}.rpm"
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        content.staged(files, folder / "staged", release.epoch)
        (folder / "files").write_text("".join(f"{attribute(file)}/{file.path}\n" for file in files))
        defines = {
            "_topdir": folder,
            # Readable by rpm of every distribution that is still maintained.
            "_binary_payload": f"w{0 if release.is_fast else 6}.xzdio",
            "sockeye_version": release.version,
            "sockeye_revision": REVISION,
            "sockeye_summary": SUMMARY,
            "sockeye_description": DESCRIPTION,
            # The bytes must not depend on the machine and the time.
            "_buildhost": "reproducible",
            "use_source_date_epoch_as_buildtime": 1,
            "clamp_mtime_to_source_date_epoch": 1,
        }
        command = ["rpmbuild", "-bb", "--quiet", "--target", f"{release.architecture}-linux"]
        command += [word for key, value in defines.items() for word in ("--define", f"{key} {value}")]
        environment = os.environ | {"SOURCE_DATE_EPOCH": str(release.epoch)}
        result = subprocess.run([*command, release.root / "packaging/rpm/sockeye.spec"], env=environment, text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if result.returncode != 0:
            raise SystemExit(f"rpmbuild: {result.stdout}")
        shutil.copyfile(folder / "RPMS" / release.architecture / name, into / name)
    return into / name


def attribute(file):
    if "/LICENSE" in file.path:
        return "%license "
    return "%doc " if file.path.startswith((content.DOCUMENTS, "usr/share/man")) else ""
