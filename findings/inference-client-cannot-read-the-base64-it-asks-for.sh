#!/usr/bin/env bash
# Expected: InferenceClient.feature_extraction(text, encoding_format="base64") returns the same float32 array as with
#   "float"; both are documented values, and the array is documented as the result.
# Happens: it sends encoding_format to the server and then reads the reply as numbers: a server that does as it was
#   asked makes it raise ValueError (could not convert string to float). Nothing in the client decodes base64.
# Version: huggingface_hub 2.4.0.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q huggingface_hub==2.4.0 numpy==2.2.6
"$folder/venv/bin/python" - <<'PY'
import base64, http.server, json, sys, threading
import huggingface_hub
import numpy as np
from huggingface_hub import InferenceClient

VECTOR = np.array([1.0, 2.0, 0.1], dtype="<f4")
asked = []


class Embedding(http.server.BaseHTTPRequestHandler):
    """Answers in the encoding that is asked for."""

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        asked.append(body.get("encoding_format"))
        packed = base64.b64encode(VECTOR.tobytes()).decode()
        data = json.dumps([packed if asked[-1] == "base64" else VECTOR.tolist()]).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *words):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Embedding)
threading.Thread(target=server.serve_forever, daemon=True).start()
client = InferenceClient(model=f"http://127.0.0.1:{server.server_port}")
print("huggingface_hub", huggingface_hub.__version__)
print("float:", client.feature_extraction("a text", encoding_format="float"))
try:
    seen = repr(client.feature_extraction("a text", encoding_format="base64"))
except ValueError as error:
    seen = f"ValueError: {error}"
print(f"base64: {seen} (the server was asked for {asked[-1]})")
if not seen.startswith("ValueError") or asked != ["float", "base64"]:
    sys.exit("feature_extraction now reads base64, or no longer asks for it.")
PY
