"""What a virtual machine boots: a kernel of Debian with the modules that the checks need, and a small root file system in memory."""

import lzma
import os
import pathlib
import re
import shutil
import stat
import subprocess
import tarfile

import packages

HERE = pathlib.Path(__file__).resolve().parent
# What the guest's checks run. All of it, with the libraries, is of one suite.
USERLAND = ("busybox-static", "kmod", "iproute2", "nftables", "python3")
USERLAND_SUITES = ("trixie", "bookworm")
# No part of a running system.
LEFT_OUT = re.compile(
    r"^\./(usr/share/(?!nftables)|usr/lib/python3/dist-packages|usr/lib/python3\.\d+/(?:test|idlelib|ensurepip|pydoc_data|turtledemo|"
    r"lib2to3|unittest|distutils|tkinter|asyncio|email/architecture|config-)|usr/lib/[^/]*/(?:gconv|perl|perl-base)|usr/bin/perl|"
    r"usr/lib/[^/]*/libsqlite|etc/|var/|usr/sbin/unix_chkpwd|boot/)"
)
# Folders of modules that are of use here; others are not even unpacked.
MODULE_FOLDERS = re.compile(r"/kernel/(?:net|lib|crypto|arch/\w+/crypto|drivers/(?:net|virtio|crypto|md)|fs/fuse)/")
# Those wanted, with what they depend on. What a kernel does not have is left out: the checks say so.
MODULES = """
    tcp_diag udp_diag inet_diag unix_diag netlink_diag af_packet_diag raw_diag mptcp_diag sctp_diag vsock_diag
    veth dummy ifb bonding tun netdevsim bridge vxlan macvlan 8021q virtio_net virtio_pci virtio_mmio net_failover failover
    sch_netem sch_tbf sch_htb sch_fq sch_fq_codel sch_ingress sch_prio cls_bpf cls_u32 act_bpf act_mirred
    nf_conntrack nf_conntrack_netlink nf_tables nft_ct nft_limit nft_counter nf_reject_inet nft_reject nft_reject_inet
    crc32c_generic crc32c_intel libcrc32c tcp_bbr tcp_dctcp tls sctp xfrm_user xfrm_algo esp4 drop_monitor wireguard psample vsock
""".split()


class Kernel:
    """A kernel to boot: `name` is 6.1 or 6.1-cloud, `flavour` is cloud, 16k (pages of 16 KiB) or None, `suites` are where it comes from, the
    first that has it."""

    def __init__(self, name, suites, flavour, architecture):
        self.name, self.suites, self.flavour, self.architecture = name, suites, flavour, architecture
        # Set by `fetch`.
        self.folder = self.release = self.version = None

    def fetch(self, cache, tools):
        """Sees to it that the kernel and its modules are in the cache. The newest of all suites is taken."""
        folder = cache / self.architecture / self.name
        prefix = "cloud-" if self.flavour == "cloud" else ""
        suffix = "-16k" if self.flavour == "16k" else ""
        meta = f"linux-image-{prefix}{debian_name(self.architecture)}{suffix}"
        errors = []
        for name in self.suites:
            try:
                suite = packages.Suite(cache, name, debian_name(self.architecture))
                found = packages.unpacked(
                    folder, suite, ["linux-image-generic" if suite.is_of_ubuntu else meta], unpack_kernel,
                    choose=lambda package: re.match(r"linux-(?:image|binary|modules|modules-extra)-\d", package),
                    recipe=f"{MODULE_FOLDERS.pattern} {' '.join(MODULES)}",
                )
                break
            except packages.Unavailable as error:
                errors.append(str(error))
        else:
            raise packages.Unavailable("; ".join(errors))
        self.folder = folder
        self.release = next((folder / "lib/modules").iterdir()).name
        self.version = next(version for package, version in found.items() if re.match(r"linux-(?:image|binary)-", package))
        if not (folder / "lib/modules" / self.release / "modules.dep").exists():
            keep_modules(folder, self.release, tools)

    def numbers(self):
        """(6, 1) of 6.1.0-50-cloud-amd64."""
        return tuple(int(number) for number in re.match(r"(\d+)\.(\d+)", self.release).groups())


def debian_name(architecture):
    return {"x86_64": "amd64", "aarch64": "arm64"}[architecture]


