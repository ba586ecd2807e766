#!/usr/bin/env bash
# Expected: InferenceClient.text_generation raises HfHubHTTPError for a refused request, as its documentation says and
#   as every other method does, with the response and its status.
# Happens: it raises huggingface_hub.errors.ValidationError (a TextGenerationError), which is no HfHubHTTPError and has
#   no response: `except HfHubHTTPError` misses it, and the status is lost.
# Version: huggingface_hub 2.4.0.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q huggingface_hub==2.4.0
"$folder/venv/bin/python" - <<'PY'
import http.server, json, sys, threading
import huggingface_hub
from huggingface_hub import InferenceClient
from huggingface_hub.errors import HfHubHTTPError


class Refusing(http.server.BaseHTTPRequestHandler):
    """Refuses every request as Text Generation Inference does."""

    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        data = json.dumps({"error": "the prompt is too long", "error_type": "validation"}).encode()
        self.send_response(422)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *words):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Refusing)
threading.Thread(target=server.serve_forever, daemon=True).start()
client = InferenceClient(model=f"http://127.0.0.1:{server.server_port}")
found = {}
for method in ("feature_extraction", "fill_mask", "text_classification", "text_generation"):
    try:
        getattr(client, method)("a text")
    except Exception as error:
        found[method] = (type(error).__name__, isinstance(error, HfHubHTTPError), hasattr(error, "response"))
print("huggingface_hub", huggingface_hub.__version__)
for method, seen in found.items():
    print(f"{method}: {seen[0]}, HfHubHTTPError: {seen[1]}, has the response: {seen[2]}")
if found["text_generation"] != ("ValidationError", False, False) or not found["feature_extraction"][1]:
    sys.exit("text_generation no longer raises an error of its own.")
PY
