"""HTTP server of `maskwright serve`: models on the routes of other inference servers. No model logic.

settings.py         all settings, from the command line or serve.toml
server.py           the ASGI application create_app(settings), sockets, signals, draining
service.py          what the routes use: models, admission, batcher and worker in one call
batcher.py          which requests are let in, the queue, and which sequences the next pack takes
worker.py           the inference thread, generation a step at a time, and the speed of models
request_context.py  what is known of a request, waiting for its result, refusals, keys
models.py           the served models, and which model a route uses
access.py           hosts, origins, headers
metrics.py          Prometheus metrics, and one JSON line for each request
dialects/           routes and errors as in Text Embeddings Inference, OpenAI, and Hugging Face
"""
