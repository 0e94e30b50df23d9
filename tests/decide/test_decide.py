from typing import Literal, cast

import msgspec
import pytest

from bakeoff.decide import decide
from bakeoff.model import (
    BlockSize,
    Caution,
    Comparison,
    Experiment,
    Interval,
    Load,
    Outcome,
    Prompts,
    QualityNote,
    Ratio,
    Variant,
    Workload,
)

SHORT, LONG = "short 128/32, 1 at a time", "long 2048/32, 1 at a time"
QUALITY = "if its quality suffices (quality was not measured)"
METRIC = {"ttft": "ttft_s", "tpot": "tpot_s", "e2e": "e2e_latency_s"}


def asked(*candidates: str) -> Experiment:
    return Experiment(
        name="x",
        variants=tuple(Variant(name=n, engine="openai") for n in ("base", *candidates)),
        workloads=tuple(
            Workload(
                name=name,
                prompts=Prompts(input_tokens=tokens),
                output_tokens=32,
                load=Load(kind="closed", levels=(1,)),
                block=BlockSize(requests=4),
            )
            for name, tokens in (("short", 128), ("long", 2048))
        ),
    )


def row(candidate: str, place: str, outcome: str, ratio: float, **changes: object) -> Comparison:
    """place: ``short.ttft``; E2E is exploration, the others gate."""
    name, metric = place.split(".")
    fields: dict[str, object] = {
        "candidate": candidate,
        "workload": name,
        "load": {"concurrency": 1},
        "metric": METRIC[metric],
        "statistic": "p50",
        "unit": "s",
        "better": "lower",
        "base": Interval(point=1.0),
        "value": Interval(point=ratio),
        "ratio": Ratio(point=ratio, low=ratio * 0.98, high=ratio * 1.02),
        "outcome": cast("Outcome", outcome),
        "margin": 0.03,
        "pairs": 8,
        "gate": metric != "e2e",
    }
    return Comparison(**(fields | changes))  # type: ignore[arg-type]  # a table of fields


Words = Literal["faster", "slower", "equivalent", "inconclusive", "invalid"]
RATIO = {"faster": 0.7, "slower": 1.6, "equivalent": 1.0, "inconclusive": 1.02, "invalid": 1.0}


def rows(candidate: str, **outcomes: str) -> list[Comparison]:
    """rows("flash", short="faster slower faster"): TTFT, TPOT and E2E of a cell."""
    return [
        row(candidate, f"{cell}.{metric}", word, RATIO[word])
        for cell, words in outcomes.items()
        for metric, word in zip(METRIC, words.split(), strict=False)
    ]


def test_faster_everywhere_is_shipped() -> None:
    found = decide(asked("flash"), rows("flash", short="faster faster faster", long="equivalent faster faster"))
    assert found.ship == "flash"
    assert found.conditions == (QUALITY,)
    assert found.reasons[0] == f"flash in {SHORT}: TTFT −30 % [−31, −29], TPOT −30 % [−31, −29]"


def test_slower_or_equal_everywhere_keeps_the_base() -> None:
    found = decide(asked("flash"), rows("flash", short="slower slower slower", long="equivalent equivalent equivalent"))
    assert found.ship == "base"
    assert found.reasons[0] == "no candidate is faster anywhere"
    assert found.conditions == ()


def test_mixed_cells_are_shared_out() -> None:
    found = decide(asked("flash"), rows("flash", short="faster faster faster", long="slower equivalent slower"))
    assert found.ship == "flash"
    assert found.conditions == (f"for {SHORT}", f"base for {LONG}", QUALITY)


def test_gates_that_disagree_are_decided_by_the_whole_task() -> None:
    found = decide(asked("flash"), rows("flash", short="slower faster faster", long="slower faster slower"))
    assert found.ship == "flash"
    assert found.conditions[:2] == (f"for {SHORT}", f"base for {LONG}")
    assert "they disagree, so the typical task decides: E2E −30 % [−31, −29], faster" in found.reasons[0]
    wins = decide(asked("flash"), rows("flash", short="slower faster faster", long="slower faster faster"))
    assert wins.ship == "flash"
    assert wins.conditions[0] == "where the time of a whole task counts (TTFT is slower)"
    ties = decide(asked("flash"), rows("flash", short="slower faster equivalent", long="slower faster equivalent"))
    assert ties.ship == "base"


@pytest.mark.parametrize("e2e", ["inconclusive", "invalid", None])
def test_gates_that_disagree_without_a_decided_task_stay_open(e2e: str | None) -> None:
    words = "slower faster" + (f" {e2e}" if e2e else "")
    found = decide(asked("flash"), rows("flash", short=words, long="faster faster faster"))
    assert found.ship is None
    assert "flash is undecided" in found.reasons[0]
    assert found.conditions == (f"flash rather than base for {LONG}",)


