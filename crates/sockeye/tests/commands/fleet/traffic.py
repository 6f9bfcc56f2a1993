"""Servers and clients of one host, until standard input ends: [serve:PORT:MODE ...] [connect:NAME:IP:PORT:CONNECTIONS:ROUNDS:BYTES ...].

A server that `echoes` answers each request with ten times its bytes; one that is `stuck` accepts and does not read; one that is `deaf` does not
accept. A client sends ROUNDS requests of BYTES by each of its connections, 100 ms apart; to a stuck server it writes without waiting for an
answer. Prints `ready` when the servers listen; clients begin when a line is read, and print `done` when they are.
"""

import socket
import sys
import threading
import time


def receive(connection, count):
    while count > 0:
        part = connection.recv(min(count, 1 << 16))
        if not part:
            raise OSError("ended")
        count -= len(part)


def serve(port, mode):
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("", port))
    listener.listen(1 if mode == "deaf" else 16)
    kept.append(listener)

    def answer(connection):
        size = int.from_bytes(connection.recv(4, socket.MSG_WAITALL), "big")
        while True:
            try:
                receive(connection, size)
                connection.sendall(bytes(10 * size))
            except OSError:
                return

    def accept():
        while True:
            connection, _ = listener.accept()
            kept.append(connection)
            if mode == "echoes":
                # An answer fits, so that the server does not wait for its own buffer.
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
                threading.Thread(target=answer, args=(connection,), daemon=True).start()

    if mode != "deaf":
        threading.Thread(target=accept, daemon=True).start()


def talk(ip, port, rounds, size, mode):
    connection = socket.socket()
    kept.append(connection)
    connection.settimeout(30)
    try:
        connection.connect((ip, port))
    except OSError:
        return
    if mode == "deaf":
        return
    connection.sendall(size.to_bytes(4, "big"))
    if mode == "stuck":
        connection.setblocking(False)
    for _ in range(rounds):
        if mode == "stuck":
            try:
                connection.send(bytes(size))
            except BlockingIOError:
                pass
        else:
            connection.sendall(bytes(size))
            receive(connection, 10 * size)
        time.sleep(0.1)


kept = []
clients = []
for word in sys.argv[1:]:
    kind, *rest = word.split(":")
    if kind == "serve":
        serve(int(rest[0]), rest[1])
    else:
        mode, ip, port, connections, rounds, size = rest
        for _ in range(int(connections)):
            arguments = (ip, int(port), int(rounds), int(size), mode)
            clients.append(threading.Thread(target=talk, args=arguments, daemon=True))
print("ready", flush=True)
sys.stdin.readline()
for client in clients:
    client.start()
for client in clients:
    client.join()
print("done", flush=True)
sys.stdin.read()