def members(deb):
    """The members of a package, as a stream: (archive, member)."""
    child = subprocess.Popen(["dpkg-deb", "--fsys-tarfile", deb], stdout=subprocess.PIPE)
    with tarfile.open(fileobj=child.stdout, mode="r|") as archive:
        for member in archive:
            yield archive, member
    if child.wait() != 0:
        raise packages.Unavailable(f"dpkg-deb cannot read {deb.name}")


def unpack_all(deb, into):
    """Unpacks a package without documents and the like. /bin, /lib and /sbin are part of /usr, as in all these suites."""
    for archive, member in members(deb):
        if LEFT_OUT.match(member.name):
            continue
        member.name = re.sub(r"^\./(bin|lib|lib64|sbin)(?=/)", r"./usr/\1", member.name)
        if member.isdir() or member.ischr() or member.isblk() or not member.name.startswith("./usr/"):
            continue
        # A hard link names another member as it was.
        if member.islnk():
            member.linkname = re.sub(r"^\./(bin|lib|lib64|sbin)(?=/)", r"./usr/\1", member.linkname)
        archive.extract(member, into, filter="tar" if hasattr(tarfile, "tar_filter") else None)


def unpack_kernel(deb, into):
    """Unpacks the kernel and the modules of some folders. All modules are in lib/modules, whatever the suite's layout."""
    for archive, member in members(deb):
        name = re.sub(r"^\./(?:usr/)?", "", member.name)
        is_kernel = re.match(r"boot/vmlinuz-|lib/modules/[^/]+/vmlinuz$", name)
        is_list = re.match(r"lib/modules/[^/]+/modules\.(?:builtin|builtin\.modinfo|order)$", name)
        is_module = name.startswith("lib/modules/") and MODULE_FOLDERS.search(name)
        if member.isfile() and (is_kernel or is_list or is_module):
            path = into / ("vmlinuz" if is_kernel else name)
            path.parent.mkdir(parents=True, exist_ok=True)
            with open(path, "wb") as file:
                shutil.copyfileobj(archive.extractfile(member), file)


def keep_modules(folder, release, tools):
    """Deletes the modules that are not needed, and writes the lists of those that are."""
    modules = folder / "lib/modules" / release
    depmod(folder, release, tools)
    needs = {}
    for line in (modules / "modules.dep").read_text().splitlines():
        path, _, others = line.partition(":")
        needs[path] = others.split()
    keep = set()
    for path, others in needs.items():
        if re.sub(r"\.ko(\.\w+)?$", "", os.path.basename(path)).replace("-", "_") in MODULES:
            keep |= {path, *others}
    for path in needs:
        if path not in keep:
            (modules / path).unlink()
    for path in modules.glob("modules.*"):
        if path.name not in ("modules.builtin", "modules.builtin.modinfo", "modules.order"):
            path.unlink()
    depmod(folder, release, tools)


def depmod(folder, release, tools):
    done = subprocess.run([*tools.command("kmod", as_name="depmod"), "-b", folder, release], capture_output=True, text=True)
    if done.returncode != 0:
        raise packages.Unavailable(f"depmod: {packages.last_line(done.stderr)}")


class Userland:
    """Programs and libraries of the guest."""

    def __init__(self, cache, architecture):
        self.folder = cache / architecture / "userland"
        errors = []
        for name in USERLAND_SUITES:
            try:
                suite = packages.Suite(cache, name, debian_name(architecture))
                self.versions = packages.unpacked(self.folder, suite, USERLAND, unpack_all)
                return
            except packages.Unavailable as error:
                errors.append(str(error))
        raise packages.Unavailable("; ".join(errors))


