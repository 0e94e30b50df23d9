"""The page on traces names everything that the code has."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

from bakeoff.traces.breakdown import DeviceTimes
from bakeoff.traces.categories import CATEGORIES
from bakeoff.traces.gaps import CAUSES
from bakeoff.traces.host_activity import ACTIVITIES, UNKNOWN_ACTIVITY
from bakeoff.traces.reading import BUILT_IN

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "traces.md").read_text(encoding="utf-8")
WORDS = set(re.findall(r"`([^`\n]+)`", PAGE))


def test_words_of_reports_are_explained() -> None:
    assert set(CATEGORIES) <= WORDS
    assert set(CAUSES) <= WORDS
    assert {name for name, _, _ in ACTIVITIES} | {UNKNOWN_ACTIVITY} <= WORDS
    assert set(BUILT_IN) <= WORDS


def test_keys_of_the_json_are_explained() -> None:
    assert {field.name for field in dataclasses.fields(DeviceTimes)} | {"lost_events"} <= WORDS


def test_words_of_losses_are_explained() -> None:
    code = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "src" / "bakeoff" / "traces").glob("*.py"))
    used = set(re.findall(r'"(lost_\w+|repaired_\w+|negative_\w+|overlapping_\w+|mixed_\w+)"', code))
    assert used - {"lost_events", "lost_"} <= WORDS
