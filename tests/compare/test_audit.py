"""Every check fires where it should, touches what it should, and is silent on a good run."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from bakeoff.model import Caution, Experiment, Health, Load, Result, Variant

from .simulate import Arm, Simulation, changed, experiment, objects, workload
from .test_engine import result_of, row

PREFILL = {"ttft_s", "ttfo_s", "e2e_latency_s", "request_throughput_rps", "token_throughput_tps"}


def measured(arms: Mapping[str, Arm] | None = None, asked: Experiment | None = None, rounds: int = 8) -> Result:
    return result_of(Simulation(asked or experiment(), arms).run(rounds))


def cautions(result: Result, code: str) -> list[Caution]:
    return [c for c in result.warnings if c.code == code]


def one(result: Result, code: str) -> Caution:
    found = cautions(result, code)
    assert len(found) == 1, [c.code for c in result.warnings]
    assert found[0].remedy
    return found[0]


def invalid(result: Result) -> set[str]:
    return {r.metric for r in (*result.comparisons, *result.resources) if r.outcome == "invalid"}


def test_a_good_run_is_silent() -> None:
    result = measured({"flash": Arm(tpot_s=0.015)})
    assert [c.code for c in result.warnings] == ["tails"]
    assert invalid(result) == set()


def test_unequal_fixed_length_invalidates_what_depends_on_length() -> None:
    result = measured({"flash": Arm(output_tokens=24)})
    found = one(result, "output-tokens")
    assert found.severity == "invalid"
    assert "24 tokens an answer, base 32" in found.message
    assert invalid(result) == {"e2e_latency_s", "request_throughput_rps", "token_throughput_tps"}
    assert row(result, "tpot_s").outcome == "equivalent"
    assert found.remedy in (row(result, "e2e_latency_s").reason or "")
    assert "24 tokens on average where 32 were asked for" in one(result, "output-shortfall").message


def test_equal_shortfall_is_told_and_changes_nothing() -> None:
    short = Arm(output_tokens=20)
    result = measured({"base": short, "flash": short})
    assert {c.variant for c in cautions(result, "output-shortfall")} == {"base", "flash"}
    assert invalid(result) == set()


def test_natural_length_is_a_fact_not_a_fault() -> None:
    asked = experiment(workloads=(workload(length="natural", output_tokens=64),))
    result = measured({"base": Arm(output_tokens=40), "flash": Arm(output_tokens=48)}, asked)
    assert "+20 %" in one(result, "output-length").message
    assert invalid(result) == set()
    assert row(result, "e2e_latency_s").outcome == "slower"
    same = measured({"base": Arm(output_tokens=40), "flash": Arm(output_tokens=40)}, asked)
    assert cautions(same, "output-length") == []


def test_input_tokens_by_template_and_by_tokenizer() -> None:
    template = measured({"flash": Arm(input_tokens=140)})
    assert "template" in one(template, "input-tokens").message
    assert invalid(template) == PREFILL - {"ttfo_s"}
    scattered = Arm(columns={"input_tokens": lambda columns: 128.0 + columns["index"]})
    tokenizer = measured({"flash": scattered})
    assert "tokenizer" in one(tokenizer, "input-tokens").message
    assert {"tpot_s", "itl_s", "ttft_s"} <= invalid(tokenizer)
    assert cautions(measured({"flash": Arm(input_tokens=129)}), "input-tokens") == []


def test_finish_reasons() -> None:
    stops = Arm(columns={"finish_reason": lambda columns: objects(["stop", "length"] * 8)})
    found = one(measured({"flash": stops}), "finish-reasons")
    assert "50 % in flash" in found.message
    assert found.severity == "warning"


def test_some_errors_are_a_finding() -> None:
    result = measured({"flash": Arm(fail=0.08)})
    found = one(result, "errors")
    assert found.variant == "flash"
    assert "timeout" in found.message
    assert "\x1b" not in found.message
    assert invalid(result) == set()


def test_many_errors_in_one_arm_leave_a_selection() -> None:
    result = measured({"flash": Arm(fail=0.4)})
    assert one(result, "survivorship").severity == "invalid"
    rates = {"request_throughput_rps", "token_throughput_tps"}
    assert {"ttft_s", "tpot_s", "e2e_latency_s"} | rates <= invalid(result)
    both = measured({"base": Arm(fail=0.4), "flash": Arm(fail=0.4)})
    assert cautions(both, "survivorship") == []


@pytest.mark.parametrize("arm", ["base", "flash"])
def test_all_failed_says_why(arm: str) -> None:
    result = measured({arm: Arm(fail=1.0)}, rounds=2)
    assert [r.metric for r in result.comparisons] == ["ttft_s", "tpot_s"]
    for found in result.comparisons:
        assert found.outcome == "invalid"
        assert f"all 32 requests of {arm} failed: timeout 32 (no answer [31m in 600 s)" in (found.reason or "")


def test_error_messages_are_bounded() -> None:
    loud = Arm(fail=1.0, columns={"error_message": lambda columns: objects(["x" * 100_000] * 16)})
    assert len(one(measured({"flash": loud}, rounds=1), "all-failed").message) < 400


def test_cache_hits_by_usage_and_by_counter() -> None:
    for arm in (Arm(cached_tokens=64.0), Arm(block={"cache_hit_tokens": 1024, "cache_query_tokens": 2048})):
        result = measured({"flash": arm})
        found = one(result, "cache-hits")
        assert "flash took 50 %" in found.message
        assert invalid(result) == PREFILL - {"ttfo_s"}
    assert cautions(measured({"flash": Arm(cached_tokens=4.0)}), "cache-hits") == []
    both = measured({"base": Arm(cached_tokens=64.0), "flash": Arm(cached_tokens=64.0)})
    assert "ttft_s" in invalid(both)


def test_the_head_of_a_template_may_be_reused() -> None:
    head = Arm(cached_tokens=20.0)
    result = measured({"base": head, "flash": head})
    assert one(result, "cache-head").severity == "note"
    assert invalid(result) == set()


def test_shared_caches_are_meant() -> None:
    asked = experiment(workloads=(workload(cache="shared"),))
    assert invalid(measured({"flash": Arm(cached_tokens=64.0)}, asked)) == set()


HEALTHY = Arm().health


def unhealthy(**fields: Any) -> Arm:
    import msgspec

    return changed(Arm(), health=msgspec.structs.replace(HEALTHY, **fields))


@pytest.mark.parametrize(
    ("arm", "touched"),
    [
        (unhealthy(client_cpu_share=0.9), {"ttft_s", "tpot_s", "e2e_latency_s", "itl_s"}),
        (unhealthy(loop_lag_p50_s=0.0025), {"ttft_s", "e2e_latency_s"}),
        (unhealthy(loop_lag_p50_s=0.02), {"ttft_s", "tpot_s", "e2e_latency_s"}),
        (unhealthy(loop_lag_p99_s=0.02), {"itl_s"}),
        (Arm(columns={"sent_ns": lambda columns: columns["scheduled_ns"] + 2_000_000}), {"ttft_s", "e2e_latency_s"}),
    ],
)
def test_client_bound(arm: Arm, touched: set[str]) -> None:
    result = measured({"flash": arm})
    found = [c for c in cautions(result, "client-bound") if c.severity == "invalid"]
    assert found
    assert touched <= invalid(result)
    assert (invalid(result) & {"ttft_s", "tpot_s", "e2e_latency_s", "itl_s"}) == touched


def late(ttft_s: float, delay_s: float) -> Arm:
    return Arm(ttft_s=ttft_s, columns={"sent_ns": lambda columns: columns["scheduled_ns"] + int(delay_s * 1e9)})


@pytest.mark.parametrize(
    ("base", "flash", "severity"),
    [
        (late(0.020, 227e-6), late(0.020, 227e-6), "warning"),  # 1.1 % of TTFT, shared: dilutes and no more
        (late(0.005, 100e-6), late(0.005, 90e-6), "warning"),  # 2 % of TTFT
        (late(0.005, 300e-6), late(0.005, 300e-6), "invalid"),  # 6 %: more than the margin
        (late(0.030, 600e-6), late(0.030, 600e-6), "invalid"),  # 2 %, but no healthy event loop
        (late(0.020, 20e-6), late(0.020, 300e-6), "invalid"),  # of one arm alone
        (late(0.020, 300e-6), late(0.020, 20e-6), "invalid"),
        (late(0.020, 150e-6), late(0.020, 150e-6), None),  # 0.75 %
    ],
)
def test_a_fast_server_is_invalid_only_where_the_delay_matters(base: Arm, flash: Arm, severity: str | None) -> None:
    result = measured({"base": base, "flash": flash})
    found = cautions(result, "client-bound")
    assert ("invalid" if any(c.severity == "invalid" for c in found) else found[0].severity if found else None) == (
        severity
    )
    assert invalid(result) & {"ttft_s", "tpot_s"} == ({"ttft_s"} if severity == "invalid" else set())
    if severity == "warning":
        told = one(result, "client-bound")
        assert "dilute its ratio" in told.message
        assert "(base, flash)" in told.message
        assert "TPOT is not touched, E2E by 0" in told.remedy


def test_a_late_timer_now_and_then_spoils_gaps_and_no_median() -> None:
    result = measured({"flash": unhealthy(loop_lag_p99_s=0.02)})
    assert one(result, "client-bound").message.endswith(
        "(flash): gaps between tokens and tails are not reliable, medians are"
    )
    assert invalid(result) == {"itl_s"}
    assert row(result, "tpot_s").outcome == "equivalent"


def test_a_late_timer_of_all_arms_and_cells_is_one_fact() -> None:
    """It is the one client's; a short run on a busy machine would else say it a dozen times."""
    several = experiment(workloads=(workload(load=Load(kind="closed", levels=(1.0, 2.0, 4.0))),))
    arms = {"base": unhealthy(loop_lag_p99_s=0.02), "flash": unhealthy(loop_lag_p99_s=0.03)}
    result = measured(arms, asked=several)
    found = one(result, "client-bound")
    assert (found.variant, found.cell, found.metrics, found.severity) == (None, None, ("itl_s",), "invalid")
    assert "30.0 ms late or more (base, flash)" in found.message


