"""Runs a program as systemd would run it in a unit, where no systemd runs: its filters of system calls, capabilities, user and mounts.

What it does not do: limits of memory, processes and addresses (cgroups), private users.
"""

import configparser
import ctypes
import functools
import os
import shlex
import struct
import subprocess
import traceback

# <linux/capability.h>
CAPABILITIES = {
    "CAP_CHOWN": 0, "CAP_DAC_OVERRIDE": 1, "CAP_DAC_READ_SEARCH": 2, "CAP_NET_ADMIN": 12, "CAP_NET_RAW": 13, "CAP_SYS_PTRACE": 19,
    "CAP_SYS_ADMIN": 21, "CAP_SYS_RESOURCE": 24, "CAP_SYSLOG": 34, "CAP_PERFMON": 38, "CAP_BPF": 39, "CAP_CHECKPOINT_RESTORE": 40,
}
CAPABILITIES_MAX = 64
# <linux/prctl.h>
PR_SET_KEEPCAPS, PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS, PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE = 8, 24, 38, 47, 2
LINUX_CAPABILITY_VERSION_3 = 0x20080522
# <seccomp.h>, <linux/socket.h>, <sys/mman.h>, <linux/sched.h>
ALLOW, ERRNO = 0x7FFF0000, 0x00050000
NE, EQ, GT, MASKED = 1, 4, 6, 7
FAMILIES = {"AF_UNIX": 1, "AF_INET": 2, "AF_INET6": 10, "AF_NETLINK": 16, "AF_PACKET": 17}
FAMILIES_MAX = 46
EPERM, ENOSYS, EAFNOSUPPORT = 1, 38, 97
PROT_WRITE_EXEC, PROT_EXEC = 6, 4
# CLONE_NEWNS first.
NAMESPACES = [0x00020000, 0x02000000, 0x04000000, 0x08000000, 0x10000000, 0x20000000, 0x40000000]
# A user without a name, as DynamicUser chooses one.
USER = 61234

libc = ctypes.CDLL(None, use_errno=True)


class Unit:
    """The settings of a unit file that matter here."""

    def __init__(self, text):
        parser = configparser.RawConfigParser(strict=False, dict_type=Repeated, delimiters=("=",), comment_prefixes=("#",))
        parser.optionxform = str
        parser.read_string(text)
        self.values = {key: value.split("\n") for key, value in parser["Service"].items()}

    def words(self, name):
        return [word for line in self.values.get(name, []) for word in line.split()]

    def is_set(self, name):
        return self.values.get(name) in (["yes"], ["strict"])

    @property
    def command(self):
        return shlex.split(self.values["ExecStart"][0])

    def calls(self):
        """Names of the system calls that it may make: lines of SystemCallFilter add or, with ~, remove."""
        calls = expanded("@default")
        for line in self.values.get("SystemCallFilter", []):
            names = {name for word in line.lstrip("~").split() for name in expanded(word)}
            calls = calls - names if line.startswith("~") else calls | names
        return calls


class Repeated(dict):
    """Keeps all lines of a setting that occurs several times."""

    def __setitem__(self, key, value):
        if isinstance(value, list) and key in self:
            self[key].extend(value)
        else:
            super().__setitem__(key, value)


@functools.cache
def groups():
    """The system calls and groups in each group that systemd knows."""
    listed = subprocess.run(["systemd-analyze", "--no-pager", "syscall-filter"], check=True, stdout=subprocess.PIPE,
                            stderr=subprocess.DEVNULL, text=True).stdout
    found = {}
    for line in listed.splitlines():
        if line.startswith("@"):
            members = found.setdefault(line.strip(), [])
        elif line.startswith("    ") and not line.strip().startswith("#"):
            members.append(line.strip())
        elif not line.startswith(" "):
            # Calls that are in no group, at the end.
            members = []
    return found


def expanded(word):
    """The system calls of a group such as @system-service, or the one that it is."""
    return {name for member in groups()[word] for name in expanded(member)} if word.startswith("@") else {word}


class Comparison(ctypes.Structure):
    """struct scmp_arg_cmp"""

    _fields_ = [("arg", ctypes.c_uint), ("op", ctypes.c_int), ("a", ctypes.c_uint64), ("b", ctypes.c_uint64)]


class Filter:
    """A filter of libseccomp, which libsystemd uses too."""

    def __init__(self, default):
        self.library = ctypes.CDLL("libseccomp.so.2")
        self.library.seccomp_init.restype = ctypes.c_void_p
        self.library.seccomp_init.argtypes = [ctypes.c_uint32]
        self.context = ctypes.c_void_p(self.library.seccomp_init(default))

    def add(self, action, call, *comparisons):
        number = self.library.seccomp_syscall_resolve_name(call.encode())
        if number < 0:
            # Not of this architecture, or newer than the library.
            return
        array = (Comparison * len(comparisons))(*comparisons)
        status = self.library.seccomp_rule_add_array(self.context, ctypes.c_uint32(action), number, len(comparisons), array)
        if status != 0:
            raise OSError(-status, f"a rule for {call}")

    def load(self):
        status = self.library.seccomp_load(self.context)
        if status != 0:
            raise OSError(-status, "seccomp_load")


