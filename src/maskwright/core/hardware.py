"""Settings of where, how precisely and with which weights anything computes."""

from __future__ import annotations

from typing import Literal

from .options import HARDWARE, Setting

Device = Literal["auto", "cpu", "cuda", "mps"]
Precision = Literal["auto", "fp32", "bf16", "fp16"]
Executor = Literal["own", "openvino", "onnxruntime", "auto"]
OWN, AUTO = "own", "auto"  # the engine of maskwright; the fastest that was measured

DEVICE = Setting("Device to compute on.", panel=HARDWARE)
PRECISION = Setting("Precision (dtype); auto is bf16 where the CPU or GPU has it.", panel=HARDWARE)
EXECUTOR = Setting(
    "Program that computes the network: maskwright, or a graph that is exported once; auto measures a short text.",
    panel=HARDWARE,
)
UNTRAINED = Setting("Answer also with a head whose weights the folder lacks: they are random.")
THREADS = Setting("Number of CPU threads.", panel=HARDWARE, default_help="all", minimum=1)
