"""The tarball, to unpack into /usr/local, and the form of tar files that does not depend on the machine."""

import io
import pathlib
import tarfile

import content
from release import File


def make(release, files, into):
    top = f"sockeye-{release.version}-{release.architecture}"
    path = into / f"{top}.tar.gz"
    path.write_bytes(content.compressed(tar([local(file, top) for file in files], release.epoch), release.is_fast))
    return path


def local(file, top):
    """The file below the folder of the tarball instead of /usr. Units name the binary in /usr/local."""
    text = file.content
    if file.path.endswith(".service"):
        text = text.replace(b"/usr/bin/", b"/usr/local/bin/")
    return File(f"{top}/{file.path.removeprefix('usr/')}", text, file.mode)


def tar(files, epoch):
    """A tar file with these files and their folders, sorted, of root, with this time."""
    entries = {file.path: file for file in files}
    for file in files:
        entries.update((str(folder), None) for folder in pathlib.PurePath(file.path).parents if str(folder) != ".")
    bytes = io.BytesIO()
    with tarfile.open(fileobj=bytes, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for path, file in sorted(entries.items()):
            entry = tarfile.TarInfo(path)
            entry.mtime = epoch
            if file is None:
                entry.type, entry.mode = tarfile.DIRTYPE, 0o755
                archive.addfile(entry)
            else:
                entry.size, entry.mode = len(file.content), file.mode
                archive.addfile(entry, io.BytesIO(file.content))
    return bytes.getvalue()
