#!/usr/bin/env bash
# Expected: InferenceClient waits and asks again where a server answers 503 or 429 with Retry-After, until its timeout:
#   the documentation of each method names HfHubHTTPError for "a status code other than HTTP 503", and
#   InferenceTimeoutError where "the model is unavailable". The client of OpenAI retries both by itself.
# Happens: one request is sent, and HfHubHTTPError is raised at once, for 503 as for 429, with a timeout of 30 seconds.
# Version: huggingface_hub 2.4.0.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q huggingface_hub==2.4.0 numpy==2.2.6
"$folder/venv/bin/python" - <<'PY'
import http.server, json, sys, threading
import huggingface_hub
from huggingface_hub import InferenceClient

answers = []


class Loading(http.server.BaseHTTPRequestHandler):
    """Is not ready at the first request, and answers the next."""

    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        status = self.server.busy if not answers else 200
        answers.append(status)
        data = json.dumps([[1.0]] if status == 200 else {"error": "loading"}).encode()
        self.send_response(status)
        self.send_header("retry-after", "1")
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *words):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Loading)
threading.Thread(target=server.serve_forever, daemon=True).start()
client = InferenceClient(model=f"http://127.0.0.1:{server.server_port}", timeout=30)
print("huggingface_hub", huggingface_hub.__version__)
for status in (503, 429):
    answers.clear()
    server.busy = status
    try:
        seen = f"an answer: {client.feature_extraction('a text')}"
    except Exception as error:
        seen = type(error).__name__
    print(f"{status} with Retry-After: {len(answers)} request, {seen}")
    if (len(answers), seen) != (1, "HfHubHTTPError"):
        sys.exit(f"The client now asks again after {status}.")
PY
