"""Holders of sockets that safe Rust cannot play. Says "@ PID FD INODE" for each descriptor, "@ ready" when done,
and stays until stdin closes."""

import ctypes
import os
import socket
import sys
import threading
import time

libc = ctypes.CDLL(None, use_errno=True)
NR_EXIT = {"x86_64": 60, "aarch64": 93}[os.uname().machine]
NR_IO_URING_SETUP, NR_IO_URING_REGISTER = 425, 427
IORING_REGISTER_FILES = 2


def say(*words):
    print("@", *words, flush=True)


def inode(fd):
    return os.fstat(fd).st_ino


def udp():
    one = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    one.bind(("127.0.0.1", 0))
    return one


def wait_for_the_end():
    while os.read(0, 1):
        pass


def leaderless(threads):
    """The first thread ends; the others, who share its descriptors, live on."""
    held = udp()

    def sit():
        wait_for_the_end()
        os._exit(0)

    def talk():
        # Until the leader is a zombie.
        while open("/proc/self/stat").read().rpartition(")")[2].split()[0] != "Z":
            time.sleep(0.001)
        say(os.getpid(), held.fileno(), inode(held.fileno()))
        say("ready")
        sit()

    threading.stack_size(64 * 1024)
    try:
        for _ in range(threads - 1):
            threading.Thread(target=sit, daemon=True).start()
        threading.Thread(target=talk, daemon=True).start()
    except RuntimeError as error:
        say("skip", error)
        say("ready")
        os._exit(0)
    libc.syscall(NR_EXIT, 0)


def uring():
    """A socket that only an io_uring's table of registered files holds."""
    parameters = ctypes.create_string_buffer(120)
    ring = libc.syscall(NR_IO_URING_SETUP, 4, parameters)
    if ring < 0:
        say("skip", "io_uring_setup:", os.strerror(ctypes.get_errno()))
        say("ready")
        return
    held = udp()
    said = ("socket", inode(held.fileno()))
    files = (ctypes.c_int * 1)(held.fileno())
    if libc.syscall(NR_IO_URING_REGISTER, ring, IORING_REGISTER_FILES, files, 1) < 0:
        said = ("skip", "io_uring_register:", os.strerror(ctypes.get_errno()))
    held.close()
    say(*said)
    say("ready")
    wait_for_the_end()


role, _, argument = sys.argv[1].partition("=")
if role == "leaderless":
    leaderless(int(argument))
elif role == "uring":
    uring()
