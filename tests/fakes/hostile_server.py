"""A server of this process whose answers are too large, too slow or damaged; each comes to an end by itself, late."""

import gzip
import http.server
import threading
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from time import sleep

from fakes.sums_server import Server

_ZEROS = bytes(80_000_000)
_BARE = zlib.compressobj(wbits=-zlib.MAX_WBITS)
PACKED = {
    "bomb": ("gzip", gzip.compress(_ZEROS, 1)),
    "twice": ("gzip, GZIP", gzip.compress(gzip.compress(_ZEROS))),
    "thrice": ("gzip, gzip, gzip", gzip.compress(gzip.compress(gzip.compress(b"[3]")))),
    "cut": ("gzip", gzip.compress(b"[3]")[:-9]),
    "damaged": ("deflate", b"\x78nothing"),
    "bare": ("deflate", _BARE.compress(b"[3]") + _BARE.flush()),
    "whole": ("x-gzip", gzip.compress(b"[3]")),
    "unknown": ("br", b"[3]"),
}


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers as the last part of the path says."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("content-length", 0)))
        how = self.path.rpartition("/")[2]
        self.send_response(200)
        if how in PACKED:
            encoding, body = PACKED[how]
            self.send_header("content-encoding", encoding)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
            return
        self.send_header("connection", "close")
        self.end_headers()
        try:
            for _ in range(40):
                sleep(0.05 if how == "drip" else 0.0)
                self.wfile.write(b"0" if how == "drip" else _ZEROS[:2_000_000])
        except OSError:
            pass  # the client has had enough
        self.close_connection = True

    def do_GET(self) -> None:
        self.do_POST()

    def log_message(self, *_: object) -> None:
        """Be quiet."""


@contextmanager
def hostile_server() -> Iterator[str]:
    """Serve on a free port of the loopback; yield the address."""
    server = Server(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()
