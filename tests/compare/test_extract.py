import numpy as np
import pytest

from bakeoff.compare.extract import Requests, extract
from bakeoff.model import Block, BlockData, RequestRecord
from bakeoff.runs.columns import to_columns

MS = 1_000_000
T0 = 10**15  # ns since boot beyond what a float64 can count exactly


def block(records: list[RequestRecord], window: tuple[int, int] = (T0, T0 + 10**9)) -> Requests:
    described = Block(
        id=0,
        round=0,
        position=0,
        variant="base",
        cell="chat/c1",
        start_id=0,
        group=0,
        started_ns=window[0],
        ended_ns=window[1],
        wall=0.0,
        window_ns=window,
        requests=len(records),
        errors=0,
    )
    return extract(BlockData(block=described, columns=to_columns(records)))


def record(**changes: object) -> RequestRecord:
    """Sent at 5 ms, first token at 55 ms, then one every 20 ms: four tokens."""
    fields: dict[str, object] = {
        "index": 0,
        "prompt_id": 3,
        "scheduled_ns": T0,
        "sent_ns": T0 + 5 * MS,
        "first_token_ns": T0 + 55 * MS + 1,
        "first_output_ns": T0 + 75 * MS,
        "last_token_ns": T0 + 115 * MS + 1,
        "end_ns": T0 + 130 * MS,
        "input_tokens": 128,
        "output_tokens": 4,
        "chunk_ns": [T0 + t * MS for t in (55, 75, 95, 115)],
        "chunk_tokens": [1, 1, 1, 1],
        "chunk_coalesced": [False] * 4,
    }
    return RequestRecord(**(fields | changes))  # type: ignore[arg-type]  # a table of fields


def test_definitions_count_from_the_scheduled_time() -> None:
    found = block([record()])
    assert found.values["ttft_s"][0] == 0.055000001  # exact: stamps are subtracted as integers
    assert found.values["ttfo_s"][0] == 0.075
    assert found.values["e2e_latency_s"][0] == 0.115000001  # last content, not the end of the response
    assert found.values["tpot_s"][0] == pytest.approx(0.02)
    assert found.itl_s == pytest.approx([0.02] * 3)
    assert found.itl_hidden == 0


@pytest.mark.parametrize("tokens", [0, 1, None])
def test_tpot_needs_two_tokens(tokens: int | None) -> None:
    assert np.isnan(block([record(output_tokens=tokens)]).values["tpot_s"][0])


def test_everything_in_one_chunk_has_no_time_per_token() -> None:
    assert np.isnan(block([record(last_token_ns=T0 + 55 * MS + 1)]).values["tpot_s"][0])


def test_failed_requests_have_no_latency_and_do_not_count() -> None:
    found = block([record(), record(index=1, error="timeout", error_message="late")])
    assert found.completed == 1
    assert all(np.isnan(values[1]) for values in found.values.values())
    assert found.request_throughput_rps == pytest.approx(1.0)
    assert found.token_throughput_tps == pytest.approx(4.0)


def test_missing_stamps_are_missing_values() -> None:
    found = block([record(first_token_ns=None, first_output_ns=None, last_token_ns=None, chunk_ns=[])])
    assert all(np.isnan(values[0]) for values in found.values.values())
    assert found.request_throughput_rps == 0.0


def test_a_chunk_of_several_tokens_counts_as_several() -> None:
    found = block(
        [record(chunk_ns=[T0, T0 + 60 * MS], chunk_tokens=[1, 3], chunk_coalesced=[False, False], output_tokens=4)]
    )
    assert found.itl_s == pytest.approx([0.02] * 3)


def test_gaps_within_one_read_are_left_out_and_counted() -> None:
    found = block([record(chunk_coalesced=[False, True, False, True])])
    assert found.itl_s == pytest.approx([0.02])
    assert found.itl_hidden == pytest.approx(2 / 3)


def test_chunks_of_unknown_size_give_no_gaps() -> None:
    # usage says 64 tokens, the chunks account for 4: every chunk carries many, and nobody knows how many
    found = block([record(output_tokens=64)])
    assert found.itl_s.size == 0
    assert found.itl_hidden == 1.0


def test_requests_do_not_run_into_each_other() -> None:
    later = [T0 + 500 * MS, T0 + 530 * MS]
    found = block(
        [
            record(),
            record(index=1, chunk_ns=later, chunk_tokens=[1, 1], chunk_coalesced=[False, False], output_tokens=2),
            record(index=2, chunk_ns=[], chunk_tokens=[], chunk_coalesced=[]),
        ]
    )
    assert found.itl_s == pytest.approx([0.02, 0.02, 0.02, 0.03])


def test_throughput_only_inside_the_steady_window() -> None:
    found = block([record(), record(index=1, last_token_ns=T0 + 900 * MS)], window=(T0, T0 + 500 * MS))
    assert found.request_throughput_rps == pytest.approx(2.0)
    assert found.token_throughput_tps == pytest.approx(8.0)
