"""A program that is none of ours (it returns 1 and does nothing else), attached to a cgroup by these flags."""
import ctypes, os, platform, struct, sys

libc = ctypes.CDLL(None, use_errno=True)
number = {"x86_64": 321, "aarch64": 280}.get(platform.machine())
if number is None:
    sys.exit("the number of bpf(2) is not known here")


def bpf(command, attributes):
    buffer = ctypes.create_string_buffer(attributes, len(attributes))
    result = libc.syscall(number, command, buffer, len(attributes))
    if result < 0:
        sys.exit("bpf(%d): %s" % (command, os.strerror(ctypes.get_errno())))
    return result


code = ctypes.create_string_buffer(struct.pack("<BBhi", 0xB7, 0, 0, 1) + struct.pack("<BBhi", 0x95, 0, 0, 0))
license = ctypes.create_string_buffer(b"GPL")
load = struct.pack("IIQQIIQII16sII", 13, 2, ctypes.addressof(code), ctypes.addressof(license), 0, 0, 0, 0, 0, b"others", 0, 3)
program = bpf(5, load)
cgroup = os.open(sys.argv[1], os.O_RDONLY)
bpf(8, struct.pack("IIII", cgroup, program, 3, int(sys.argv[2])))
