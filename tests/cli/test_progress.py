"""Progress lines of a run that is not watched on a terminal."""

from __future__ import annotations

import pytest

from bakeoff.cli.progress import TerminalProgress


@pytest.mark.parametrize(
    ("remaining_s", "estimate", "line"),
    [
        (70.6, (), "round 1 · about 71 s left"),
        (7.24, ("TTFT −3 %", "TPOT −5 %"), "round 1 · about 8 s left · TTFT −3 % · TPOT −5 %"),
        (0.02, (), "round 1 · about 1 s left"),
        (200.0, (), "round 1 · about 3.3 min left"),
        (None, ("TTFT −3 %",), "round 1 · TTFT −3 %"),
        (None, (), "round 1"),
        (0.0, (), "round 1"),
    ],
)
def test_a_round_is_one_line_of_what_is_known(
    remaining_s: float | None, estimate: tuple[str, ...], line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with TerminalProgress(max_rounds=9) as progress:
        progress.round_done(1, remaining_s, estimate)
    assert capsys.readouterr().err == f"{line}\n"
