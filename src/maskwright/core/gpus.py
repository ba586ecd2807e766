"""GPUs by name, with the peak FLOP/s and memory that vendors publish; nothing here is measured.

Peaks are dense (half the figure if a data sheet includes sparsity): bfloat16 matrix products with float32 accumulation,
and float32 without tensor cores, as with torch's "highest" precision.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from .errors import ConfigError
from .registry import unknown_name

GB = 10**9
TERA = 1e12


@dataclass(frozen=True)
class Gpu:
    """One GPU model.

    bf16, fp32: peak FLOP/s, None if unsupported; memory: bytes; driver: pattern of its name in drivers, which does not
    match variants with another peak (H100 NVL, A10G, laptops).
    """

    title: str
    bf16: float | None
    fp32: float
    memory: int
    source: str
    driver: str

    def peak(self, precision: str) -> float | None:
        """Return the peak FLOP/s in "bf16" or "fp32"; None if the GPU does not support it."""
        return self.bf16 if precision == "bf16" else self.fp32


def _gpu(title: str, bf16: float | None, fp32: float, gigabytes: int, source: str, driver: str) -> Gpu:
    """Build a GPU from TFLOP/s and gigabytes."""
    return Gpu(title, None if bf16 is None else bf16 * TERA, fp32 * TERA, gigabytes * GB, source, driver)


GPUS: dict[str, Gpu] = {
    "p100": _gpu("NVIDIA P100 (SXM2)", None, 10.6, 16, "NVIDIA Tesla P100 data sheet", "P100-SXM2"),
    "t4": _gpu("NVIDIA T4", None, 8.1, 16, "NVIDIA T4 data sheet", r"\bT4\b"),
    "v100": _gpu("NVIDIA V100 (SXM2, 16 GB)", None, 15.7, 16, "NVIDIA V100 data sheet", "V100-SXM2-16GB"),
    "v100-32": _gpu("NVIDIA V100 (SXM2, 32 GB)", None, 15.7, 32, "NVIDIA V100 data sheet", "V100-SXM2-32GB"),
    "a10": _gpu("NVIDIA A10", 125, 31.2, 24, "NVIDIA A10 data sheet", r"\bA10\b"),
    "l4": _gpu("NVIDIA L4", 121, 30.3, 24, "NVIDIA L4 data sheet", r"\bL4\b"),
    "l40s": _gpu("NVIDIA L40S", 362, 91.6, 48, "NVIDIA L40S data sheet", r"\bL40S\b"),
    "a6000": _gpu("NVIDIA RTX A6000", 154.8, 38.7, 48, "NVIDIA GA102 white paper", r"RTX A6000\b"),
    "rtx3090": _gpu("NVIDIA RTX 3090", 71, 35.6, 24, "NVIDIA GA102 white paper", "RTX 3090(?! (Ti|Laptop))"),
    "rtx4090": _gpu("NVIDIA RTX 4090", 165.2, 82.6, 24, "NVIDIA Ada white paper", "RTX 4090(?! (D|Laptop))"),
    "a100-40": _gpu("NVIDIA A100 40 GB", 312, 19.5, 40, "NVIDIA A100 data sheet", "A100.*40GB"),
    "a100": _gpu("NVIDIA A100 80 GB", 312, 19.5, 80, "NVIDIA A100 data sheet", "A100.*80GB"),
    "h100-pcie": _gpu("NVIDIA H100 PCIe", 756, 51, 80, "NVIDIA H100 data sheet", "H100 PCIe"),
    "h100": _gpu("NVIDIA H100 SXM", 989, 67, 80, "NVIDIA H100 data sheet", "H100 80GB HBM3|H100.*SXM"),
    "h200": _gpu("NVIDIA H200 SXM", 989, 67, 141, "NVIDIA H200 data sheet", r"\bH200\b(?! NVL)"),
    "mi300x": _gpu("AMD MI300X", 1307, 163.4, 192, "AMD Instinct MI300X data sheet", "MI300X"),
}


# Driver names; variants with another peak (H100 NVL, A10G, laptops) must not match.
def gpu_from_driver_name(name: str) -> Gpu | None:
    """Return the GPU with a driver name such as "NVIDIA H100 80GB HBM3"; None if it is not in the table."""
    return next((gpu for gpu in GPUS.values() if re.search(gpu.driver, name, re.IGNORECASE)), None)


def gpu_named(name: str) -> Gpu:
    """Return a GPU by name. Raises ConfigError with the closest name if it is unknown."""
    if name.lower() not in GPUS:
        raise ConfigError(unknown_name("GPU", name, GPUS))
    return GPUS[name.lower()]