def test_undecided_says_what_is_missing() -> None:
    open_gates = [
        row("flash", "short.ttft", "inconclusive", 1.02, pairs_needed=57, seconds_needed=240.0),
        row("flash", "short.tpot", "probably faster", 0.96, pairs_needed=3),
        row("flash", "long.ttft", "inconclusive", 1.02),
    ]
    found = decide(asked("flash"), open_gates)
    assert found.ship is None
    # A sentence a cell, and each gate with its own pairs: the one that needs many says nothing about the other.
    assert len(found.reasons) == 2
    assert found.reasons[0] == (
        f"flash is undecided in {SHORT}: "
        "TTFT +2.0 % [±0.0, +4.0] inconclusive, about 57 more pairs needed (about 4 min); "
        "TPOT −4.0 % [−5.9, −2.1] probably faster, about 3 more pairs needed"
    )
    assert found.reasons[1] == f"flash is undecided in {LONG}: TTFT +2.0 % [±0.0, +4.0] inconclusive"


def test_a_gate_without_a_pair_says_so_instead_of_a_number() -> None:
    bare = row("flash", "short.ttft", "inconclusive", 1.0, reason="no complete pair yet")
    found = decide(asked("flash"), [msgspec.structs.replace(bare, ratio=Ratio(point=None))])
    assert found.reasons == (f"flash is undecided in {SHORT}: TTFT inconclusive, no complete pair yet",)


def test_cells_invalid_for_one_reason_say_it_once() -> None:
    why = "in 12 of 12 blocks other processes took the machine; stop them"
    gates = [
        row("flash", "short.ttft", "invalid", 0.5, reason=why),
        row("flash", "long.ttft", "invalid", 0.5, reason=f"{why} (and 1 more, see the warnings)"),
    ]
    (reason,) = decide(asked("flash"), gates).reasons
    assert reason.count("other processes") == 1


def test_invalid_is_no_verdict() -> None:
    gate = row("flash", "short.ttft", "invalid", 0.5, reason="the client used 95 % of a core; lower the load")
    found = decide(asked("flash"), [gate, *rows("flash", long="faster faster faster")])
    assert found.ship is None
    assert found.reasons == (
        "flash cannot be judged, the comparison is invalid: the client used 95 % of a core; lower the load",
    )


def test_garbage_is_never_shipped() -> None:
    garbage = [QualityNote(candidate="flash", status="garbage", reason="90 % of the outputs are empty")]
    found = decide(asked("flash"), rows("flash", short="faster faster faster"), garbage)
    assert found.ship == "base"
    assert found.reasons[0] == "never flash: 90 % of the outputs are empty"
    both = [*rows("flash", short="faster faster faster"), *rows("fixed", short="equivalent faster faster")]
    found = decide(asked("flash", "fixed"), both, garbage)
    assert found.ship == "fixed"
    assert found.reasons[-1].startswith("never flash")


def test_the_best_of_several() -> None:
    comparisons = [
        *rows("flash", short="faster faster", long="slower faster slower"),
        *rows("fixed", short="faster faster", long="faster faster"),
        *rows("small", short="equivalent faster", long="equivalent faster"),
        row("fixed", "short.e2e", "faster", 0.8),
        row("fixed", "long.e2e", "faster", 0.6),
        row("small", "short.e2e", "faster", 0.9),
        row("small", "long.e2e", "faster", 0.9),
    ]
    found = decide(asked("flash", "fixed", "small"), comparisons)
    assert found.ship == "fixed"
    told = "\n".join(found.reasons)
    assert f"not flash: TTFT +60 % [+57, +63] in {LONG}" in told
    assert "small is faster than the base too, but not more so than fixed: typical task −10 % against −31 %" in told


def test_a_good_candidate_does_not_wait_for_an_undecided_one() -> None:
    comparisons = [*rows("flash", short="inconclusive faster"), *rows("fixed", short="faster faster")]
    found = decide(asked("flash", "fixed"), comparisons)
    assert found.ship == "fixed"
    assert any("flash is undecided" in reason for reason in found.reasons)


def test_an_undecided_candidate_keeps_the_base_from_being_named() -> None:
    comparisons = [*rows("flash", short="slower slower"), *rows("fixed", short="inconclusive faster")]
    found = decide(asked("flash", "fixed"), comparisons)
    assert found.ship is None
    assert "fixed is undecided" in found.reasons[0]
    assert found.conditions == (f"base rather than flash for {SHORT}",)


def test_nothing_measured() -> None:
    assert decide(asked("flash"), []).ship is None


def test_conditions_of_quality_and_starts() -> None:
    fast = rows("flash", short="faster faster faster")
    once = [Caution(code="one-start", message="m", remedy="r")]
    ok = [QualityNote(candidate="flash", status="ok", reason="")]
    assert decide(asked("flash"), fast, ok).conditions == ()
    assert decide(asked("flash"), fast, ok, once).conditions == (
        "for these starts only (the servers were not restarted)",
    )
    unfit = [QualityNote(candidate="flash", status="not comparable", reason="one file")]
    assert decide(asked("flash"), fast, unfit).conditions == ("if its quality suffices (it cannot be compared here)",)


