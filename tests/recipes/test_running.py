"""How recipes end: a sentence and the exit codes of the commands."""

from __future__ import annotations

import pytest

from conventions.sources import REPOSITORY
from maskwright.core.errors import InputError


@pytest.fixture(autouse=True)
def recipes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The recipes can be imported."""
    monkeypatch.syspath_prepend(str(REPOSITORY / "recipes"))


@pytest.mark.parametrize(
    ("raised", "code", "said"),
    [
        (InputError("Set the folder."), 2, "error: Set the folder.\n"),
        (KeyboardInterrupt(), 130, "Stopped. Rerun the same command to resume.\n"),
    ],
)
def test_what_the_user_caused_ends_with_the_codes_of_the_commands(
    raised: BaseException, code: int, said: str, capsys: pytest.CaptureFixture[str]
):
    from running import run_main

    def fail() -> None:
        raise raised

    with pytest.raises(SystemExit) as ended:
        run_main(fail)
    assert ended.value.code == code
    assert capsys.readouterr() == ("", said)


def test_a_fault_of_ours_keeps_its_traceback():
    from running import run_main

    def fail() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run_main(fail)
