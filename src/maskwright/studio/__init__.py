"""Floor 7: the studio, pages in a browser that show what a model does with your text as you type it.

    server.py   opens models, binds to this machine alone, runs until Ctrl-C     views/    what each page asks for
    app.py      routes and errors                                              static/   pages: HTML, CSS, ES modules
    guard.py    who may ask: host, origin, key, headers                        shelf.py  the models that are loaded
    pages.py    which pages there are, and which models each is for            jobs.py   trainings, each a process

All numbers come from the functions that the commands and the Python names use.
"""
