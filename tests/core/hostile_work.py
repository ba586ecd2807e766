"""What a hostile file would like to do, were it in command of the confined process. Imports nothing but the library."""

import json
import os
import socket
import sys
import time
from pathlib import Path

OUTSIDE = Path(__file__)


def _attempt(action, out):
    try:
        action()
    except BaseException as error:
        out.write(type(error).__name__.encode())
    else:
        out.write(b"did it")


def open_a_file(data, file, out):
    _attempt(lambda: open(OUTSIDE).close(), out)  # noqa: PTH123


def list_a_folder(data, file, out):
    _attempt(lambda: os.listdir("/"), out)  # noqa: PTH208


def open_a_socket(data, file, out):
    _attempt(lambda: socket.socket(socket.AF_INET), out)


def open_a_local_socket(data, file, out):
    _attempt(socket.socketpair, out)


def open_a_pipe(data, file, out):
    _attempt(os.pipe, out)


def start_a_process(data, file, out):
    def fork():
        if os.fork() == 0:
            os._exit(0)

    _attempt(fork, out)


def take_much_memory(data, file, out):
    _attempt(lambda: bytearray(1 << 30), out)


def raise_the_limits(data, file, out):
    import resource

    _attempt(lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64)), out)


def write_to_what_it_reads(data, file, out):
    _attempt(lambda: os.write(0, b"changed"), out)


def change_what_it_reads(data, file, out):
    _attempt(lambda: data.__setitem__(0, 7), out)


def tell_what_it_has(data, file, out):
    found = {"environment": dict(os.environ), "folder": os.getcwd(), "modules": sorted(sys.modules)}  # noqa: PTH109
    out.write(json.dumps(found | {"user": os.geteuid(), "words": sys.argv, "paths": sys.path}).encode())


def run_forever(data, file, out):
    while True:
        pass


def sleep(data, file, out):
    time.sleep(600)


def fail(data, file, out):
    raise RuntimeError


def leave_early(data, file, out):
    os._exit(0)


def say_nonsense(data, file, out):
    out.write(b"Tnonsense")


def say_too_little(data, file, out):
    out.write(b"T")


def a_colourful_reason(data, file, out):
    out.write(b"E\x1b[31mred\n" + b"x" * 5000)
