"""Layer 7: the studio, a local web application that shows model predictions and internals as you type.

    server.py          loads models, binds to the loopback address, serves until Ctrl-C
    app.py             routes and error handlers
    guard.py           access control: host, origin, one-time key, session cookie
    pages.py           the pages and the models that each supports
    requests.py        request models, JSON responses, error responses
    model_registry.py  loaded models
    run_folders.py     training runs, each in a separate process, and their settings, metrics, results
    files.py           uploaded files and samples: labeled rows with predictions, texts with embeddings
    views/             JSON endpoints of each page
    samples/           small labeled files that pages open on
    static/            HTML, CSS, ES modules

All numbers come from the functions that the commands and the Python API use.
"""
