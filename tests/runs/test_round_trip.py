"""What is written comes back: records, columns, samples, starts, results."""

from __future__ import annotations

import math
import tempfile
from pathlib import Path
from typing import Any, get_args

import msgspec
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from bakeoff.model import (
    Comparison,
    ErrorKind,
    Interval,
    Ratio,
    RequestRecord,
    Result,
    Sample,
    Start,
    TokenSource,
)
from bakeoff.runs import RunFolder, to_columns
from bakeoff.runs.parts import read_requests, read_rows, write_requests

from .making import block, folder, record, sample

INT64 = st.integers(0, 2**63 - 1)
COUNT = st.none() | st.integers(0, 2**40)
STAMP = st.none() | INT64
TEXT = st.text(max_size=20)  # hypothesis draws no lone surrogates unless asked
RECORDS = st.builds(
    RequestRecord,
    index=st.integers(0, 10**6),
    prompt_id=st.integers(0, 10**6),
    scheduled_ns=INT64,
    sent_ns=STAMP,
    first_byte_ns=STAMP,
    first_token_ns=STAMP,
    first_output_ns=STAMP,
    last_token_ns=STAMP,
    end_ns=STAMP,
    input_tokens=COUNT,
    output_tokens=COUNT,
    reasoning_tokens=COUNT,
    cached_tokens=COUNT,
    tokens_source=st.sampled_from(get_args(TokenSource)),
    finish_reason=st.none() | TEXT,
    status=st.none() | st.integers(100, 599),
    error=st.none() | st.sampled_from(get_args(ErrorKind)),
    error_message=st.none() | TEXT,
    retry_after_s=st.none() | st.floats(0, 1e9),
    chunk_ns=st.lists(INT64, max_size=5),
    chunk_tokens=st.lists(st.integers(0, 1000), max_size=5),
    chunk_coalesced=st.lists(st.booleans(), max_size=5),
    prompt=st.none() | TEXT,
    text=TEXT,
    reasoning=TEXT,
    server_timings=st.dictionaries(TEXT, st.floats(allow_nan=False, allow_infinity=False), max_size=3),
)


def same_columns(left: Any, right: Any) -> None:
    assert list(left) == list(right)
    for name in left:
        assert left[name].dtype == right[name].dtype, name
        assert left[name].shape == right[name].shape, name
        for a, b in zip(left[name], right[name], strict=True):
            if isinstance(a, np.ndarray | np.generic):  # NaN equals NaN here
                assert a.dtype == b.dtype, name
                np.testing.assert_array_equal(a, b)
            else:
                assert a == b, name