def test_a_late_timer_of_one_candidate_leaves_the_others_valid() -> None:
    three = experiment(variants=tuple(Variant(name=n, engine="openai") for n in ("base", "flash", "more")))
    result = measured({"flash": unhealthy(loop_lag_p99_s=0.02)}, asked=three)
    assert one(result, "client-bound").variant == "flash"
    assert {r.candidate for r in result.comparisons if r.outcome == "invalid"} == {"flash"}
    result = measured({"base": unhealthy(loop_lag_p99_s=0.02)}, asked=three)
    assert one(result, "client-bound").variant is None
    assert {r.candidate for r in result.comparisons if r.outcome == "invalid"} == {"flash", "more"}


@pytest.mark.parametrize(
    ("code", "fields"), [("contention", {"other_cpu_share": 0.5}), ("steal", {"steal_share": 0.05})]
)
def test_contention_in_all_blocks_or_in_few(code: str, fields: dict[str, float]) -> None:
    everywhere = measured({"base": unhealthy(**fields), "flash": unhealthy(**fields)})
    cell, starts = cautions(everywhere, code)
    assert (cell.severity, cell.metrics) == ("invalid", ())
    assert (starts.severity, starts.metrics) == ("invalid", ("cold_start_s", "ready_s"))
    assert {"ttft_s", "tpot_s", "cold_start_s", "ready_s"} <= invalid(everywhere)
    assert "peak_memory_bytes" not in invalid(everywhere)
    simulation = Simulation(experiment(), {"flash": unhealthy(**fields)}).run(1)
    simulation.arms["flash"] = Arm()
    seldom = result_of(simulation.run(7))
    assert one(seldom, code).severity == "warning"
    assert invalid(seldom) == set()


