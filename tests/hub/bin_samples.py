"""Files that torch.save wrote, files that pretend it did, and what hides in them."""

from __future__ import annotations

import io
import os
import pickle
import subprocess
import zipfile
from collections import OrderedDict

import torch

from maskwright.hub.pickled import _LEGACY

FORMATS = ("zip", "legacy")


def saved(table, form="zip", **options) -> bytes:
    """What torch.save makes of a table, in its format of today or of before 1.6."""
    stream = io.BytesIO()
    torch.save(table, stream, _use_new_zipfile_serialization=form == "zip", **options)
    return stream.getvalue()


def zipped(parts: dict[str, bytes], packed: bool = False) -> bytes:
    """A zip as torch lays it out, with any parts."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED if packed else zipfile.ZIP_STORED) as archive:
        for name, data in parts.items():
            archive.writestr(f"archive/{name}", data)
    return stream.getvalue()


def contained(content: bytes, form: str) -> bytes:
    """A pickle in the place of the table of either format, or alone."""
    if form == "zip":
        return zipped({"data.pkl": content, "data/0": bytes(16), "byteorder": b"little", "version": b"3\n"})
    facts = pickle.dumps({"protocol_version": 1001, "little_endian": True}, 2)
    legacy = _LEGACY + pickle.dumps(1001, 2) + facts + content + pickle.dumps([], 2)
    return legacy if form == "legacy" else content


class _Storage(tuple):
    """A persistent id."""


class _Pickler(pickle.Pickler):
    def persistent_id(self, obj):
        return tuple(obj) if isinstance(obj, _Storage) else None


class Called:
    """Pickles as a call of anything with anything."""

    def __init__(self, function, *arguments):
        self.call = function, arguments

    def __reduce__(self):
        return self.call


def forged_pickle(kind=torch.FloatStorage, key="0", length=4, part=(), offset=0, shape=(4,), stride=(1,)) -> bytes:
    """The pickle of one tensor `x` that says of itself whatever is wanted."""
    storage = _Storage(("storage", kind, key, "cpu", length, *part))
    tensor = Called(torch._utils._rebuild_tensor_v2, storage, offset, shape, stride, False, OrderedDict())
    stream = io.BytesIO()
    _Pickler(stream, 2).dump({"x": tensor})
    return stream.getvalue()


def forged(numbers=bytes(range(16)), **claims) -> bytes:
    """The same as a zip with 16 bytes of numbers."""
    return zipped({"data.pkl": forged_pickle(**claims), "data/0": numbers, "version": b"3\n"})


def attacks(canary: str) -> dict[str, bytes]:
    """Pickles by name; each would create the file `canary`, or has an instruction that no table needs."""
    touch, write = f"touch {canary}", f"open({canary!r}, 'w')"
    quoted = canary.encode()
    return {
        "os.system": pickle.dumps({"w": Called(os.system, touch)}, 2),
        "as the table itself": pickle.dumps(Called(os.system, touch), 2),
        "protocol 4": pickle.dumps({"w": Called(os.system, touch)}, 4),
        "protocol 0": pickle.dumps({"w": Called(os.system, touch)}, 0),
        "eval": pickle.dumps({"w": Called(eval, write)}, 2),
        "exec": pickle.dumps({"w": Called(exec, write)}, 2),
        "open": pickle.dumps({"w": Called(open, canary, "w")}, 2),
        "a process": pickle.dumps({"w": Called(subprocess.Popen, touch)}, 2),
        "a load inside": pickle.dumps({"w": Called(torch.load, canary)}, 2),
        "a pickle inside": pickle.dumps({"w": Called(pickle.loads, pickle.dumps(Called(os.system, touch)))}, 2),
        "getattr": pickle.dumps({"w": Called(getattr, "", "join")}, 2),
        "a key that acts": pickle.dumps({Called(os.system, touch): 1}, 2),
        "in the list of a table": b"\x80\x02ccollections\nOrderedDict\n]\x85R.",
        "a state that acts": b"\x80\x02}cos\nsystem\nb.",
        "INST": b"(S'touch " + quoted + b"'\nios\nsystem\n.",
        "OBJ": b"(cos\nsystem\nS'touch " + quoted + b"'\no.",
        "NEWOBJ": b"\x80\x02cos\nsystem\nX\x01\x00\x00\x00a\x85\x81.",
        "EXT": b"\x80\x02\x82\x01.",
        "a name with a path": b"\x80\x02ctorch._utils\n_rebuild_tensor_v2.__globals__\n.",
        "a name that is put together": b"\x80\x04\x8c\x02os\x8c\x06system\x93.",
        "a tensor of nothing": b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n(NNNNtR.",
        "a parameter of a name": b"\x80\x02ctorch._utils\n_rebuild_parameter\nctorch\nFloatStorage\n\x85R.",
        "a call of a table": b"\x80\x02})R.",
        "a reference to code": b"\x80\x02X\x06\x00\x00\x00modulecos\nsystem\nNN\x86\x87Q.",
    }