@settings(max_examples=60, deadline=None)
@given(st.lists(RECORDS, max_size=6))
def test_any_records_come_back_as_records_and_as_columns(records: list[RequestRecord]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "003.parquet"
        write_requests(path, block(3, requests=len(records)), records)
        assert read_rows(path, RequestRecord) == records
        head, table = read_requests(path)
        assert head == block(3, requests=len(records))
        from bakeoff.runs.columns import from_table

        same_columns(from_table(table), to_columns(records))


def test_columns_are_as_block_data_says(tmp_path: Path) -> None:
    run = folder(tmp_path)
    run.write_block(block(0), [record(0, sent_ns=None, output_tokens=None), record(1, chunk_ns=[])], [sample(1)])
    (data,) = run.blocks()
    assert len(data) == 2
    assert data.block == block(0)
    assert data.columns["sent_ns"].dtype == np.int64
    assert data.columns["sent_ns"].tolist() == [-1, 7]
    tokens = data.columns["output_tokens"]
    assert tokens.dtype == np.float64
    assert math.isnan(tokens[0])
    assert tokens[1] == 3.0
    assert data.columns["index"].tolist() == [0.0, 1.0]
    assert data.columns["text"].tolist() == ["żółw 🐢", "żółw 🐢"]
    assert data.columns["error"].tolist() == [None, None]
    assert data.columns["chunk_ns"][0].tolist() == [90, 95, 99]
    assert data.columns["chunk_ns"][1].size == 0
    assert data.columns["chunk_coalesced"][0].dtype == np.bool_
    assert data.columns["server_timings"][0] == {"prompt_ms": 12.5}


def test_an_empty_block_has_empty_columns(tmp_path: Path) -> None:
    run = folder(tmp_path)
    run.write_block(block(0, requests=0), [], [])
    assert len(run.blocks()[0]) == 0
    assert run.samples(0) == []
    same_columns(run.blocks()[0].columns, to_columns([]))


def test_what_a_server_says_cannot_lose_a_block(tmp_path: Path) -> None:
    run = folder(tmp_path)
    odd = record(0, text="a\ud800b \ud83d\ude00", output_tokens=10**30, server_timings={"x": math.inf, "y": 1.0})
    run.write_block(block(0, requests=1), [odd], [])
    (back,) = run.records(0)
    assert back.text == "a\ufffdb 😀"
    assert back.output_tokens is None
    assert back.server_timings == {"y": 1.0}


def test_samples_and_starts_come_back_and_a_start_is_replaced_by_id(tmp_path: Path) -> None:
    run = folder(tmp_path)
    samples = [sample(1, gpu_busy=0.25), Sample(t_ns=2)]
    run.write_block(block(0), [record(0), record(1)], samples)
    run.write_block(block(1), [record(0)], [])
    assert run.samples(0) == samples
    assert run.all_samples() == {0: samples, 1: []}
    first = Start(id=0, variant="base", round=0, group=0, spawn_ns=5, log="logs/000-base.log")
    second = Start(id=1, variant="flash", round=0, group=0, effective_config={"n_ctx": 4096, "kv": None})
    run.write_start(second)
    run.write_start(first)
    stopped = msgspec.structs.replace(first, stopped_ns=9, forced_stop=True, peak_anon_bytes=7)
    run.write_start(stopped)
    assert run.starts() == [stopped, second]
    assert RunFolder.open(run.path).starts() == [stopped, second]


def test_the_result_comes_back_and_holds_no_infinity(tmp_path: Path) -> None:
    run = folder(tmp_path)
    row = Comparison(
        candidate="flash",
        metric="ttft_s",
        statistic="p50",
        unit="s",
        better="lower",
        base=Interval(point=1.0),
        value=Interval(point=1.0, low=-math.inf, high=math.inf),
        ratio=Ratio(point=1.0, low=0.0, high=math.inf),
        outcome="inconclusive",
        margin=0.03,
        pairs=2,
    )
    result = Result(
        run=run.info.id,
        name="x",
        state="complete",
        base="base",
        candidates=("flash",),
        rounds=2,
        comparisons=(row,),
    )
    path = run.write_result(result)
    text = path.read_text()
    assert "Infinity" not in text
    assert '\n  "schema": "bakeoff.result/1"' in text
    back = run.read_result()
    assert back.comparisons[0].ratio == Ratio(point=1.0, low=0.0, high=None)
    assert back.comparisons[0].outcome == "inconclusive"


def test_run_json_keeps_the_experiment_and_updates_whole(tmp_path: Path) -> None:
    run = folder(tmp_path)
    run.update(state="interrupted", stop_reason="Ctrl-C", notes=("eins", "zwei"), spent=0.25, plan={"rounds": 7})
    again = RunFolder.open(run.path)
    assert again.info == run.info
    assert again.info.experiment == run.info.experiment
    assert again.info.state == "interrupted"
    assert again.info.plan == {"rounds": 7}
    assert again.info.created.endswith("+00:00")
    assert not list(run.path.glob("*.tmp"))


def test_the_report_is_written_whole(tmp_path: Path) -> None:
    run = folder(tmp_path)
    assert run.write_report("<p>größer</p>").read_text(encoding="utf-8") == "<p>größer</p>"
