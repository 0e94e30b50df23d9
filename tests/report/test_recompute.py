"""What is left of a run folder is judged and reported, and what is not is named."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from bakeoff.app.recompute import compare, describe, report
from bakeoff.errors import RunFolderError
from bakeoff.model import Block, Health, RequestRecord, Sample
from bakeoff.runs import RunFolder

from . import sample

MS = 1_000_000


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    """Three rounds of base and flash, 4 requests a block."""
    whole = sample.experiment()
    experiment = msgspec.structs.replace(whole, variants=whole.variants[:2], workloads=whole.workloads[:1])
    folder = RunFolder.create(tmp_path, experiment, command=["bakeoff"], source="e.yaml", version="0")
    for number in range(6):
        begin = number * 10_000 * MS
        records = [
            RequestRecord(
                index=i,
                prompt_id=i,
                scheduled_ns=begin + i * 1000 * MS,
                sent_ns=begin + i * 1000 * MS,
                first_token_ns=begin + (i * 1000 + 200 + number) * MS,
                first_output_ns=begin + (i * 1000 + 200 + number) * MS,
                last_token_ns=begin + (i * 1000 + 800) * MS,
                end_ns=begin + (i * 1000 + 800) * MS,
                input_tokens=128,
                output_tokens=32,
                tokens_source="usage",
                text="bread",
            )
            for i in range(4)
        ]
        block = Block(
            id=number,
            round=number // 2,
            position=number % 2,
            variant=("base", "flash")[number % 2],
            cell="short/c1",
            start_id=number,
            group=number // 2,
            started_ns=begin,
            ended_ns=begin + 4000 * MS,
            wall=1.8e9,
            window_ns=(begin, begin + 4000 * MS),
            requests=4,
            errors=0,
            health=Health(cores=2),
        )
        folder.write_block(block, records, [Sample(t_ns=begin, tree_anon_bytes=10**8)])
    return folder


def test_a_whole_folder_is_not_complained_about(run: RunFolder) -> None:
    assert compare(run.path).rounds == 3
    assert not any(w.code == "broken-files" for w in describe(run.path).warnings)


@pytest.mark.parametrize("content", [b"", b"PAR1 damaged PAR1"])
def test_damaged_telemetry_costs_nothing_of_the_verdict(run: RunFolder, content: bytes) -> None:
    before = compare(run.path)
    (run.path / "telemetry/001.parquet").write_bytes(content)
    assert compare(run.path) == before
    (told,) = [w for w in describe(run.path).warnings if w.code == "broken-files"]
    assert told.severity == "warning"
    assert "telemetry/001.parquet" in told.message
    assert "telemetry/001.parquet" in report(run.path, "html")


def test_damaged_requests_cost_their_pair_and_are_named_once(run: RunFolder) -> None:
    (run.path / "requests/002.parquet").write_bytes(b"")
    result = compare(run.path)
    assert result.rounds == 2
    (told,) = [w for w in result.warnings if w.code == "broken-files"]
    assert "requests/002.parquet" in told.message
    view = describe(run.path)
    assert [w.message for w in view.warnings if w.code == "broken-files"] == [told.message]
    assert "requests/002.parquet" in report(run.path, "json")


def test_many_damaged_files_are_counted(run: RunFolder) -> None:
    for number in range(5):
        (run.path / f"telemetry/00{number}.parquet").write_bytes(b"")
    (told,) = [w for w in describe(run.path).warnings if w.code == "broken-files"]
    assert told.message.endswith("and 2 more")


def test_nothing_readable_is_an_error_and_no_verdict(run: RunFolder) -> None:
    for path in (run.path / "requests").iterdir():
        path.write_bytes(b"")
    with pytest.raises(RunFolderError, match="000"):
        compare(run.path)
