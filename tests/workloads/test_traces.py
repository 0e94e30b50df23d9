from __future__ import annotations

import asyncio
import itertools
import json
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bakeoff.model import BlockSize, Load, Prompts, Workload
from bakeoff.workloads import Prompt, PromptFactory, WorkloadError
from bakeoff.workloads.traces import Row, Trace

from .tokenizers import ALL, Toy, pieces

_REAL = Path(__file__).parents[2].parent / "shared" / "workloads"
needs_traces = pytest.mark.skipif(not _REAL.is_dir(), reason="the public traces are not here")
_HEADER = "TIMESTAMP,ContextTokens,GeneratedTokens"


def _azure(folder: Path, *lines: str, header: str = _HEADER, end: str = "\n") -> Path:
    path = folder / "trace.csv"
    path.write_bytes(end.join([header, *lines]).encode())
    return path


def _mooncake(folder: Path, *rows: object) -> Path:
    path = folder / "trace.jsonl"
    path.write_text("".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows), "utf-8")
    return path


def _row(ms: float = 0, size: int = 600, out: int = 5, ids: list[int] | None = None) -> dict[str, Any]:
    return {"timestamp": ms, "input_length": size, "output_length": out, "hash_ids": [0, 1] if ids is None else ids}


def _factory(path: Path, source: Literal["azure", "mooncake"] = "mooncake", **kw: Any) -> PromptFactory:
    workload = Workload(
        name="w",
        prompts=Prompts(source=source, path=str(path), recorded_lengths=kw.pop("recorded", True), **kw.pop("more", {})),
        output_tokens=kw.pop("limit", 4096),
        load=kw.pop("load", Load(kind="replay", levels=(1.0,))),
        block=BlockSize(requests=kw.pop("requests", 4)),
        cache=kw.pop("cache", "declared"),
    )
    return PromptFactory(workload, seed=kw.pop("seed", 1), run_id="r", tokenizer=kw.pop("tokenizer", Toy(pieces)))


def _block(factory: PromptFactory, count: int = 4, round_: int = 0, variant: str = "base") -> list[Prompt]:
    return asyncio.run(factory.block(round=round_, variant=variant, visit="x1", count=count))


# What is read ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_azure_times_are_exact_to_the_last_digit(tmp_path: Path) -> None:
    lines = ["2023-11-16 18:17:03.9799600,4808,10", "2023-11-16T18:17:04.0319601Z,3180,0", "2023-11-17 00:00:00,3,9"]
    for end in ("\n", "\r\n"):
        trace = Trace(_azure(tmp_path, *lines, "", end=end), "azure")
        assert [trace.row(n) for n in range(len(trace))] == [
            Row(0, 4808, 10),
            Row(52_000_100, 3180, 1),  # no server answers with nothing
            Row((5 * 3600 + 42 * 60 + 56) * 10**9 + 20_040_000, 3, 9),
        ]


def test_columns_may_stand_in_any_order_and_rows_in_any_time(tmp_path: Path) -> None:
    path = _azure(tmp_path, "9,x,2023-11-16 10:00:01,7", "8,y,2023-11-16 10:00:00,6", header="ContextTokens,a,"
                  "timestamp,GeneratedTokens")  # fmt: skip
    trace = Trace(path, "azure")
    assert [trace.row(n) for n in range(2)] == [Row(0, 8, 6), Row(10**9, 9, 7)]


def test_mooncake_rows_keep_their_blocks(tmp_path: Path) -> None:
    rows = [_row(7.5, 1025, 3, [5, 6, 7]), _row(2, 10, 0, []), {"timestamp": 9, "input_length": 4, "output_length": 2}]
    trace = Trace(_mooncake(tmp_path, *rows), "mooncake")
    assert [trace.row(n) for n in range(3)] == [
        Row(0, 10, 1),
        Row(5_500_000, 1025, 3, (5, 6, 7)),
        Row(7_000_000, 4, 2),
    ]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("2023-11-16 18:17:03,12", "2 columns"),
        ("2023-13-16 18:17:03,12,1", "TIMESTAMP"),
        ("2023-02-30 18:17:03,12,1", "TIMESTAMP"),
        ("yesterday,12,1", "TIMESTAMP"),
        ("2023-11-16 18:17:03,-12,1", "ContextTokens"),
        ("2023-11-16 18:17:03,12,1.5", "GeneratedTokens"),
        ("2023-11-16 18:17:03,99999999,1", "ContextTokens"),
    ],
)
def test_each_bad_line_of_a_csv_is_named(tmp_path: Path, line: str, expected: str) -> None:
    path = _azure(tmp_path, "2023-11-16 18:17:03,12,1", line, "bad")
    with pytest.raises(WorkloadError) as caught:
        Trace(path, "azure")
    text = str(caught.value)
    assert f"{path}:3: " in text
    assert expected in text
    assert f"{path}:4: " in text
    assert "2 lines are not requests" in text
    assert "yesterday" not in text


