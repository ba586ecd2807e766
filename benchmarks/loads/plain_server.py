"""What one writes first: FastAPI around sentence-transformers. `python plain_server.py FOLDER PORT`.

A route that is not asynchronous runs in FastAPI's thread pool, so several requests are computed at once.
"""

import sys

import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel
from sentence_transformers import SentenceTransformer

model = SentenceTransformer(sys.argv[1], device="cpu")
model.encode(["warm-up"])
app = FastAPI()


class Request(BaseModel):
    """Texts to embed."""

    input: list[str]


@app.post("/v1/embeddings")
def embeddings(request: Request) -> dict[str, list[list[float]]]:
    """One vector per text."""
    return {"data": model.encode(request.input, show_progress_bar=False).tolist()}


@app.get("/health")
def health() -> dict[str, str]:
    """Alive."""
    return {"status": "ok"}


if __name__ == "__main__":
    uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[2]), log_level="error", access_log=False)
