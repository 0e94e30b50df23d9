import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bakeoff.compare.audit.outputs import check_outputs, fault
from bakeoff.compare.pairs import Grid

from .simulate import WORDS, Arm, Simulation, experiment, objects
from .test_engine import result_of

OTHER = "people often wonder whether distant mountains hold secrets beneath silent snow"
PROSE = "The river runs past an old stone mill, where the children play while their father mends a broken wheel."


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("", "empty"),
        (" \n\t", "empty"),
        ("!!!!!!!!!!!!", "one token repeated"),
        ("the the the the the the the the the the", "one token repeated"),
        ("的" * 40, "one token repeated"),
        ("abcabc" * 40, "one token repeated"),
        ("\ufffd\ufffda\ufffdb\ufffd\x00\x01", "unprintable"),
        (PROSE, None),
        ("Yes.", None),
        ("def f(x):\n\treturn x + 1\n", None),
        ("河は古い石の水車小屋のそばを流れ、子どもたちが遊んでいる。父は壊れた車輪を直している。", None),
        ("- one\n- two\n- three\n- four\n- five\n- six\n- seven\n- eight", None),
    ],
)
def test_faults_of_one_output(text: str, kind: str | None) -> None:
    assert fault(text) == kind


@given(st.text(max_size=300))
def test_any_text_can_be_judged(text: str) -> None:
    assert fault(text) in (None, "empty", "unprintable", "one token repeated")


def gibberish(columns: object) -> object:
    rng = np.random.default_rng(0)
    letters = list("qxzjkvwpybqxzjkv~#%^ ")
    return objects(["".join(rng.choice(letters, size=200)) for _ in range(16)])


@pytest.mark.parametrize(
    ("arm", "kind"),
    [
        (Arm(text=""), "empty"),
        (Arm(text="so so so so so so so so so so so so"), "one token repeated"),
        (Arm(text="\ufffd" * 40 + "ab"), "unprintable"),
        (Arm(columns={"text": gibberish}), "gibberish"),
    ],
)
def test_a_broken_candidate_is_garbage(arm: Arm, kind: str) -> None:
    result = result_of(Simulation(experiment(), {"flash": arm}).run(3))
    assert result.quality[0].status == "garbage"
    assert f"100 % of the outputs of flash are degenerate ({kind}), 0 % of the base's" in result.quality[0].reason
    assert [c.variant for c in result.warnings if c.code == "garbage-output"] == ["flash"]


def test_garbage_outweighs_a_quality_note() -> None:
    result = result_of(Simulation(experiment(), {"flash": Arm(text="")}).run(3), quality_note="one file")
    assert result.quality[0].status == "garbage"


def test_other_prose_is_not_garbage() -> None:
    """Same language, other words: half of them never occur in the base's outputs."""
    rng = np.random.default_rng(1)
    words = [*WORDS[:10], *OTHER.split()]

    def other(columns: object) -> object:
        return objects([" ".join(rng.choice(words, size=32)) for _ in range(16)])

    result = result_of(Simulation(experiment(), {"flash": Arm(columns={"text": other})}).run(4))
    assert result.quality[0].status == "not measured"


def test_two_broken_arms_are_told_and_not_blamed_on_one() -> None:
    loop = Arm(text="so so so so so so so so so so so so")
    result = result_of(Simulation(experiment(), {"base": loop, "flash": loop}).run(3))
    assert result.quality[0].status == "not measured"
    note = next(c for c in result.warnings if c.code == "degenerate-outputs")
    assert note.severity == "note"
    assert "quality cannot be judged" in note.message


def test_a_few_outputs_are_no_proof() -> None:
    def some(columns: object) -> object:
        return objects(["" if i < 4 else PROSE for i in range(16)])

    asked = experiment()
    simulation = Simulation(asked, {"flash": Arm(columns={"text": some})}).run(4)
    check = check_outputs(asked, Grid(asked, simulation.blocks), "flash")
    assert check.degenerate == 16
    assert check.compared == 64
    assert check.garbage is None  # a quarter, below the 30 points


def test_failed_requests_are_no_outputs() -> None:
    asked = experiment()
    simulation = Simulation(asked, {"flash": Arm(fail=1.0, text="")}).run(2)
    assert check_outputs(asked, Grid(asked, simulation.blocks), "flash").compared == 0


def test_reasoning_counts_as_output() -> None:
    thinks = Arm(text="", columns={"reasoning": lambda columns: objects([PROSE] * 16)})
    assert result_of(Simulation(experiment(), {"flash": thinks}).run(3)).quality[0].status == "not measured"