def test_a_csv_without_its_columns_is_refused(tmp_path: Path) -> None:
    with pytest.raises(WorkloadError, match="contexttokens, generatedtokens is missing"):
        Trace(_azure(tmp_path, "1,2,3", header="TIMESTAMP,in,out"), "azure")
    with pytest.raises(WorkloadError, match="no request"):
        Trace(_azure(tmp_path), "azure")


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ("{", "not valid JSON"),
        ("[]", "not an object"),
        (_row(-1), "timestamp"),
        ({**_row(), "timestamp": "0"}, "timestamp"),
        (_row(1e300), "timestamp"),
        (_row(size=-1), "input_length"),
        ({**_row(), "output_length": True}, "output_length"),
        (_row(ids=[0, -1]), "hash_ids"),
        ({**_row(), "hash_ids": {"a": 1}}, "hash_ids"),
        (_row(size=512, ids=[1, 2]), "more"),
    ],
)
def test_each_bad_line_of_a_mooncake_trace_is_named(tmp_path: Path, row: object, expected: str) -> None:
    path = _mooncake(tmp_path, _row(), row)
    with pytest.raises(WorkloadError) as caught:
        Trace(path, "mooncake")
    assert f"{path}:2: " in str(caught.value)
    assert expected in str(caught.value)


@pytest.mark.parametrize("form", ["azure", "mooncake"])
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, derandomize=True)
@given(content=st.binary(max_size=200), headed=st.booleans())
def test_no_content_does_anything_but_a_workload_error(
    tmp_path: Path, form: Literal["azure", "mooncake"], content: bytes, headed: bool
) -> None:
    path = tmp_path / "fuzz"
    path.write_bytes((_HEADER.encode() + b"\n" if headed else b"") + content)
    try:
        trace = Trace(path, form)
    except WorkloadError:
        return
    assert all(trace.row(n).input_tokens >= 1 for n in range(len(trace)))


