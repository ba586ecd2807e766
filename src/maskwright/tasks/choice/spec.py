"""Settings of multiple choice."""

from __future__ import annotations

from ..rows.settings import LongTextSettings
from ..spec import TaskSpec

SPEC = TaskSpec(title="Multiple choice (SWAG)", settings=LongTextSettings, reads=("choices",))
