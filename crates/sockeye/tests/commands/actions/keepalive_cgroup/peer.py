"""TCP connections, and the keepalive that each of them has: [on, time, interval, probes, user timeout]."""
import errno, json, socket, subprocess, sys


def keepalive(s):
    return [s.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)] + [s.getsockopt(6, option) for option in (4, 5, 6, 18)]


def pair(listen, connect, before=None):
    family = socket.AF_INET6 if ":" in listen else socket.AF_INET
    server = socket.socket(family)
    if family == socket.AF_INET6:
        server.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    server.bind((listen, 0))
    server.listen()
    client = socket.socket(socket.AF_INET6 if ":" in connect else socket.AF_INET)
    if before:
        before(client)
        before(server)
    client.connect((connect, server.getsockname()[1]))
    return client, server.accept()[0], server


def own(s):
    s.setsockopt(6, 4, 33)
    s.setsockopt(6, 6, 3)


def pairs():
    said = {}
    ways = {"v4": ("127.0.0.1", "127.0.0.1"), "v6": ("::1", "::1"), "mapped": ("::", "127.0.0.1"), "mapped6": ("::", "::ffff:127.0.0.1")}
    kept = []
    for name, (listen, connect) in ways.items():
        client, server, listener = pair(listen, connect)
        kept += [client, server]
        said[name] = [keepalive(client), keepalive(server)]
        said["listener"] = keepalive(listener)
    client, server, _ = pair("127.0.0.1", "127.0.0.1", own)
    said["before"] = [keepalive(client), keepalive(server)]
    client, server, _ = pair("127.0.0.1", "127.0.0.1")
    client.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 0)
    own(server)
    said["after"] = [keepalive(client), keepalive(server)]
    said["ss"] = subprocess.run(["ss", "-tnoH", "state", "established"], stdout=subprocess.PIPE, text=True).stdout
    return said


mode = sys.argv[1]
if mode == "pairs":
    print(json.dumps(pairs()))
elif mode == "child":
    sys.exit(subprocess.run([sys.executable, __file__, "pairs"]).returncode)
elif mode == "again":
    # Another pair for each line, by one listener, and what all those before have now.
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    held = []
    for _ in sys.stdin:
        client = socket.create_connection(listener.getsockname())
        held.append((client, listener.accept()[0]))
        print(json.dumps([[keepalive(client), keepalive(server)] for client, server in held]), flush=True)
elif mode == "serve":
    server = socket.socket()
    server.bind((sys.argv[2], 0))
    server.listen()
    print(server.getsockname()[1], flush=True)
    held = []
    while True:
        held.append(server.accept())
elif mode == "wait":
    client = socket.create_connection((sys.argv[2], int(sys.argv[3])))
    print("connected", flush=True)
    try:
        client.recv(1)
        print("ended", flush=True)
    except OSError as error:
        print(errno.errorcode[error.errno], flush=True)
