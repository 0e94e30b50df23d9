import pytest

from bakeoff.compare.targets import all_targets, parse_gate
from bakeoff.errors import UsageError
from bakeoff.model import Load, Variant

from .simulate import experiment, workload


@pytest.mark.parametrize(
    ("text", "workload_name", "metric", "statistic"),
    [
        ("ttft_s", None, "ttft_s", "p50"),
        ("tpot_s.p99", None, "tpot_s", "p99"),
        ("chat.ttft_s", "chat", "ttft_s", "p50"),
        ("chat.v2.ttft_s.mean", "chat.v2", "ttft_s", "mean"),
        ("peak_memory_bytes", None, "peak_memory_bytes", "peak"),
        ("token_throughput_tps", None, "token_throughput_tps", "total"),
    ],
)
def test_gate_forms(text: str, workload_name: str | None, metric: str, statistic: str) -> None:
    gate = parse_gate(text)
    assert (gate.workload, gate.metric.name, gate.statistic) == (workload_name, metric, statistic)


@pytest.mark.parametrize("text", ["latency", "chat.ttft", "ttft_s.p42", "", "ttfo_s.p99"])
def test_unknown_gates_are_refused_with_the_choices(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_gate(text)
    assert "one of" in str(caught.value)


def test_gates_multiply_over_candidates_and_cells() -> None:
    asked = experiment(
        variants=tuple(Variant(name=n, engine="openai") for n in ("base", "flash", "fixed")),
        workloads=(workload(load=Load(kind="closed", levels=(1, 4))), workload(name="long")),
        gates=("ttft_s", "long.tpot_s.p99", "cold_start_s"),
    )
    gates = [t for t in all_targets(asked) if t.gate]
    # per candidate: TTFT in three cells, TPOT p99 in one, one start-up time
    assert len(gates) == 2 * (3 + 1 + 1)
    assert len(set(all_targets(asked))) == len(all_targets(asked))


def test_one_output_token_has_no_time_per_token() -> None:
    asked = experiment(workloads=(workload(output_tokens=1),))
    metrics = {t.metric.name for t in all_targets(asked)}
    assert "ttft_s" in metrics
    assert metrics.isdisjoint({"tpot_s", "itl_s"})
