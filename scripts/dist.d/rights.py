"""What docs/guide/permissions-and-containers.md says about capabilities, tried with exactly these, as an unprivileged user."""

import os
import socket
import subprocess

import sandbox

PORT = 47000
SO_MARK, MARK = 36, 0x4D
OWNER = "python3"
LISTED = ["sockets", "-tanp"]

# Capabilities, command, a text that it prints; with "!" a text that it does not print.
CASES = [
    ([], LISTED, f"127.0.0.1:{PORT}"),
    ([], LISTED, f"!{OWNER}"),
    (["SYS_PTRACE"], LISTED, f"!{OWNER}"),
    (["DAC_READ_SEARCH"], LISTED, f"!{OWNER}"),
    (["SYS_PTRACE", "DAC_READ_SEARCH"], LISTED, OWNER),
    (["BPF"], [*LISTED, "--source", "bpf"], "needs CAP_BPF and CAP_PERFMON"),
    (["BPF", "PERFMON"], [*LISTED, "-v"], OWNER),
    (["BPF", "PERFMON"], [*LISTED, "-v", "--source", "bpf"], "tcp: read by bpf"),
    (["BPF", "PERFMON"], ["sockets", "-tanv", "--netns", "all"], "read by bpf"),
    ([], ["sockets", "-tane"], f"!{MARK:#x}"),
    (["NET_ADMIN"], ["sockets", "-tane"], f"{MARK:#x}"),
    ([], ["prof", "-p", "{pid}", "-d", "0.2"], "CAP_PERFMON"),
    (["BPF", "PERFMON"], ["prof", "-p", "{pid}", "-d", "0.2"], "!Not looked at (syscalls)"),
    ([], ["capture", "-i", "lo", "-d", "0.2", "-o", "/dev/null"], "CAP_NET_RAW"),
    (["NET_RAW"], ["capture", "-i", "lo", "-d", "0.2", "-o", "/dev/null"], "packets captured"),
    ([], ["sockets", "-tan", "--netns", "named", "--source", "diag"], "CAP_SYS_ADMIN"),
    (["SYS_ADMIN"], ["sockets", "-tanv", "--netns", "named", "--source", "diag"], "tcp: read by"),
    (["SYS_ADMIN"], ["ns", "exec", "named", "--", "echo", "entered"], "entered"),
    (["SYS_ADMIN"], ["ns", "add", "made"], "cannot create"),
    (["SYS_ADMIN", "DAC_OVERRIDE"], ["ns", "add", "made"], "!cannot"),
    (["SYS_ADMIN", "DAC_OVERRIDE"], ["ns", "del", "made"], "!cannot"),
    ([], ["keepalive", "run", "--", "echo", "ran"], "CAP_NET_ADMIN"),
    (["BPF", "PERFMON", "NET_ADMIN", "DAC_OVERRIDE"], ["keepalive", "run", "--", "echo", "ran"], "ran"),
    ([], ["keepalive", "set", "--yes", f"sport = :{PORT}"], "not set"),
    (["SYS_PTRACE", "DAC_READ_SEARCH"], ["keepalive", "set", "--yes", f"sport = :{PORT}"], "1 connection set"),
    (["SYS_PTRACE", "BPF", "PERFMON"], ["keepalive", "set", "--yes", f"sport = :{PORT}"], "1 connection set"),
    ([], ["kill", "--yes", f"sport = :{PORT} and state established"], "needs CAP_NET_ADMIN"),
    # The last: it closes the connection.
    (["NET_ADMIN"], ["kill", "--yes", f"sport = :{PORT} and state established"], "1 connection closed"),
]


def check(program):
    """Raises AssertionError where a case is wrong. To be called in new network and mount namespaces."""
    subprocess.run(["mount", "--make-rprivate", "/"], check=True)
    os.makedirs("/run/netns", exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=755", "rights", "/run/netns"], check=True)
    subprocess.run(["ip", "netns", "add", "named"], check=True)
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    listener = socket.create_server(("127.0.0.1", PORT))
    client = socket.create_connection(("127.0.0.1", PORT))
    client.setsockopt(socket.SOL_SOCKET, SO_MARK, MARK)
    accepted, _ = listener.accept()
    wrong = []
    for capabilities, command, text in CASES:
        command = [word.format(pid=os.getpid()) for word in command]
        printed = run(program, capabilities, command)
        if (text.lstrip("!") in printed) == text.startswith("!"):
            wrong.append(f"with {capabilities or 'nothing'}, {' '.join(command)}: expected {text!r} in\n{printed}")
    for connection in (listener, client, accepted):
        connection.close()
    assert not wrong, "\n".join(wrong)


def run(program, capabilities, command):
    """Runs it with exactly these capabilities, and returns its output and messages."""
    numbers = [sandbox.CAPABILITIES[f"CAP_{name}"] for name in capabilities]
    result = subprocess.run([program, *command], preexec_fn=lambda: sandbox.become(sandbox.USER, numbers, numbers), stdin=subprocess.DEVNULL,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=30, cwd="/")
    return result.stdout
