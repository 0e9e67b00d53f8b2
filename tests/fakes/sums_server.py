"""A server of this process that answers with the sums of the rows it is sent."""

import http.server
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers with the sums of the rows; `/busy` refuses every other request, `/keyed` one without its headers."""

    protocol_version = "HTTP/1.1"
    seen = 0

    def do_POST(self) -> None:
        rows = json.loads(self.rfile.read(int(self.headers["content-length"])))
        Handler.seen += 1
        answer = json.dumps([sum(row) for row in rows]).encode()
        refused = (self.path == "/busy" and Handler.seen % 2 == 0) or (self.path == "/keyed" and not self._has_key())
        self.send_response(503 if refused else 200)
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def _has_key(self) -> bool:
        return (self.headers["x-key"], self.headers["content-type"]) == ("k", "application/json")

    def log_message(self, *_: object) -> None:
        """Be quiet."""


class Server(http.server.ThreadingHTTPServer):
    """Lets as many connections wait as a load may open at once on a busy machine."""

    request_queue_size = 128


@contextmanager
def serving() -> Iterator[str]:
    """Serve on a free port of the loopback; yield the address."""
    Handler.seen = 0
    server = Server(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()