def filters(unit):
    """As systemd makes them of a unit, in the order in which they are loaded."""
    made = []
    if unit.words("RestrictAddressFamilies"):
        families = Filter(ALLOW)
        kept = {FAMILIES[name] for name in unit.words("RestrictAddressFamilies")}
        for family in set(range(FAMILIES_MAX)) - kept:
            families.add(ERRNO | EAFNOSUPPORT, "socket", Comparison(0, EQ, family, 0))
        families.add(ERRNO | EAFNOSUPPORT, "socket", Comparison(0, GT, FAMILIES_MAX - 1, 0))
        made.append(families)
    if unit.is_set("MemoryDenyWriteExecute"):
        memory = Filter(ALLOW)
        memory.add(ERRNO | EPERM, "mmap", Comparison(2, MASKED, PROT_WRITE_EXEC, PROT_WRITE_EXEC))
        for call in ("mprotect", "pkey_mprotect"):
            memory.add(ERRNO | EPERM, call, Comparison(2, MASKED, PROT_EXEC, PROT_EXEC))
        made.append(memory)
    if unit.is_set("RestrictNamespaces"):
        spaces = Filter(ALLOW)
        spaces.add(ERRNO | EPERM, "setns")
        spaces.add(ERRNO | ENOSYS, "clone3")
        for flag in NAMESPACES:
            spaces.add(ERRNO | EPERM, "unshare", Comparison(0, MASKED, flag, flag))
            spaces.add(ERRNO | EPERM, "clone", Comparison(0, MASKED, flag, flag))
        made.append(spaces)
    if unit.is_set("LockPersonality"):
        personality = Filter(ALLOW)
        personality.add(ERRNO | EPERM, "personality", Comparison(0, NE, 0, 0))
        made.append(personality)
    # The last, because it refuses to load others.
    calls = Filter(ERRNO | EPERM)
    for call in sorted(unit.calls()):
        calls.add(ALLOW, call)
    return [*made, calls]


def prctl(*arguments):
    if libc.prctl(*(ctypes.c_ulong(argument) for argument in arguments), *[ctypes.c_ulong(0)] * (5 - len(arguments))) != 0:
        raise OSError(ctypes.get_errno(), f"prctl {arguments}")


def become(user, bounding, ambient):
    """Becomes a user with these capabilities and no others."""
    prctl(PR_SET_NO_NEW_PRIVS, 1)
    for number in range(CAPABILITIES_MAX):
        if number not in bounding and libc.prctl(PR_CAPBSET_DROP, number, 0, 0, 0) != 0:
            break
    prctl(PR_SET_KEEPCAPS, 1)
    os.setgroups([])
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)
    mask = sum(1 << number for number in ambient)
    low, high = mask & 0xFFFFFFFF, mask >> 32
    header = struct.pack("=Ii", LINUX_CAPABILITY_VERSION_3, 0)
    if libc.capset(header, struct.pack("=6I", low, low, low, high, high, high)) != 0:
        raise OSError(ctypes.get_errno(), "capset")
    for number in ambient:
        prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, number)


def start(unit, command, output=None, environment=None):
    """Starts the command confined as the unit says, and returns its process. Output goes to the descriptor, or where ours goes."""
    child = os.fork()
    if child:
        return child
    try:
        for descriptor in (1, 2) if output is not None else ():
            os.dup2(output, descriptor)
        mount_read_only(unit)
        numbers = [CAPABILITIES[name] for name in unit.words("AmbientCapabilities")]
        made = filters(unit)
        become(USER, numbers, numbers)
        for confinement in made:
            confinement.load()
        os.execve(command[0], command, {"PATH": os.defpath, **(environment or {})})
    except BaseException:
        traceback.print_exc()
    finally:
        # What the parent would do after this call is not for the child.
        os._exit(126)


def mount_read_only(unit):
    """In a mount namespace of its own, makes read-only what the unit protects."""
    # CLONE_NEWNS
    if libc.unshare(NAMESPACES[0]) != 0:
        raise OSError(ctypes.get_errno(), "unshare")
    subprocess.run(["mount", "--make-rprivate", "/"], check=True)
    if unit.is_set("ProtectSystem"):
        for line in open("/proc/self/mountinfo").read().splitlines():
            target = line.split()[4].replace("\\040", " ")
            if not target.startswith(("/proc", "/sys", "/dev")):
                subprocess.run(["mount", "-o", "remount,bind,ro", target], stderr=subprocess.DEVNULL, check=target == "/")
    if unit.is_set("ProtectKernelTunables"):
        for target in ("/proc/sys", "/sys"):
            subprocess.run(["mount", "--rbind", target, target], check=True)
            subprocess.run(["mount", "-o", "remount,bind,ro", target], check=True)
