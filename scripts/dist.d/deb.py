"""The package of Debian and Ubuntu."""

import hashlib
import os
import pathlib
import subprocess
import tempfile

import content
from release import DESCRIPTION, SUMMARY, File

REVISION = 1
MAINTAINER = "Sockeye's authors <sockeye@localhost>"


def make(release, files, into):
    version = f"{release.version}-{REVISION}"
    path = into / f"sockeye_{version}_{release.debian}.deb"
    packaging = release.root / "packaging/deb"
    own = [File(f"{content.DOCUMENTS}/copyright", (packaging / "copyright").read_bytes()),
           File(f"{content.DOCUMENTS}/changelog.Debian.gz", content.compressed(changelog(release, version))),
           File("usr/share/lintian/overrides/sockeye", (packaging / "lintian-overrides").read_bytes())]
    # zsh of Debian looks for completions of packages in a folder of its own.
    data = own + [File(file.path.replace("zsh/site-functions", "zsh/vendor-completions").replace("changelog.gz", "NEWS.gz"),
                       file.content, file.mode) for file in files]
    sums = "".join(f"{hashlib.md5(file.content).hexdigest()}  {file.path}\n" for file in sorted(data, key=lambda it: it.path))
    scripts = [File(f"DEBIAN/{name}", (packaging / name).read_bytes(), 0o755) for name in ("postinst", "prerm", "postrm")]
    control = [File("DEBIAN/control", fields(release, version, data)), File("DEBIAN/md5sums", sums.encode()), *scripts]
    with tempfile.TemporaryDirectory() as folder:
        content.staged(data + control, pathlib.Path(folder), release.epoch)
        # One thread: the blocks of xz, and so its bytes, could depend on how many there are.
        environment = os.environ | {"SOURCE_DATE_EPOCH": str(release.epoch), "DPKG_DEB_THREADS_MAX": "1"}
        command = ["dpkg-deb", "--root-owner-group", "-Zxz", f"-z{0 if release.is_fast else 6}", "--build", folder, path]
        subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL)
    return path


def fields(release, version, data):
    about = "".join(f" {line}\n" for line in DESCRIPTION.splitlines())
    kibibytes = sum(-(-len(file.content) // 1024) for file in data)
    return (f"Package: sockeye\nVersion: {version}\nArchitecture: {release.debian}\nMaintainer: {MAINTAINER}\n"
            f"Installed-Size: {kibibytes}\nSection: net\nPriority: optional\nDescription: {SUMMARY}\n{about}").encode()


def changelog(release, version):
    time = release.time.strftime("%a, %d %b %Y %H:%M:%S +0000")
    return (f"sockeye ({version}) unstable; urgency=medium\n\n  * See NEWS.gz.\n\n"
            f" -- {MAINTAINER}  {time}\n").encode()