def test_unknown_contention_is_no_contention() -> None:
    nothing = Arm(health=Health())
    assert [c.code for c in measured({"base": nothing, "flash": nothing}).warnings] == ["tails"]


def test_drift_in_the_differences() -> None:
    result = measured({"flash": Arm(drift=0.8)}, rounds=12)
    found = one(result, "drift")
    assert found.severity == "invalid"
    assert "ttft_s" in found.metrics
    assert row(result, "ttft_s").outcome == "invalid"
    assert row(result, "tpot_s").outcome == "equivalent"
    far = measured({"flash": Arm(ttft_s=0.2, drift=0.3)}, rounds=12)
    assert one(far, "drift").severity == "warning"  # four times slower, whatever 9 % of drift add
    assert row(far, "ttft_s").outcome == "slower"
    common = measured({"base": Arm(drift=0.8), "flash": Arm(drift=0.8)}, rounds=12)
    assert cautions(common, "drift") == []


def test_failed_a_a() -> None:
    simulation = Simulation(experiment()).run(8)
    for i, data in enumerate(simulation.blocks):
        if data.block.kind == "aa":
            late = {
                name: data.columns[name] + 20_000_000 for name in ("first_token_ns", "first_output_ns", "last_token_ns")
            }
            simulation.blocks[i] = type(data)(block=data.block, columns={**data.columns, **late})
    result = result_of(simulation)
    found = one(result, "aa-failed")
    assert "2 A/A pairs" in found.message
    assert "ttft_s" in found.metrics
    assert "tpot_s" not in found.metrics
    assert row(result, "ttft_s").outcome == "invalid"
    assert row(result, "tpot_s").outcome == "equivalent"


