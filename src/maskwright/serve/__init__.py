"""HTTP server of `maskwright serve`: models on the routes of other inference servers. No model logic.

settings.py    all settings, from the command line or serve.toml
server.py      the ASGI application create_app(settings), sockets, signals, draining
service.py     what the routes use: models, admission, batcher and worker in one call
admission.py   which requests are let in, by count and by seconds of work
batcher.py     the queue, and which sequences the next pack takes
worker.py      the inference thread
streams.py     generation and translation, a step at a time
waiting.py     waits for a result, the deadline, or the end of the connection
warmup.py      measures the speed of the models before the server is ready
models.py      the served models, and which model a route uses
auth.py        keys; access.py: hosts, origins, headers
metrics.py     Prometheus metrics, and one JSON line for each request
dialects/      routes and errors as in Text Embeddings Inference, OpenAI, and Hugging Face
"""