_ROWS = st.lists(
    st.builds(
        lambda us, size, out, spare, ids: Row(us * 1000, size, out, tuple(ids[: max(0, -(-size // 512) - spare)])),
        st.integers(0, 10**12),
        st.integers(1, 3000),
        st.integers(1, 3000),
        st.integers(0, 2),
        st.lists(st.integers(0, 2**62), min_size=6, max_size=6),
    ),
    min_size=1,
    max_size=30,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, derandomize=True, max_examples=50)
@given(rows=_ROWS)
def test_valid_traces_come_back_as_they_were_written(tmp_path: Path, rows: list[Row]) -> None:
    path = _mooncake(
        tmp_path, *(_row(r.arrival_ns / 1e6, r.input_tokens, r.output_tokens, list(r.blocks)) for r in rows)
    )
    trace = Trace(path, "mooncake")
    ordered = sorted(rows, key=lambda r: r.arrival_ns)
    assert [trace.row(n)._replace(arrival_ns=0) for n in range(len(trace))] == [
        r._replace(arrival_ns=0) for r in ordered
    ]
    expected = [r.arrival_ns - ordered[0].arrival_ns for r in ordered]
    assert list(trace.arrivals_ns) == pytest.approx(expected, abs=200)  # milliseconds as a float


# What is made of it ───────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", ALL)
def test_prompts_have_the_traces_lengths_under_every_tokenizer(tmp_path: Path, name: str) -> None:
    sizes = [700, 1024, 1030, 90, 1600]
    rows = [_row(n, size, n + 1, list(range(-(-size // 512)))) for n, size in enumerate(sizes)]
    factory = _factory(_mooncake(tmp_path, *rows), requests=5, tokenizer=Toy(ALL[name]))
    block = _block(factory, 5)
    assert [ALL[name](prompt.text) for prompt in block] == sizes
    assert [prompt.input_tokens for prompt in block] == sizes
    assert [prompt.asked_tokens for prompt in block] == sizes
    assert [prompt.output_tokens for prompt in block] == [1, 2, 3, 4, 5]
    assert factory.notes == ()


def test_prompts_share_exactly_the_text_of_the_ids_they_share(tmp_path: Path) -> None:
    rows = [
        _row(0, 2000, 1, [1, 2, 3, 4]),
        _row(1, 1800, 1, [1, 2, 3, 9]),
        _row(2, 1500, 1, [1, 7, 8]),
        _row(3, 2000, 1, [1, 2, 3, 4]),
    ]
    one, two, three, four = (prompt.text for prompt in _block(_factory(_mooncake(tmp_path, *rows))))
    head = 7  # the block's nonce: six words and a full stop
    assert pieces(_common(one, two)) == pytest.approx(head + 3 * 512, abs=3)  # words may agree by chance
    assert pieces(_common(one, three)) == pytest.approx(head + 512, abs=3)
    assert one == four


def _common(one: str, other: str) -> str:
    same = itertools.takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False))
    return "".join(a for a, _ in same)


def test_a_blocks_text_depends_on_the_seed_and_its_id_alone(tmp_path: Path) -> None:
    rows = [_row(0, 1100, 1, [4, 5, 6]), _row(1, 30, 1, [8])]
    first = _block(_factory(_mooncake(tmp_path, *rows), requests=1), 1)[0].text
    again = _factory(_mooncake(tmp_path, *reversed(rows), _row(2, 1100, 1, [4, 5, 6])), requests=3)
    assert any(prompt.text[30:] == first[30:] for prompt in _block(again, 3))
    other = _block(_factory(_mooncake(tmp_path, *rows), requests=1, seed=2), 1)[0].text
    assert other[30:80] != first[30:80]


def test_arms_get_the_same_bodies_and_blocks_other_nonces(tmp_path: Path) -> None:
    factory = _factory(_mooncake(tmp_path, *(_row(n, 600 + n, 1, [n, n + 50]) for n in range(4))))
    base, flash = _block(factory), _block(factory, variant="flash")
    heads = [{prompt.text[:30] for prompt in block} for block in (base, flash)]
    assert [len(found) for found in heads] == [1, 1]  # declared: one a block
    assert heads[0] != heads[1]
    assert [prompt.text[30:] for prompt in base] == [prompt.text[30:] for prompt in flash]


def test_rounds_take_the_next_window_and_wrap_with_a_note(tmp_path: Path) -> None:
    factory = _factory(_mooncake(tmp_path, *(_row(n, 100 + n, 1, [n]) for n in range(6))))
    assert [p.asked_tokens for p in _block(factory)] == [100, 101, 102, 103]
    assert not factory.notes
    assert [p.asked_tokens for p in _block(factory, round_=1)] == [104, 105, 100, 101]
    assert factory.notes == ("the trace's 6 requests are fewer than the run needs: they repeat",)


@pytest.mark.parametrize(
    "load", [Load(kind="closed", levels=(2.0,)), Load(kind="open", levels=(3.0,), arrivals="constant")]
)
def test_lengths_of_a_trace_serve_other_loads_too(tmp_path: Path, load: Load) -> None:
    factory = _factory(_mooncake(tmp_path, *(_row(n, 100 + n, 1, [n]) for n in range(8))), load=load)
    assert [p.asked_tokens for p in _block(factory, round_=1)] == [104, 105, 106, 107]


def test_overlong_prompts_are_cut_or_skipped_and_counted(tmp_path: Path) -> None:
    path = _mooncake(tmp_path, *(_row(n, size, 1, []) for n, size in enumerate([50, 900, 60, 70, 800, 80])))
    cut = _factory(path, more={"max_input_tokens": 100})
    block = _block(cut, 4)
    assert [(p.asked_tokens, p.input_tokens) for p in block] == [(50, 50), (900, 100), (60, 60), (70, 70)]
    assert cut.notes == ("2 of the trace's 6 prompts are longer than 100 tokens: cut",)
    skip = _factory(path, more={"max_input_tokens": 100, "overlong": "skip"})
    assert [p.asked_tokens for p in _block(skip, 4)] == [50, 60, 70, 80]
    assert skip.notes == ("2 of the trace's 6 prompts are longer than 100 tokens: skipped",)
    with pytest.raises(WorkloadError, match="every prompt is longer"):
        _factory(path, more={"max_input_tokens": 10, "overlong": "skip"})


def test_a_sample_thins_the_trace_by_seed_and_keeps_its_order(tmp_path: Path) -> None:
    path = _mooncake(tmp_path, *(_row(100 * n, 100 + n, 1, []) for n in range(40)))
    sizes = [[p.asked_tokens or 0 for p in _block(_factory(path, seed=s, more={"sample": 10}), 10)] for s in (1, 1, 2)]
    assert sizes[0] == sizes[1] != sizes[2]
    assert sizes[0] == sorted(set(sizes[0]))
    factory = _factory(path, more={"sample": 10})
    gaps = np.diff(np.array(factory.arrivals(0, 1.0, count=10)))
    assert list(gaps) == [(b - a) * 100_000_000 for a, b in itertools.pairwise(sizes[0])]


def test_a_given_output_length_counts_instead_of_the_recorded_one(tmp_path: Path) -> None:
    path = _mooncake(tmp_path, _row(out=9), _row(out=900))
    assert {p.output_tokens for p in _block(_factory(path, recorded=False, requests=2), 2)} == {None}
    capped = _factory(path, limit=100, requests=2)
    assert [p.output_tokens for p in _block(capped, 2)] == [9, 100]
    assert capped.notes == ("answers of more than 100 tokens are asked for with that limit",)


def test_very_short_prompts_are_exact_with_a_nonce_of_their_own(tmp_path: Path) -> None:
    path = _mooncake(tmp_path, *(_row(n, n + 1, 1, []) for n in range(12)))
    block = _block(_factory(path, requests=12, cache="unique"), 12)
    assert [pieces(p.text) for p in block] == list(range(1, 13))


def test_unique_prompts_of_a_sharing_trace_are_noted(tmp_path: Path) -> None:
    path = _mooncake(tmp_path, _row(), _row())
    unique, shared = _factory(path, cache="unique", requests=2), _factory(path, cache="shared", requests=2)
    assert any(note.startswith("cache: unique keeps") for note in unique.notes)
    one, two = (p.text for p in _block(unique, 2))
    assert one[:4] != two[:4]
    assert shared.notes == ()
    assert _block(shared, 2)[0].text == _block(shared, 2, variant="flash")[0].text


# The public traces ────────────────────────────────────────────────────────────────────────────────────────────────────


@needs_traces
@pytest.mark.parametrize(
    ("name", "requests", "span_s", "cv", "inputs", "outputs"),
    [
        ("code", 8819, 3436, 13.2, (1469, 7436), (13, 252)),
        ("conv", 19366, 3502, 1.09, (1020, 4142), (129, 601)),
    ],
)
def test_the_azure_traces_have_their_published_figures(
    name: str, requests: int, span_s: float, cv: float, inputs: tuple[int, int], outputs: tuple[int, int]
) -> None:
    trace = Trace(_REAL / f"azure_llm_2023_{name}_full.csv", "azure")
    assert len(trace) == requests
    rows = [trace.row(n) for n in range(len(trace))]
    gaps = np.diff(np.array([row.arrival_ns for row in rows]))
    assert gaps.sum() / 1e9 == pytest.approx(span_s, abs=1)
    assert gaps.std() / gaps.mean() == pytest.approx(cv, rel=0.01)
    for values, expected in (([r.input_tokens for r in rows], inputs), ([r.output_tokens for r in rows], outputs)):
        assert np.quantile(values, (0.5, 0.99)) == pytest.approx(expected, abs=1.5)


@needs_traces
def test_a_mooncake_trace_is_replayed_with_its_prefixes() -> None:
    path = _REAL / "mooncake_conv_first1000.jsonl"
    rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()[:8]]
    factory = _factory(path, requests=8)
    block = _block(factory, 8)
    assert [pieces(p.text) for p in block] == [row["input_length"] for row in rows]
    assert factory.arrivals(0, 2.0, count=8) == tuple(row["timestamp"] * 500_000 for row in rows)
    for (a, one), (b, two) in itertools.combinations(zip(rows, block, strict=True), 2):
        ids = zip(a["hash_ids"], b["hash_ids"], strict=False)
        shared = sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], ids))
        if shared:
            assert pieces(_common(one.text, two.text)) == pytest.approx(7 + 512 * shared, abs=4)
