"""A proxy of the wire protocol that notes each statement that fails, with its error."""

import socket
import struct
import threading
from collections import Counter
from urllib.parse import urlparse


class Statements:
    """The statements of one connection that are not answered yet."""

    def __init__(self):
        self.prepared = {}
        self.pending = []

    def sent(self, kind, body):
        """Notes a message of the client."""
        if kind == b"Q":
            self.pending.append((kind, text(body)))
        elif kind == b"P":
            name, sql = body.split(b"\0")[:2]
            self.prepared[name] = text(sql)
            self.pending.append((kind, text(sql)))
        elif kind == b"B":
            name = body.split(b"\0")[1]
            self.pending.append((kind, self.prepared.get(name, "")))
        elif kind == b"S":
            self.pending.append((kind, ""))

    def received(self, kind, body):
        """Notes a message of the server; returns the statement and the error if it is one."""
        if kind == b"1":
            self._drop(b"P")
        elif kind in (b"C", b"I", b"s"):
            self._drop(b"B")
        elif kind == b"Z":
            end = next((at for at, (kind, _) in enumerate(self.pending) if kind in (b"S", b"Q")), -1)
            del self.pending[: end + 1]
        elif kind == b"E":
            fields = {part[:1]: text(part[1:]) for part in body.split(b"\0") if part}
            statement = next((sql for kind, sql in self.pending if kind != b"S"), "")
            return statement, f"{fields.get(b'C')} {fields.get(b'M')}"
        return None

    def _drop(self, kind):
        if self.pending and self.pending[0][0] == kind:
            del self.pending[0]


def text(data):
    return " ".join(data.rstrip(b"\0").decode(errors="replace").split())


class Proxy:
    """Listens on a port of its own, passes on to a server, and counts the failed statements."""

    def __init__(self, url):
        parts = urlparse(url)
        self.target = (parts.hostname, parts.port)
        self.failed = Counter()
        self.listener = socket.create_server(("127.0.0.1", 0))
        port = self.listener.getsockname()[1]
        self.url = parts._replace(netloc=f"{parts.username}@127.0.0.1:{port}").geturl()
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self):
        self.listener.close()

    def _accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client):
        server = socket.create_connection(self.target)
        statements = Statements()
        threading.Thread(target=self._answers, args=(server, client, statements), daemon=True).start()
        try:
            while True:
                size, code = struct.unpack("!II", head := read(client, 8))
                if code == 80877103:  # The client asks for TLS.
                    client.sendall(b"N")
                    continue
                server.sendall(head + read(client, size - 8))
                break
            while True:
                kind, body = message(client)
                statements.sent(kind, body)
                server.sendall(kind + struct.pack("!I", len(body) + 4) + body)
        except OSError:
            shut(server)

    def _answers(self, server, client, statements):
        try:
            while True:
                kind, body = message(server)
                if found := statements.received(kind, body):
                    self.failed[found] += 1
                client.sendall(kind + struct.pack("!I", len(body) + 4) + body)
        except OSError:
            shut(client)
            shut(server)


def shut(connection):
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass


def read(connection, size):
    data = bytearray()
    while len(data) < size:
        part = connection.recv(size - len(data))
        if not part:
            raise OSError("the connection ended")
        data += part
    return bytes(data)


def message(connection):
    """Reads a message; returns its kind and its body."""
    kind = read(connection, 1)
    (size,) = struct.unpack("!I", read(connection, 4))
    return kind, read(connection, size - 4)
