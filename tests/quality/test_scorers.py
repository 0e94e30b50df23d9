import pytest
from hypothesis import given
from hypothesis import strategies as st

from bakeoff.quality.items import Grade, Reply
from bakeoff.quality.scorers import answer_text, choice, exact, normal, normalised, number, numeric, regex


def test_exact_compares_the_whole_answer_but_for_blanks_around_it() -> None:
    grade = exact(["42", "forty-two"])
    assert grade(Reply(" 42\n")).score == 1.0
    assert grade(Reply("forty-two")).score == 1.0
    assert grade(Reply("42.")).score == 0.0
    assert grade(Reply("")).score == 0.0


def test_normalised_forgets_case_punctuation_and_forms() -> None:
    grade = normalised(["The  Hague!"])
    for text in ("the hague", "THE HAGUE.", "Ｔｈｅ Hague", "the\nhague"):
        assert grade(Reply(text)) == Grade(1.0, given="the hague")
    assert grade(Reply("hague")).score == 0.0


def test_a_cut_answer_counts_as_cut_only_while_it_could_still_become_right() -> None:
    grade = exact(["paris"])
    assert grade(Reply("par", cut=True)).status == "cut"
    assert grade(Reply("", cut=True)).status == "cut"
    assert grade(Reply("pax", cut=True)) == Grade(0.0, given="pax")
    assert grade(Reply("paris", cut=True)).score == 1.0  # a single token may be all that is asked for
    assert normalised(["New York"])(Reply("new Y", cut=True)).status == "cut"
    assert numeric(["12"])(Reply("it is 1", cut=True)).status == "cut"
    assert regex(r"answer is (\w+)", ["yes"])(Reply("the answer is ye", cut=True)).status == "cut"
    assert regex(r"answer is (\w+)", ["yes"])(Reply("the answer is yes, becau", cut=True)).score == 1.0
    assert regex(r"answer is (\w+)", ["yes"])(Reply("well", cut=True)).status == "cut"


def test_thoughts_are_no_answer() -> None:
    assert answer_text("<think>it may be 3</think>\n4") == "4"
    assert answer_text("  <think>it may be 3") == ""
    assert exact(["4"])(Reply("<think>3? no, 4</think>4")).score == 1.0
    assert exact(["4"])(Reply("<think>3? no", cut=True)).status == "cut"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("12", 12.0),
        ("so 3 + 4 = 7.", 7.0),
        ("1,234.5 apples", 1234.5),
        ("−3", -3.0),
        ("5-3", 3.0),
        (".5", 0.5),
        ("1e-3", 0.001),
        ("v2.0", None),
        ("none", None),
        ("9" * 400, None),
        ("$1,000", 1000.0),
    ],
)
def test_the_last_number_of_a_text(text: str, value: float | None) -> None:
    assert number(text) == value


@given(st.floats(allow_nan=False, allow_infinity=False, width=32))
def test_every_number_is_read_back(value: float) -> None:
    assert number(f"the answer is {value!r}") == pytest.approx(value)


@given(st.text(max_size=300), st.booleans())
def test_no_text_upsets_a_scorer(text: str, cut: bool) -> None:
    for grader in (exact(["a"]), normalised(["a"]), numeric(["1"]), regex("(x)?y", ["a"]), choice("a")):
        found = grader(Reply(text, cut))
        assert (found.score is None) == (found.status != "scored")


@given(st.text(max_size=60))
def test_normal_is_idempotent(text: str) -> None:
    assert normal(normal(text)) == normal(text)


def test_numbers_compare_by_value() -> None:
    grade = numeric(["0.5"])
    assert grade(Reply("it is .50")).score == 1.0
    assert grade(Reply("it is 0.51")).score == 0.0
    assert grade(Reply("a half")) == Grade(0.0, reason="holds no number")
    with pytest.raises(ValueError, match="no number"):
        numeric(["a half"])


def test_the_first_match_is_the_answer() -> None:
    grade = regex(r"answer: (\w+)", ["B"])
    assert grade(Reply("answer: b or answer: c")) == Grade(1.0, given="b")
    assert grade(Reply("B")) == Grade(0.0, reason="the pattern finds nothing in it")
    assert regex(r"\d+", ["7"])(Reply("7 of 9")).score == 1.0
    assert regex(r"(a)|b", ["b"])(Reply("b")).score == 0.0  # its group took no part