class Tools:
    """QEMU and depmod for this machine, with their libraries, so that they run on any distribution."""

    SUITES = ("trixie", "bookworm-backports")

    def __init__(self, cache, guest_architecture):
        package = {"x86_64": "qemu-system-x86", "aarch64": "qemu-system-arm"}[guest_architecture]
        self.machine = os.uname().machine
        self.folder = cache / "tools" / package
        errors = []
        for name in self.SUITES:
            try:
                suite = packages.Suite(cache, name, debian_name(self.machine))
                self.versions = packages.unpacked(self.folder, suite, [package, "kmod"], unpack_tools)
                break
            except packages.Unavailable as error:
                errors.append(str(error))
        else:
            raise packages.Unavailable("; ".join(errors))
        self.version = self.versions[package]
        self.share = self.folder / "usr/share"

    def command(self, program, as_name=None):
        """The command line of a program of the folder, run by the loader that belongs to its libraries."""
        libraries = self.folder / f"usr/lib/{self.machine}-linux-gnu"
        loader = next(libraries.glob("ld-linux*.so.*"))
        path = next(self.folder / place / program for place in ("usr/bin", "usr/sbin") if (self.folder / place / program).exists())
        name = ["--argv0", as_name] if as_name else []
        return [str(loader), "--library-path", str(libraries), *name, str(path)]


def unpack_tools(deb, into):
    """Of documents and the like, only what QEMU loads."""
    for archive, member in members(deb):
        name = re.sub(r"^\./(?=lib|bin|sbin)", "./usr/", member.name)
        is_needed = re.match(r"\./usr/(?:bin/(?:qemu-system|kmod)|lib/|share/(?:qemu|seabios|qemu-efi))", name)
        if member.isdir() or not is_needed or not (member.isfile() or member.issym()):
            continue
        member.name = name
        archive.extract(member, into, filter="tar" if hasattr(tarfile, "tar_filter") else None)


def write(path, kernel, userland, binary, extra=()):
    """Writes the archive that the kernel unpacks as its root. `extra`: [(name, path)] of further files."""
    with open(path, "wb") as file:
        archive = Archive(file)
        for name in ("dev", "etc", "proc", "sys", "tmp", "run", "root", "usr"):
            archive.folder(name)
        for name in ("bin", "lib", "lib64", "sbin"):
            archive.link(name, f"usr/{name}")
        archive.device("dev/console", 5, 1)
        archive.tree(userland.folder / "usr", "usr")
        archive.tree(kernel.folder / "lib/modules", "usr/lib/modules")
        for source in sorted(HERE.glob("guest*.py")):
            archive.file(f"root/{source.name}", source, 0o644)
        archive.file("init", HERE / "init.sh", 0o755)
        archive.file("usr/bin/sockeye", binary, 0o755)
        for name, source in extra:
            archive.file(name, source, 0o755)
        archive.end()


class Archive:
    """A cpio archive of the kind that kernels unpack: "newc". Documentation/driver-api/early-userspace/buffer-format.rst"""

    def __init__(self, file):
        self.out, self.inode, self.made = file, 0, set()

    def _entry(self, name, mode, size=0, device=(0, 0)):
        self.inode += 1
        self.made.add(name)
        name = name.encode() + b"\0"
        fields = (self.inode, mode, 0, 0, 1, 0, size, 0, 0, *device, len(name), 0)
        self._padded(b"070701" + b"".join(b"%08X" % field for field in fields) + name)

    def _padded(self, data):
        self.out.write(data + b"\0" * (-len(data) % 4))

    def folder(self, name):
        self._entry(name, stat.S_IFDIR | 0o755)

    def link(self, name, target):
        target = os.fsencode(target)
        self._entry(name, stat.S_IFLNK | 0o777, len(target))
        self._padded(target)

    def device(self, name, major, minor):
        self._entry(name, stat.S_IFCHR | 0o600, device=(major, minor))

    def file(self, name, path, mode):
        for parent in reversed(pathlib.PurePath(name).parents):
            if str(parent) != "." and str(parent) not in self.made:
                self.folder(str(parent))
        data = pathlib.Path(path).read_bytes()
        self._entry(name, stat.S_IFREG | mode, len(data))
        self._padded(data)

    def tree(self, root, name):
        for folder, folders, files in os.walk(root):
            folders.sort()
            inside = os.path.normpath(os.path.join(name, os.path.relpath(folder, root)))
            if inside not in self.made:
                self.folder(inside)
            for entry in sorted(files) + [each for each in folders if os.path.islink(os.path.join(folder, each))]:
                path = os.path.join(folder, entry)
                if os.path.islink(path):
                    self.link(f"{inside}/{entry}", os.readlink(path))
                else:
                    self.file(f"{inside}/{entry}", path, os.stat(path).st_mode & 0o777)

    def end(self):
        self._entry("TRAILER!!!", 0)
