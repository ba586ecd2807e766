"""Settings of LoRA adapters, without torch."""

from __future__ import annotations

from dataclasses import dataclass

from ..core.config import check_above_zero, check_at_least, check_below_one, check_name

# What an adapter can change, by the name of the linear layer in our layers; a joint layer has one name per part.
ROLES: dict[str, tuple[str, ...]] = {
    "attention.qkv": ("query", "key", "value"),
    "attention.global_qkv": ("query", "key", "value"),
    "attention.out": ("attention-output",),
    "cross.query": ("query",),
    "cross.key_value": ("key", "value"),
    "cross.out": ("attention-output",),
    "ffn.up": ("ffn-in",),
    "ffn.down": ("ffn-out",),
}
TARGETS = tuple(dict.fromkeys(role for roles in ROLES.values() for role in roles))
ALL_LINEAR = "all-linear"


@dataclass(frozen=True)
class LoraConfig:
    """Settings of LoRA. targets: names of TARGETS; scale of the updates: alpha / rank; dropout: of their input."""

    rank: int = 8
    alpha: float = 16.0
    targets: tuple[str, ...] = ("query", "value")
    dropout: float = 0.0

    def __post_init__(self) -> None:
        check_at_least(self, 1, "rank")
        check_above_zero(self, "alpha")
        check_below_one(self, "dropout")
        for target in self.targets:
            check_name("targets", "target", target, (*TARGETS, ALL_LINEAR))
