"""Generated requests for every operation of /openapi.json: no status, type or body but the documented, and no failure of the server."""

import json
import subprocess
import sys

import pytest
from conftest import start

CHECKS = [
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_schema_conformance",
]


@pytest.fixture
def small():
    """A server whose longest reply is short, so that a request without a cap ends soon."""
    server, process = start("--parallel", "8", "--context", "96")
    try:
        yield server
    finally:
        process.kill()
        process.wait()


def describe_events(document):
    """Turns the schemas of streams, which are those of an event's data, into those of the event, as schemathesis reads them."""
    for path, operation in ((path, o) for path, methods in document["paths"].items() for o in methods.values()):
        for response in operation["responses"].values():
            stream = response.get("content", {}).get("text/event-stream")
            if stream:
                data = {"type": "string", "contentMediaType": "application/json", "contentSchema": stream["schema"]}
                # OpenAI's older streams end with a word that is no JSON.
                if path in ("/v1/chat/completions", "/v1/completions"):
                    data = {"anyOf": [{"const": "[DONE]"}, data]}
                stream["schema"] = {"type": "object", "properties": {"data": data}, "required": ["data"]}


def test_every_operation_answers_as_documented(small, tmp_path):
    _, document = small.call("GET", "/openapi.json")
    describe_events(document)
    # From its own address the document would be left out.
    file = tmp_path / "document.json"
    file.write_text(json.dumps(document))
    command = [sys.executable, "-m", "schemathesis.cli", "run", str(file), "--url", small.url]
    command += ["--checks", ",".join(CHECKS), "--phases", "examples,coverage,fuzzing", "--max-examples", "15"]
    command += ["--generation-deterministic", "--continue-on-failure", "--workers", "2", "--no-color", "--request-timeout", "300"]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=900)
    assert run.returncode == 0, run.stdout[-20000:] + run.stderr
    operations = sum(len(methods) for methods in document["paths"].values())
    assert f"{operations} selected / {operations} total" in run.stdout, run.stdout
    assert small.call("GET", "/health")[1] == {"status": "ok", "running": 0, "waiting": 0}
