"""A server of the built binary on a free port, with the mini model, for every test here."""

import json
import os
import re
import subprocess
import threading
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
MINI = ROOT / "models" / "mini"
CONTEXT = 2048


@dataclass
class Server:
    """Where a server is."""

    url: str

    def call(self, method, path, body=None):
        """Status and JSON of a request without a client library."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"content-type": "application/json"}
        request = urllib.request.Request(self.url + path, data, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=600) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            return error.code, json.load(error)

    def post(self, path, body):
        """The JSON of a POST that must be accepted."""
        status, answer = self.call("POST", path, body)
        assert status == 200, answer
        return answer


def start(*flags):
    """Starts the server that TOKENFARE_BIN names and gives it with its process, once /health answers."""
    binary = os.environ.get("TOKENFARE_BIN")
    assert binary, "TOKENFARE_BIN must name the built binary (`cargo xtask clients` sets it)"
    environment = {k: v for k, v in os.environ.items() if not k.startswith("TF_")}
    command = [binary, "serve", str(MINI), "--port", "0", *flags]
    process = subprocess.Popen(
        command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    lines = []
    for line in process.stderr:
        lines.append(line)
        address = re.search(r"serving .* at (http://\S+)", line)
        if address:
            break
    else:
        pytest.fail("the server did not start:\n" + "".join(lines))
    # A pipe that nobody reads would fill.
    threading.Thread(target=lambda: [None for _ in process.stderr], daemon=True).start()
    server = Server(address[1])
    deadline = time.monotonic() + 60
    while server.call("GET", "/health")[1]["status"] != "ok":
        assert time.monotonic() < deadline, "/health never said ok"
        time.sleep(0.05)
    return server, process


@pytest.fixture(scope="session")
def server():
    """One server for all tests, killed at the end."""
    server, process = start("--parallel", "4", "--context", str(CONTEXT))
    try:
        yield server
        _, health = server.call("GET", "/health")
        assert (health["running"], health["waiting"]) == (0, 0), health
        assert process.poll() is None, "the server ended by itself"
    finally:
        process.kill()
        process.wait()
