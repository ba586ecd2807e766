"""Nobody but the person at the studio's own pages gets in: rebinding, foreign pages, missing keys, bent requests."""

import json
from pathlib import Path

import pytest

from studio.serving import Served, serving

SECRETS = ("/", "/tokens", "/api/studio", "/static/style.css", "/static/lib/dom.js")


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    folder = tmp_path_factory.mktemp("studio")
    (folder / "secret.txt").write_text("SECRET", encoding="utf-8")
    (folder / "runs").mkdir()
    with serving(folder / "runs") as found:
        yield found


def own(served: Served) -> dict[str, str]:
    return {"Cookie": served.cookie}


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:{port}",
        "127.0.0.1.evil.example:{port}",
        "localhost.evil.example:{port}",
        "127.0.0.1",
        "127.0.0.1:1",
        "0.0.0.0:{port}",
        "127.0.0.1:{port}, evil.example",
        "[::]:{port}",
        "LOCALHOST.:{port}",
        "",
    ],
)
@pytest.mark.parametrize("path", SECRETS)
def test_a_foreign_name_for_this_machine_is_refused(served, host, path):
    answer = served.request("GET", path, headers={**own(served), "Host": host.format(port=served.port)})
    assert answer.status == 421 and b"Maskwright" not in answer.body


@pytest.mark.parametrize("hosts", [[b"127.0.0.1:%d", b"evil.example"], [b"evil.example", b"127.0.0.1:%d"], []])
def test_two_hosts_or_none_are_refused(served, hosts):
    lines = b"".join(b"Host: " + (host % served.port if b"%" in host else host) + b"\r\n" for host in hosts)
    cookie = served.cookie.encode()
    found = served.raw(b"GET /api/studio HTTP/1.1\r\n" + lines + b"Cookie: " + cookie + b"\r\n\r\n")
    assert found.split(b" ")[1] in (b"421", b"400") and b"models" not in found


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost", "[::1]"])
def test_its_own_names_are_served(served, name):
    assert served.get("/api/studio", Host=f"{name}:{served.port}").status == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:1"},
        {"Origin": "https://127.0.0.1:{port}"},
        {"Origin": "http://localhost:{port}"},
        {"Origin": "http://127.0.0.1:{port}.evil.example"},
        {"Origin": ""},
        {"Origin": "{own}", "Sec-Fetch-Site": "same-site"},
        {"Origin": "{own}", "Sec-Fetch-Site": "cross-site"},
        {},
    ],
)
@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
def test_a_foreign_page_cannot_change_anything(served, headers, method):
    filled = {name: value.format(port=served.port, own=served.origin) for name, value in headers.items()}
    body = json.dumps({"words": "a:1", "merges": 1}).encode()
    answer = served.request(method, "/api/tokens/learn", body, {**own(served), **filled})
    assert answer.status == 403 and "access-control-allow-origin" not in answer.headers


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "script"},
        {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "image"},
        {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "cors", "Sec-Fetch-Dest": "empty"},
        {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "iframe"},
    ],
)
@pytest.mark.parametrize("path", SECRETS)
def test_a_foreign_page_cannot_read_or_embed_anything(served, headers, path):
    assert served.get(path, **headers).status == 403


@pytest.mark.parametrize("path", SECRETS)
@pytest.mark.parametrize(
    "cookie", [None, "", "{name}=", "{name}=wrong", "x{name}={value}", "{name}x={value}", "{name}={value}x"]
)
def test_without_the_cookie_nothing_is_shown(served, path, cookie):
    name, _, value = served.cookie.partition("=")
    headers = {} if cookie is None else {"Cookie": cookie.format(name=name, value=value)}
    answer = served.request("GET", path, headers=headers)
    assert answer.status == 403 and b"key=" not in answer.body


def test_the_key_becomes_a_cookie_that_no_script_sees_and_leaves_the_address(served):
    key = served.keys.issue()
    answer = served.request("GET", f"/tokens?a=b&key={key}&c=d")
    assert answer.status == 303 and answer.headers["location"] == "/tokens?a=b&c=d"
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie and "samesite=strict" in cookie and "path=/" in cookie
    assert key not in answer.headers["set-cookie"]


@pytest.mark.parametrize("change", ["", "wrong", "{short}", "{key}x", "{upper}", "%00", "%ff", "{key}%00"])
def test_a_wrong_key_is_rejected_and_spends_nothing(served, change):
    key = served.keys.issue()
    wrong = change.format(key=key, short=key[:-1], upper=key.upper())
    answer = served.request("GET", f"/?key={wrong}")
    assert answer.status == 403 and "set-cookie" not in answer.headers
    assert served.request("GET", f"/?key={key}").status == 303


def test_a_key_is_spent_by_its_first_use(served):
    key = served.keys.issue()
    assert served.request("HEAD", f"/?key={key}").status == 403  # asks for nothing, so it spends nothing
    assert served.request("GET", f"/?key={key}", headers={"Origin": "http://evil.example"}).status == 403
    assert served.request("GET", f"/?key={key}").status == 303
    again = served.request("GET", f"/?key={key}")
    assert again.status == 403 and "set-cookie" not in again.headers and b"used before" in again.body


def test_a_browser_that_is_in_opens_any_address_again_and_spends_no_key(served):
    key = served.keys.issue()
    assert served.get(f"/tokens?key={key}").headers["location"] == "/tokens"
    assert served.get("/tokens?key=spent-long-ago").headers["location"] == "/tokens"
    assert served.request("GET", f"/?key={key}").status == 303


