#!/usr/bin/env bash
# Expected: TextEmbeddingsInference of LlamaIndex raises an error with the server's sentence where the server refuses a
#   request (413, 422, 429).
# Happens: it never looks at the status and takes the JSON of the error for embeddings. A single text raises KeyError: 0,
#   a batch a ValidationError of pydantic about its own EmbeddingEndEvent; the status and the sentence are lost.
# Version: llama-index-embeddings-text-embeddings-inference 0.6.0 with llama-index-core 0.14.23.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q llama-index-embeddings-text-embeddings-inference==0.6.0 llama-index-core==0.14.23
"$folder/venv/bin/python" - <<'PY'
import http.server, json, sys, threading
from importlib.metadata import version
from llama_index.embeddings.text_embeddings_inference import TextEmbeddingsInference


class Busy(http.server.BaseHTTPRequestHandler):
    """Refuses every request as Text Embeddings Inference does."""

    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        data = json.dumps({"error": "the model is overloaded", "error_type": "Overloaded"}).encode()
        self.send_response(429)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *words):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Busy)
threading.Thread(target=server.serve_forever, daemon=True).start()
embeddings = TextEmbeddingsInference(model_name="m", base_url=f"http://127.0.0.1:{server.server_port}")
found, sentence = [], False
for ask in (lambda: embeddings.get_text_embedding_batch(["a", "b"]), lambda: embeddings.get_text_embedding("a")):
    try:
        found.append(ask())
    except Exception as error:
        found.append(f"{type(error).__name__}: {error}".splitlines()[0])
        sentence = sentence or "the model is overloaded" in str(error)
print("llama-index-embeddings-text-embeddings-inference", version("llama-index-embeddings-text-embeddings-inference"))
print("a batch of two texts:", found[0])
print("one text:", found[1])
print("the server's sentence is in one of the errors:", sentence)
if sentence or found != ["ValidationError: 1 validation error for EmbeddingEndEvent", "KeyError: 0"]:
    sys.exit("A refusal is no longer taken for embeddings.")
PY
