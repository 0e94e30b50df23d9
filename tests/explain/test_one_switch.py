from collections.abc import Mapping

import pytest

from bakeoff.explain import one_switch_findings
from bakeoff.model import Experiment, Finding, Variant
from tests.compare.simulate import Arm, Simulation, experiment
from tests.compare.test_engine import result_of

BASE = Variant(name="base", engine="llamacpp", settings={"model": "q8.gguf", "kv_type": "f16", "threads": 2})
FLASH = Variant(name="flash", engine="llamacpp", settings={"model": "q4.gguf", "kv_type": "q8_0", "threads": 2})
FIXED = Variant(name="fixed", engine="llamacpp", settings={"model": "q4.gguf", "kv_type": "f16", "threads": 2})


def findings(
    variants: tuple[Variant, ...], arms: Mapping[str, Arm], rounds: int = 10, asked: Experiment | None = None
) -> tuple[Finding, ...]:
    simulation = Simulation(asked or experiment(variants=variants), arms).run(rounds)
    result = result_of(simulation)
    return one_switch_findings(simulation.experiment, simulation.blocks, result.comparisons)


def test_a_flipped_switch_is_confirmed_with_its_share() -> None:
    arms = {"base": Arm(ttft_s=0.05), "flash": Arm(ttft_s=0.1, tpot_s=0.014), "fixed": Arm(ttft_s=0.06, tpot_s=0.013)}
    found, other = findings((BASE, FLASH, FIXED), arms)
    # `fixed` is still slower than the base, for the one setting in which they differ
    assert (other.candidate, other.title) == ("fixed", "setting model: q4.gguf → q8.gguf")
    assert (found.candidate, found.metric, found.workload, found.load) == (
        "flash",
        "ttft_s",
        "chat",
        {"concurrency": 1},
    )
    assert found.status == "confirmed"
    assert found.title == "setting kv_type: q8_0 → f16"
    assert found.share is not None
    assert found.share.point == pytest.approx(0.737, abs=0.03)  # ln(0.1/0.06) ÷ ln(0.1/0.05)
    assert found.share.low is not None
    assert found.share.high is not None
    assert found.share.low < 0.737 < found.share.high
    assert "over 10 pairs, one switch flipped, re-measured in the same rounds" in found.evidence[0]
    assert found.evidence[0].startswith("TTFT −40 % [")
    assert "stay unexplained" in found.evidence[1]
    assert found.fix is not None
    assert found.fix.startswith("use kv_type: f16 (variant `fixed`): TTFT +")
    assert "TPOT −3" in found.fix


def test_more_than_the_whole_gap() -> None:
    arms = {"base": Arm(ttft_s=0.05), "flash": Arm(ttft_s=0.08), "fixed": Arm(ttft_s=0.04)}
    (found,) = findings((BASE, FLASH, FIXED), arms)
    assert found.share is not None
    assert found.share.point == pytest.approx(1.47, abs=0.05)
    assert "more than the whole of it, because the other changes of flash make it faster" in found.evidence[1]


def test_a_switch_that_changes_nothing_is_refuted() -> None:
    arms = {"flash": Arm(ttft_s=0.08), "fixed": Arm(ttft_s=0.08)}
    found = {f.candidate: f for f in findings((BASE, FLASH, FIXED), arms)}
    assert found["flash"].status == "refuted"
    assert found["flash"].fix is None
    # `fixed` itself is slower, and differs from the base in its model alone
    assert found["fixed"].title == "setting model: q4.gguf → q8.gguf"
    assert found["fixed"].status == "confirmed"
    assert found["fixed"].share is not None
    assert found["fixed"].share.point == 1.0
    assert "only setting in which fixed and base differ" in found["fixed"].evidence[1]


def test_settings_that_differ_together_are_not_attributed() -> None:
    (found,) = findings((BASE, FLASH), {"flash": Arm(ttft_s=0.08)})
    assert found.status == "cannot attribute"
    assert found.share is None
    assert "2 settings differ together: model (q8.gguf in base, q4.gguf in flash); kv_type" in found.evidence[0]
    assert found.fix is not None


def test_two_servers_at_two_addresses_are_not_attributed() -> None:
    base = Variant(name="base", engine="openai", settings={"url": "http://a/v1"})
    flash = Variant(name="flash", engine="openai", settings={"url": "http://b/v1"})
    (found,) = findings((base, flash), {"flash": Arm(ttft_s=0.08)})
    assert found.status == "cannot attribute"
    assert "two whole servers" in found.evidence[0]
    assert found.fix is None


def test_nothing_slower_nothing_to_explain() -> None:
    assert findings((BASE, FLASH, FIXED), {"flash": Arm(ttft_s=0.03)}) == ()


def test_of_several_values_of_one_setting_the_most_telling_counts() -> None:
    half = Variant(name="half", engine="llamacpp", settings={**FLASH.settings, "kv_type": "q5_1"})
    arms = {"flash": Arm(ttft_s=0.1), "fixed": Arm(ttft_s=0.05), "half": Arm(ttft_s=0.08)}
    found = [f for f in findings((BASE, FLASH, FIXED, half), arms, rounds=14) if f.candidate == "flash"]
    assert [f.title for f in found] == ["setting kv_type: q8_0 → f16"]


def test_an_undecided_flip_is_only_suspected() -> None:
    asked = experiment(variants=(BASE, FLASH, FIXED))
    simulation = Simulation(asked, {"flash": Arm(ttft_s=0.1), "fixed": Arm(ttft_s=0.05)}).run(9)
    rows = result_of(simulation).comparisons
    early = [b for b in simulation.blocks if b.block.round < 3 or b.block.variant != "fixed"]
    (found,) = one_switch_findings(asked, early, rows)
    assert found.status == "suspected"
    assert found.fix is None
    assert "not decided yet" in found.evidence[0]
