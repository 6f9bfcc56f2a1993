"""Makes one connection in the way that the first argument names; the others are the server's address and port.

Prints what happened as one JSON object: ports and process ids.
"""

import array
import json
import os
import socket
import struct
import sys

TCP_SYNCNT, TCP_USER_TIMEOUT = 7, 18


def listener(address, port):
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    return socket.create_server((address, port), family=family)


def connect(address, port):
    return socket.create_connection((address, port))


def transfer(address, port):
    """100,000 bytes there, 5 back; the client closes first."""
    server = listener(address, port)
    client = connect(address, server.getsockname()[1])
    accepted, _ = server.accept()
    child = os.fork()
    if child == 0:
        server.close()
        client.close()
        left = 100_000
        while left:
            left -= len(accepted.recv(65536))
        accepted.sendall(b"fives")
        assert accepted.recv(1) == b""
        accepted.close()
        os._exit(0)
    accepted.close()
    client.sendall(b"x" * 100_000)
    assert client.recv(5) == b"fives"
    local = client.getsockname()[1]
    client.close()
    os.waitpid(child, 0)
    return {"client_port": local, "server_port": server.getsockname()[1], "child": child}


def refused(address, port):
    server = listener(address, 0)
    port = server.getsockname()[1]
    server.close()
    try:
        connect(address, port)
    except ConnectionRefusedError:
        return {"server_port": port}


def unanswered(address, port):
    """The SYN is sent and never answered."""
    client = socket.socket()
    client.setsockopt(socket.IPPROTO_TCP, TCP_SYNCNT, 1)
    client.setsockopt(socket.IPPROTO_TCP, TCP_USER_TIMEOUT, 1500)
    try:
        client.connect((address, port))
    except TimeoutError:
        return {"server_port": port}


def abandoned(address, port):
    client = socket.socket()
    client.setblocking(False)
    client.connect_ex((address, port))
    client.close()
    return {"server_port": port}


def aborted(address, port):
    """The client resets the connection."""
    server = listener(address, port)
    client = connect(address, server.getsockname()[1])
    accepted, _ = server.accept()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    local = client.getsockname()[1]
    client.close()
    try:
        accepted.recv(1)
    except ConnectionResetError:
        accepted.close()
        return {"client_port": local, "server_port": server.getsockname()[1]}


def unread(address, port):
    """The server closes with data that it has not read: the kernel sends a RST."""
    server = listener(address, port)
    client = connect(address, server.getsockname()[1])
    accepted, _ = server.accept()
    client.sendall(b"never read")
    while accepted.recv(1, socket.MSG_PEEK) == b"":
        pass
    accepted.close()
    try:
        client.recv(1)
    except ConnectionResetError:
        pass
    return {"client_port": client.getsockname()[1], "server_port": server.getsockname()[1]}


def prefork(address, port):
    """A process that is not the one that called listen() accepts and closes, without reading."""
    server = listener(address, port)
    child = os.fork()
    if child == 0:
        accepted, _ = server.accept()
        accepted.close()
        os._exit(0)
    client = connect(address, server.getsockname()[1])
    assert client.recv(1) == b""
    os.waitpid(child, 0)
    client.close()
    return {"server_port": server.getsockname()[1], "child": child}


def passed(address, port):
    """The connection is passed on to a process that has never had the listener."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    child = os.fork()
    if child == 0:
        _, ancillary, _, _ = theirs.recvmsg(1, socket.CMSG_SPACE(4))
        (number,) = array.array("i", ancillary[0][2])
        accepted = socket.socket(fileno=number)
        assert accepted.recv(2) == b"hi"
        accepted.close()
        os._exit(0)
    server = listener(address, port)
    client = connect(address, server.getsockname()[1])
    accepted, _ = server.accept()
    ours.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [accepted.fileno()]))])
    accepted.close()
    client.sendall(b"hi")
    assert client.recv(1) == b""
    os.waitpid(child, 0)
    client.close()
    return {"server_port": server.getsockname()[1], "child": child}


def many(address, port):
    """Two hundred connections, one after the other."""
    server = listener(address, port)
    for _ in range(200):
        client = connect(address, server.getsockname()[1])
        accepted, _ = server.accept()
        client.close()
        accepted.close()
    return {"server_port": server.getsockname()[1]}


def older(address, port):
    """A connection that is closed when standard input ends."""
    server = listener(address, port)
    client = connect(address, server.getsockname()[1])
    accepted, _ = server.accept()
    print(json.dumps({"ready": True}), flush=True)
    sys.stdin.read()
    local = client.getsockname()[1]
    client.close()
    accepted.recv(1)
    accepted.close()
    return {"client_port": local, "server_port": server.getsockname()[1]}


result = globals()[sys.argv[1]](sys.argv[2], int(sys.argv[3]))
assert result, "it went another way"
print(json.dumps({**result, "pid": os.getpid()}))