def test_resources_are_reasons_not_gates() -> None:
    memory = row(
        "flash",
        "short.e2e",
        "better",
        0.55,
        workload=None,
        load={},
        metric="peak_memory_bytes",
        statistic="peak",
        unit="B",
    )
    found = decide(asked("flash"), [*rows("flash", short="faster faster faster"), memory])
    assert found.ship == "flash"
    assert found.reasons[-1] == "flash besides: Private memory −45 % [−46, −44] (better)"


def first_output(candidate: str, cell: str, outcome: str, output: float, token: float = 0.7) -> list[Comparison]:
    """A TTFT of the cell that is faster, and a first visible output of so many times the base's."""
    gate = row(candidate, f"{cell}.ttft", "faster", token)
    seen = row(candidate, f"{cell}.ttft", outcome, output, metric="ttfo_s", gate=False)
    return [gate, seen]


def test_a_faster_first_token_with_a_later_first_output_is_a_condition() -> None:
    comparisons = [*first_output("flash", "short", "slower", 1.39), row("flash", "long.ttft", "faster", 0.7)]
    found = decide(asked("flash"), comparisons)
    assert found.ship == "flash"
    assert found.conditions == (
        "if a later first visible output does not matter (flash thinks first: TTFO +39 % [+36, +42], slower, in "
        f"{SHORT})",
        QUALITY,
    )
    assert not any("first visible" in reason for reason in found.reasons)  # said once


def test_a_first_output_with_another_outcome_is_a_reason() -> None:
    found = decide(asked("flash"), first_output("flash", "short", "inconclusive", 1.02))
    assert found.conditions == (QUALITY,)
    assert found.reasons[-1] == (
        f"flash thinks first; first visible output of flash: TTFO +2.0 % [±0.0, +4.0], inconclusive, in {SHORT}"
    )


def test_a_base_that_thinks_first_is_named_where_the_candidate_stays_behind() -> None:
    token = row("flash", "short.ttft", "slower", 1.3)
    output = row("flash", "short.ttft", "faster", 0.7, metric="ttfo_s", gate=False, base=Interval(point=2.0))
    found = decide(asked("flash"), [token, output, row("flash", "short.e2e", "slower", 1.2)])
    assert found.ship == "base"
    assert found.reasons[-1].startswith("base thinks first; first visible output of flash: TTFO −30 %")


def test_a_first_output_that_gates_decides_by_itself() -> None:
    token, output = first_output("flash", "short", "slower", 1.39)
    found = decide(asked("flash"), [token, msgspec.structs.replace(output, gate=True)])
    assert not any("first visible" in text for text in (*found.conditions, *found.reasons))


@pytest.mark.parametrize("output", [0.7, 0.715])
def test_a_first_output_at_the_first_token_says_nothing(output: float) -> None:
    found = decide(asked("flash"), first_output("flash", "short", "inconclusive", output))
    assert not any("first visible" in text for text in (*found.conditions, *found.reasons))


def test_order_of_rows_does_not_matter() -> None:
    comparisons = rows("flash", short="faster faster faster", long="slower equivalent slower")
    there, back = decide(asked("flash"), comparisons), decide(asked("flash"), comparisons[::-1])
    assert (there.ship, there.conditions) == (back.ship, back.conditions)


def spanning(outcome: str, low: float, high: float) -> Comparison:
    """A TTFT gate of flash with this interval of its ratio."""
    made = row("flash", "short.ttft", outcome, (low + high) / 2)
    return msgspec.structs.replace(made, ratio=Ratio(point=(low + high) / 2, low=low, high=high))


def test_proof_of_no_loss_is_enough_where_another_gate_is_faster() -> None:
    """Between equivalent and faster a gate may stay open: shipping needs only that nothing that matters is lost."""
    leaning = spanning("probably faster", 0.91, 0.99)
    found = decide(asked("flash"), [leaning, row("flash", "short.tpot", "faster", 0.86)])
    assert found.ship == "flash"


def test_a_gate_that_may_still_be_slower_beyond_the_margin_stays_open() -> None:
    unsure = spanning("inconclusive", 0.95, 1.05)
    found = decide(asked("flash"), [unsure, row("flash", "short.tpot", "faster", 0.86)])
    assert found.ship is None


def test_no_loss_without_any_gain_is_no_reason_to_ship() -> None:
    leaning = spanning("probably faster", 0.91, 0.99)
    assert decide(asked("flash"), [leaning]).ship is None


def test_a_hopeless_number_of_pairs_is_said_as_such() -> None:
    open_gate = row("flash", "short.ttft", "inconclusive", 1.02, pairs_needed=2231)
    assert "no realistic number of pairs" in decide(asked("flash"), [open_gate]).reasons[0]
