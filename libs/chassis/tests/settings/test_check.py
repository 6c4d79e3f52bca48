"""A command line is checked as its service would check it."""

from typing import Annotated

import msgspec
import pytest

from gantry_chassis.settings.check import main


class Knobs(msgspec.Struct, frozen=True):
    size: Annotated[int, msgspec.Meta(ge=1)] = 1


@pytest.fixture
def where(monkeypatch: pytest.MonkeyPatch) -> str:
    import sys
    from types import ModuleType

    module = ModuleType("mixer_settings")
    module.Knobs = Knobs  # pyright: ignore[reportAttributeAccessIssue]
    monkeypatch.setitem(sys.modules, "mixer_settings", module)
    return "mixer_settings:Knobs"


def test_settings_in_bounds_pass_silently(where: str, capsys: pytest.CaptureFixture[str]) -> None:
    main([where, "mixer", "--set", "size=2"])
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("words", "complaint"), [("nope=1", "unknown setting 'nope'"), ("size=0", "size (from")]
)
def test_invalid_settings_print_one_line_and_exit_with_2(
    where: str, words: str, complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main([where, "mixer", "--set", words])
    assert ended.value.code == 2
    err = capsys.readouterr().err
    assert err.startswith("mixer: ")
    assert complaint in err
    assert err.count("\n") == 1