def test_dependent_pairs_and_a_first_pair_that_differs() -> None:
    simulation = Simulation(experiment(aa_pairs=0), {"flash": Arm(ttft_s=0.08)}).run(1)
    simulation.arms["flash"] = Arm()
    result = result_of(simulation.run(9))
    assert one(result, "first-pair").severity == "note"
    simulation = Simulation(experiment(aa_pairs=0)).run(0)
    for i in range(24):
        simulation.arms["flash"] = Arm(ttft_s=0.05 * (1 + 0.1 * np.sin(i / 4)))
        simulation.run(1)
    assert "autocorrelation" in one(result_of(simulation), "dependent-pairs").message


def test_one_start_and_arms_one_after_the_other() -> None:
    result = measured(asked=experiment(start_every=0))
    assert "(base, flash)" in one(result, "one-start").message
    assert cautions(result, "not-interleaved") == []
    simulation = Simulation(experiment(start_every=0)).run(4)
    import msgspec

    for i, data in enumerate(simulation.blocks):
        shift = 10**15 if data.block.variant == "flash" else 0
        moved = msgspec.structs.replace(
            data.block, started_ns=data.block.started_ns + shift, ended_ns=data.block.ended_ns + shift
        )
        simulation.blocks[i] = type(data)(block=moved, columns=data.columns)
    result = result_of(simulation)
    assert one(result, "not-interleaved").variant == "flash"
    assert {row.outcome for row in result.comparisons} == {"invalid"}


def test_saturation_of_one_arm_in_an_open_loop() -> None:
    asked = experiment(workloads=(workload(load=Load(kind="open", levels=(4.0,))),))
    queue = Arm(
        columns={
            name: lambda columns, n=name: columns[n] + (columns["index"] * 5e7).astype(np.int64)
            for name in ("first_token_ns", "first_output_ns", "last_token_ns")
        }
    )
    result = measured({"flash": queue}, asked)
    found = one(result, "saturated")
    assert found.variant == "flash"
    assert found.severity == "warning"
    assert row(result, "ttft_s").outcome == "slower"


def test_hidden_gaps_drop_itl_or_invalidate_its_gate() -> None:
    together = Arm(columns={"chunk_coalesced": lambda columns: objects([np.arange(32) % 2 == 1] * 16)})
    result = measured({"flash": together})
    assert one(result, "hidden-gaps").severity == "note"
    assert not any(r.metric == "itl_s" for r in result.comparisons)
    gated = measured({"flash": together}, experiment(gates=("itl_s",)))
    assert row(gated, "itl_s").outcome == "invalid"


def at_once(every: int) -> Arm:
    """An arm of which one answer in `every` comes in one network read."""
    return Arm(
        columns={
            "last_token_ns": lambda columns: np.where(
                columns["index"] % every == 0, columns["first_token_ns"], columns["last_token_ns"]
            )
        }
    )


@pytest.mark.parametrize("arm", ["base", "flash"])
def test_answers_in_one_read_have_no_tpot(arm: str) -> None:
    result = measured({arm: at_once(2)})
    found = one(result, "tpot-hidden")
    assert f"64 of 128 answers of {arm} (50 %) came in one network read" in found.message
    assert row(result, "tpot_s").outcome == "invalid"
    assert row(result, "itl_s").outcome == "invalid"
    assert row(result, "e2e_latency_s").outcome != "invalid"