@pytest.mark.parametrize("path", ["//evil.example/", "/\\evil.example", "///evil.example//"])
def test_the_exchange_leads_nowhere_else(served, path):
    location = served.request("GET", f"{path}?key={served.keys.issue()}").headers["location"]
    assert location.startswith("/") and not location.startswith(("//", "/\\"))
    followed = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
    page = served.request("GET", f"{path}?a='%22><script>&key={served.keys.issue()}", headers=followed)
    assert page.status == 200 and page.body.count(b"<") == 4 and b"<script" not in page.body
    assert b"url=" + location.encode() in page.body


@pytest.mark.parametrize("path", ["/tokens", "/api/studio", "/nothing", "/static/nothing.js", "/static/theme.js"])
def test_every_response_forbids_foreign_scripts_frames_and_sniffing(served, path):
    headers = served.get(path).headers
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy and "script-src 'self'" in policy and "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy and "http" not in policy and "data:" not in policy
    assert headers["x-content-type-options"] == "nosniff" and headers["referrer-policy"] == "no-referrer"
    assert headers["cross-origin-resource-policy"] == "same-origin"
    assert "access-control-allow-origin" not in headers and "server" not in headers


@pytest.mark.parametrize(
    "path",
    [
        "/static/../app.py",
        "/static/..%2fapp.py",
        "/static/%2e%2e/app.py",
        "/static//etc/passwd",
        "/static/....//app.py",
        "/static/pages/../../server.py",
        "/static/%00",
        "/static/C:%5Cwindows%5Cwin.ini",
        "/../secret.txt",
        "/..%2fsecret.txt",
        "/%2e%2e%2fsecret.txt",
    ],
)
def test_no_address_opens_another_file(served, path):
    answer = served.get(path)
    assert answer.status == 404
    assert b"SECRET" not in answer.body and b"import" not in answer.body and b"root:" not in answer.body


def test_the_server_is_bound_to_this_machine_alone(served):
    import psutil

    connections = psutil.Process().net_connections()
    assert [one.laddr.ip for one in connections if one.status == "LISTEN" and one.laddr.port == served.port] == [
        "127.0.0.1"
    ]


def test_a_web_socket_is_not_opened(served):
    lines = [
        "GET /api/studio HTTP/1.1",
        f"Host: 127.0.0.1:{served.port}",
        "Upgrade: websocket",
        "Connection: Upgrade",
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
        "Sec-WebSocket-Version: 13",
        "Origin: http://evil.example",
        f"Cookie: {served.cookie}",
    ]
    found = served.raw("\r\n".join([*lines, "", ""]).encode())
    assert b" 101 " not in found.split(b"\r\n")[0] and b"models" not in found


BENT = [
    b"",
    b"{",
    b"null",
    b"[]",
    b'"text"',
    b"{}",
    b"[" * 100_000,
    b'{"words":' * 50_000,
    b'{"words": "\\ud800"}',
    b'{"words": "\xff"}',
    b'{"words": "a:1", "merges": 1e999}',
    b'{"words": "a:1", "merges": NaN}',
    b'{"words": "a:1", "merges": -1}',
    b'{"words": "a:1", "merges": "3"}',
    b'{"words": 3}',
    b'{"words": "a:1", "more": 1}',
    b'{"words": "a"}',
    b'{"words": "' + b"a" * 3000 + b'"}',
    b"\x00" * 100,
]


@pytest.mark.parametrize("body", BENT, ids=lambda body: repr(body[:20]))
def test_a_bent_body_is_refused_in_words(served, body):
    answer = served.post("/api/tokens/learn", body)
    assert answer.status == 422 and answer.json()["error"].endswith(".")
    assert "internal" not in answer.json()["error"]


def test_a_body_beyond_the_cap_is_refused(served):
    answer = served.post("/api/tokens/learn", b'{"words": "' + b"a" * (1 << 20) + b'"}')
    assert answer.status == 413


@pytest.mark.parametrize(
    "lines",
    [
        b"GET / HTTP/9.9\r\n\r\n",
        b"\x16\x03\x01\x02\x00",
        b"GET " + b"/a" * 20_000 + b" HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + b"X: " + b"a" * 40_000 + b"\r\n\r\n",
        b"GET /\x00 HTTP/1.1\r\nHost: x\r\n\r\n",
        b"POST /api/tokens HTTP/1.1\r\nHost: x\r\nContent-Length: -5\r\n\r\n",
        b"POST /api/tokens HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
    ],
    ids=lambda lines: repr(lines[:20]),
)
def test_bytes_that_are_no_request_break_nothing(served, lines):
    found = served.raw(lines)
    assert found == b"" or found.split(b" ")[1][:1] == b"4"
    assert served.get("/api/studio").status == 200


def test_an_unknown_request_method_is_rejected(served):
    assert served.request("DELETE", "/api/studio", headers={**own(served), "Origin": served.origin}).status == 405
    assert served.post("/api/nothing", {}).status in (404, 405)


def test_the_files_of_the_pages_hold_no_markup_from_text_and_no_foreign_address():
    import maskwright

    folder = Path(maskwright.__file__).parent
    files = [
        path
        for own in ("studio/static", "report/static")
        for path in (folder / own).rglob("*")
        if path.suffix in (".js", ".html", ".css", ".svg")
    ]
    assert len(files) > 8
    for path in files:
        text = path.read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", "")
        for word in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function"):
            assert word not in text, f"{path.name} uses {word}"
        assert "http://" not in text and "https://" not in text, f"{path.name} names a foreign address"
