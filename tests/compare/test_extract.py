import numpy as np
import pytest

from bakeoff.compare.extract import Requests, extract
from bakeoff.model import Block, BlockData, Price, RequestRecord
from bakeoff.runs.columns import to_columns

MS = 1_000_000
T0 = 10**15  # ns since boot beyond what a float64 can count exactly


def block(
    records: list[RequestRecord],
    window: tuple[int, int] = (T0, T0 + 10**9),
    *,
    slo: dict[str, float] | None = None,
    price: Price | None = None,
    energy_j: float | None = None,
) -> Requests:
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
        energy_j=energy_j,
    )
    return extract(BlockData(block=described, columns=to_columns(records)), slo=slo, price=price)


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
    assert found.per_block["request_throughput_rps"] == pytest.approx(1.0)
    assert found.per_block["token_throughput_tps"] == pytest.approx(4.0)


def test_missing_stamps_are_missing_values() -> None:
    found = block([record(first_token_ns=None, first_output_ns=None, last_token_ns=None, chunk_ns=[])])
    assert all(np.isnan(values[0]) for values in found.values.values())
    assert found.per_block["request_throughput_rps"] == 0.0


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
    cut = record(index=1, first_token_ns=T0 + 400 * MS, last_token_ns=T0 + 900 * MS)  # a fifth of it is inside
    failed = record(index=2, error="timeout")
    found = block([record(), cut, failed], window=(T0, T0 + 500 * MS))
    assert found.per_block["request_throughput_rps"] == pytest.approx(1.2 / 0.5)
    assert found.per_block["token_throughput_tps"] == pytest.approx(1.2 * 4 / 0.5)


def test_goodput_counts_requests_that_meet_every_limit() -> None:
    slow = record(index=1, first_token_ns=T0 + 500 * MS, last_token_ns=T0 + 560 * MS)
    failed = record(index=2, error="timeout")
    found = block([record(), slow, failed], slo={"ttft_s": 0.1, "tpot_s": 0.05})
    assert found.per_block["goodput_rps"] == pytest.approx(1.0)
    assert found.per_block["request_throughput_rps"] == pytest.approx(2.0)
    # one limit broken is enough
    assert block([record()], slo={"ttft_s": 0.1, "tpot_s": 0.01}).per_block["goodput_rps"] == 0
    assert np.isnan(block([record()]).per_block["goodput_rps"])


def test_a_value_that_is_undefined_cannot_break_its_limit() -> None:
    assert block([record(output_tokens=1)], slo={"tpot_s": 0.01}).per_block["goodput_rps"] == pytest.approx(1.0)


def test_cost_is_tokens_times_price_over_completed_requests() -> None:
    price = Price(input=1.0, output=10.0)
    found = block([record(), record(index=1, error="timeout")], price=price)
    assert found.per_block["cost_per_request"] == pytest.approx((128 * 1.0 + 4 * 10.0) / 1e6)
    assert np.isnan(block([record()]).per_block["cost_per_request"])
    assert np.isnan(block([record(output_tokens=None)], price=price).per_block["cost_per_request"])


def test_energy_is_per_output_token_and_unknown_where_nothing_measures_it() -> None:
    assert block([record(), record(index=1)], energy_j=16.0).per_block["energy_per_token_j"] == pytest.approx(2.0)
    assert np.isnan(block([record()]).per_block["energy_per_token_j"])
