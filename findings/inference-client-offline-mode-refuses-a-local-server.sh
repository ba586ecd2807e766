#!/usr/bin/env bash
# Expected: HF_HUB_OFFLINE, by its documentation, means that "no HTTP calls will be made to the Hugging Face Hub". A
#   server on this machine is not the Hub, and a machine without network is where both the variable and a local server
#   are used.
# Happens: InferenceClient(model="http://127.0.0.1:...") sends nothing and raises OfflineModeIsEnabled.
# Version: huggingface_hub 2.4.0.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q huggingface_hub==2.4.0 numpy==2.2.6
HF_HUB_OFFLINE=1 "$folder/venv/bin/python" - <<'PY'
import http.server, json, sys, threading
import huggingface_hub
from huggingface_hub import InferenceClient

asked = []


class Local(http.server.BaseHTTPRequestHandler):
    """Answers every request with a vector."""

    def do_POST(self):
        asked.append(self.path)
        self.rfile.read(int(self.headers["content-length"]))
        data = json.dumps([[1.0]]).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *words):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Local)
threading.Thread(target=server.serve_forever, daemon=True).start()
print("huggingface_hub", huggingface_hub.__version__)
try:
    seen = f"an answer: {InferenceClient(model=f'http://127.0.0.1:{server.server_port}').feature_extraction('a text')}"
except Exception as error:
    seen = type(error).__name__
print(f"a server on 127.0.0.1 with HF_HUB_OFFLINE=1: {len(asked)} requests, {seen}")
if (len(asked), seen) != (0, "OfflineModeIsEnabled"):
    sys.exit("The client now reaches a local server in offline mode.")
PY
