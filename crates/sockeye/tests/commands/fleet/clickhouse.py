"""ClickHouse's HTTP interface before chdb, which is ClickHouse in this process: FOLDER PORT ADDRESS.

Prints the port, and serves until its standard input ends. It knows what Sockeye uses: POST with the statement in the URL and rows in the
body, or the statement in the body; the settings, parameters and the database of the URL; zstd; user and password; errors with their code.
POST /control?NAME=COUNT makes the next COUNT requests fail: `unavailable` answers 503, `forget` ends the connection after the request was
executed, without an answer. With `collect=0` it is a server before 26.1, which refuses to collect inserts for tables with views. GET /control returns the number of inserts so far.
"""

import http.server
import os
import re
import sys
import threading
import urllib.parse

from chdb import session

folder = sys.argv[1]
database = session.Session(os.path.join(folder, "data"))
lock = threading.Lock()
faults = {"unavailable": 0, "forget": 0, "collect": 1}
inserts = 0
# As in a file of users.
USERS = {"default": "", "shipper": "correct horse"}
# What the interface has besides settings.
OTHER = {"query", "database", "default_format", "wait_end_of_query"}
SETTING = re.compile(r"^[a-z_]+$")


class Error(Exception):
    def __init__(self, status, code, text):
        super().__init__(text)
        self.status, self.code = status, code


def execute(parameters, body, encoding):
    global inserts
    statement = parameters.get("query", "")
    values = {name[6:]: value for name, value in parameters.items() if name.startswith("param_")}
    settings = {name: value for name, value in parameters.items() if name not in OTHER and not name.startswith("param_")}
    if bad := [name for name in settings if not SETTING.match(name)]:
        raise Error(400, 115, f"Code: 115. DB::Exception: Unknown setting {bad[0]}")
    if "database" in parameters:
        run(f"USE `{parameters['database']}`")
    if not statement:
        statement = body.decode()
        return run(statement, parameters.get("default_format", "TabSeparated"), values)
    if not faults["collect"] and settings.get("async_insert") == "1":
        text = "Deduplication in dependent materialized view cannot work together with async inserts"
        raise Error(501, 344, f"Code: 344. DB::Exception: {text}. (SUPPORT_IS_DISABLED)")
    # Rows come from a file: chdb has no connection to read them from.
    insert = re.fullmatch(r"(INSERT INTO .*) FORMAT (\w+)", statement, re.DOTALL)
    if not insert:
        raise Error(400, 62, "Code: 62. DB::Exception: Syntax error")
    rows = os.path.join(folder, f"rows-{threading.get_ident()}")
    with open(rows, "wb") as file:
        file.write(body)
    quoted = ", ".join("{}='{}'".format(name, value.replace("'", "\\'")) for name, value in settings.items())
    compression = f"COMPRESSION '{encoding}'" if encoding else ""
    try:
        run(f"{insert[1]} FROM INFILE '{rows}' {compression} SETTINGS {quoted} FORMAT {insert[2]}")
    finally:
        os.unlink(rows)
    inserts += 1
    return b""


def run(statement, form="TabSeparated", values=None):
    try:
        return database.query(statement, form, params=values or None).bytes()
    except Exception as error:  # chdb has no finer class
        text = str(error)
        code = re.search(r"Code: (\d+)", text)
        code = int(code[1]) if code else 1000
        raise Error(404 if code in (60, 81) else 500, code, text) from error


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.answer(200, str(inserts).encode())

    def do_POST(self):
        url = urllib.parse.urlsplit(self.path)
        parameters = dict(urllib.parse.parse_qsl(url.query, keep_blank_values=True))
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        with lock:
            if url.path == "/control":
                faults.update({name: int(count) for name, count in parameters.items()})
                return self.answer(200, b"")
            # Not those of the test itself.
            if faults["unavailable"] and "X-ClickHouse-User" in self.headers:
                faults["unavailable"] -= 1
                return self.answer(503, b"busy\n")
            user = self.headers.get("X-ClickHouse-User", "default")
            if USERS.get(user) != self.headers.get("X-ClickHouse-Key", ""):
                return self.fail(Error(403, 516, f"Code: 516. DB::Exception: {user}: Authentication failed. (AUTHENTICATION_FAILED)"))
            try:
                result = execute(parameters, body, self.headers.get("Content-Encoding"))
            except Error as error:
                return self.fail(error)
            if faults["forget"] and "query" in parameters:
                faults["forget"] -= 1
                self.close_connection = True
                return None
            return self.answer(200, result)

    def fail(self, error):
        self.answer(error.status, f"{error}\n".encode(), {"X-ClickHouse-Exception-Code": str(error.code)})

    def answer(self, status, body, headers=None):
        self.send_response(status)
        for name, value in {**(headers or {}), "Content-Length": str(len(body)), "Connection": "close"}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)
        self.close_connection = True

    def log_message(self, *_):
        pass


server = http.server.ThreadingHTTPServer((sys.argv[3], int(sys.argv[2])), Handler)
server.daemon_threads = True
# A client that is killed does not wait for its answer.
server.handle_error = lambda *_: None
threading.Thread(target=server.serve_forever, daemon=True).start()
print(server.server_port, flush=True)
sys.stdin.read()
# Without a clean end of chdb, as of a server that is killed.
os._exit(0)