def test_no_tpot_at_all_is_invalid_and_not_undecided() -> None:
    result = measured({"flash": at_once(1)})
    assert row(result, "tpot_s").outcome == "invalid"


def test_few_answers_in_one_read_are_a_note() -> None:
    simulation = Simulation(experiment(), {"flash": at_once(4)}).run(1)
    simulation.arms["flash"] = Arm()
    result = result_of(simulation.run(7))
    assert "4 of 128 answers of flash (3.1 %)" in one(result, "tpot-hidden").message
    assert one(result, "tpot-hidden").severity == "note"
    assert invalid(result) == set()


def test_answers_of_one_token_hide_nothing() -> None:
    asked = experiment(workloads=(workload(output_tokens=1),), gates=("ttft_s",))
    assert cautions(measured({"flash": at_once(1)}, asked), "tpot-hidden") == []


@pytest.mark.parametrize(
    ("note", "remedy"),
    [
        ("the file's 3 prompts are fewer than the run needs: they repeat, reshuffled", "add prompts to the file"),
        ("prompt lengths are estimated: the server offers no tokenizer", "/tokenize"),
        ("the tokenizer allows no text of exactly 9 tokens: the nearest is used", "the same prompts"),
    ],
)
def test_notes_of_prompts_are_told_once_with_their_own_remedy(note: str, remedy: str) -> None:
    told = Arm(block={"notes": (note,)})
    found = one(measured({"base": told, "flash": told}), "prompt-note")
    assert (found.message, found.variant) == (note, None)
    assert remedy in found.remedy
    assert "log" not in found.remedy


@pytest.mark.parametrize(("engine", "where"), [("openai", "where it runs"), ("command", "in the run folder")])
def test_a_log_is_looked_for_where_it_is(engine: str, where: str) -> None:
    variants = tuple(Variant(name=n, engine=engine) for n in ("base", "flash"))
    told: dict[str, Any] = {"fail": 0.2, "block": {"notes": ("the server ended during this block: killed",)}}
    result = measured({"flash": Arm(**told)}, asked=experiment(variants=variants))
    assert where in cautions(result, "errors")[0].remedy
    assert where in one(result, "block-note").remedy
    assert (
        where
        in cautions(measured({"flash": Arm(fail=1.0)}, asked=experiment(variants=variants)), "all-failed")[0].remedy
    )


def test_the_remedy_for_one_start_is_what_is_missing() -> None:
    def remedy(engine: str, **fields: Any) -> str:
        variants = tuple(Variant(name=n, engine=engine) for n in ("base", "flash"))
        return one(measured(asked=experiment(variants=variants, **fields), rounds=1), "one-start").remedy

    assert "engine `command`" in remedy("openai", start_every=0)
    assert "more rounds" in remedy("command", start_every=1)
    assert "`starts: every round`" in remedy("command", start_every=0)
    assert "full demo" in remedy("command", start_every=0, name="demo-quick")


def test_notes() -> None:
    told = Arm(
        block={"warmup_stable": False, "notes": ("the server ended during this block: killed\x07",)},
        columns={"tokens_source": lambda columns: objects(["estimated"] * 16)},
    )
    result = measured({"flash": told})
    assert one(result, "tokens-estimated").variant == "flash"
    assert "8 of 8 blocks" in one(result, "warm-up").message
    assert one(result, "block-note").variant == "flash"
    assert one(result, "block-note").message == "the server ended during this block: killed (8 blocks)"
    assert invalid(result) == set()


def test_faults_of_the_base_touch_every_candidate_those_of_one_only_itself() -> None:
    asked = experiment(variants=tuple(Variant(name=n, engine="openai") for n in ("base", "flash", "fixed")))
    own = measured({"flash": Arm(input_tokens=200)}, asked)
    assert row(own, "ttft_s", candidate="flash").outcome == "invalid"
    assert row(own, "ttft_s", candidate="fixed").outcome == "equivalent"
    base = measured({"base": unhealthy(client_cpu_share=0.95)}, asked)
    assert {row(base, "ttft_s", candidate=c).outcome for c in ("flash", "fixed")} == {"invalid"}
