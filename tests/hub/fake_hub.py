"""A local server with the part of the Hub's HTTP API that an upload uses."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread


@dataclass
class FakeHub:
    """A Hub on this machine. It stores large files (safetensors) by SHA-256, as git-lfs does, and others in the commit.

    address: URL; repositories: files of each model; private: names of private models; tokens: access tokens that may
    write; commits: titles; requests: method and path of all.
    """

    address: str = ""
    repositories: dict[str, dict[str, bytes]] = field(default_factory=dict)
    private: set[str] = field(default_factory=set)
    tokens: set[str] = field(default_factory=lambda: {"good-token"})
    commits: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    objects: dict[str, bytes] = field(default_factory=dict)


@contextmanager
def fake_hub() -> Iterator[FakeHub]:
    """A running one."""
    hub = FakeHub()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            """Nothing on the terminal."""

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"] or 0))
            hub.requests.append(f"POST {self.path}")
            if self.headers.get("Authorization", "").removeprefix("Bearer ") not in hub.tokens:
                self.answer(401, {"error": "Invalid username or password."})
            elif self.path == "/api/repos/create":
                asked = json.loads(body)
                name = f"{asked['organization']}/{asked['name']}" if asked.get("organization") else asked["name"]
                if name in hub.repositories:
                    self.answer(409, {"error": "You already created this model repo", "url": f"{hub.address}/{name}"})
                    return
                hub.repositories[name] = {}
                if asked.get("private") or asked.get("visibility") == "private":
                    hub.private.add(name)
                self.answer(200, {"url": f"{hub.address}/{name}", "name": name})
            elif self.path == "/api/validate-yaml":
                self.answer(200, {"errors": [], "warnings": []})
            elif "/preupload/" in self.path:
                files = [
                    {"path": one["path"], "uploadMode": "lfs" if one["path"].endswith("safetensors") else "regular"}
                    for one in json.loads(body)["files"]
                ]
                self.answer(200, {"files": [{**one, "shouldIgnore": False} for one in files]})
            elif self.path.endswith("/info/lfs/objects/batch"):
                objects = [
                    {**one, "actions": {"upload": {"href": f"{hub.address}/objects/{one['oid']}", "header": {}}}}
                    for one in json.loads(body)["objects"]
                ]
                self.answer(200, {"transfer": "basic", "objects": objects})
            elif "/commit/" in self.path:
                name = self.path.removeprefix("/api/models/").partition("/commit/")[0]
                for line in body.splitlines():
                    entry = json.loads(line)
                    value = entry["value"]
                    if entry["key"] == "header":
                        hub.commits.append(value["summary"])
                    elif entry["key"] == "file":
                        hub.repositories[name][value["path"]] = base64.b64decode(value["content"])
                    elif entry["key"] == "lfsFile":
                        hub.repositories[name][value["path"]] = hub.objects[value["oid"]]
                url = f"{hub.address}/{name}/commit/{'0' * 40}"
                self.answer(200, {"success": True, "commitOid": "0" * 40, "commitUrl": url, "hookOutput": ""})
            else:
                self.answer(404, {"error": f"unknown path {self.path}"})

        def do_PUT(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"] or 0))
            hub.requests.append(f"PUT {self.path}")
            hub.objects[hashlib.sha256(body).hexdigest()] = body
            self.answer(200, {})

        def answer(self, status: int, value: object) -> None:
            """One JSON response."""
            data = json.dumps(value).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    hub.address = f"http://127.0.0.1:{server.server_address[1]}"
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
