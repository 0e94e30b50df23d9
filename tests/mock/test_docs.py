"""docs/mock.md says of every fault what it does, and what the client records."""

from __future__ import annotations

import re
from pathlib import Path

from bakeoff.mock import FAULTS
from bakeoff.mock.options import mock_command

from .test_faults_through_client import EXPECTED

PAGE = (Path(__file__).parents[2] / "docs" / "mock.md").read_text("utf-8")


def test_the_table_is_the_table() -> None:
    rows = {m[1]: (m[2], m[3]) for m in re.finditer(r"^\| `(\w+)` \| (.*) \| (.*) \|$", PAGE, re.MULTILINE)}
    assert list(rows) == list(FAULTS)
    for name, (says, recorded) in rows.items():
        assert says == FAULTS[name].says
        error = EXPECTED[name].error
        if not FAULTS[name].dies:
            assert recorded == (f"`{error}`" if error else "–")


def test_every_option_that_the_page_names_exists() -> None:
    options = {option for parameter in mock_command.params for option in parameter.opts}
    named = set(re.findall(r"(--[a-z][a-z-]+)", PAGE))
    assert named <= options
    assert {"--faults", "--metrics-dialect", "--prefix-cache", "--send-log"} <= named
