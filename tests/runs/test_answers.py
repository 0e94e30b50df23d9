from pathlib import Path

import msgspec
import pytest

from bakeoff.errors import RunFolderError
from bakeoff.model import Answer
from bakeoff.runs.answers import read_answers, write_answers


def answer(**more: object) -> Answer:
    return msgspec.convert({"task": "sums", "item": "a", "variant": "base", **more}, Answer)


def test_parts_come_back_in_order(tmp_path: Path) -> None:
    first = [answer(repeat=1, score=0.5, text="zwölf", chance=0.25), answer(status="cut", reason="why", score=None)]
    second = [answer(variant="flash", purpose="again", first_token_ns=7, output_tokens=3, round=2)]
    write_answers(tmp_path, first)
    write_answers(tmp_path, second)
    assert sorted(path.name for path in (tmp_path / "quality").iterdir()) == ["000.parquet", "001.parquet"]
    assert read_answers(tmp_path) == [*first, *second]


def test_no_answers_where_nothing_was_asked(tmp_path: Path) -> None:
    assert read_answers(tmp_path) == []


def test_a_broken_part_is_named(tmp_path: Path) -> None:
    write_answers(tmp_path, [answer()])
    write_answers(tmp_path, [answer(item="b")])
    (tmp_path / "quality" / "000.parquet").write_bytes(b"nonsense")
    with pytest.raises(RunFolderError, match="damaged"):
        read_answers(tmp_path)
    told: list[str] = []
    assert [a.item for a in read_answers(tmp_path, lambda path, _error: told.append(path.name))] == ["b"]
    assert told == ["000.parquet"]


def test_a_text_that_no_file_can_hold_is_mended(tmp_path: Path) -> None:
    write_answers(tmp_path, [answer(text="lone \ud800 surrogate")])
    assert read_answers(tmp_path)[0].text == "lone \ufffd surrogate"
