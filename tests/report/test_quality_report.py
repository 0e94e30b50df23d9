"""Quality in the reports: everything escaped and bounded, differences marked."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bakeoff.compare.view import View, build_view
from bakeoff.compare.view_quality import marked
from bakeoff.compare.view_redact import redacted_result
from bakeoff.model import Flip, Interval, QualityScore, Result
from bakeoff.report import render_html, render_json, render_markdown, render_terminal

from . import sample

HOSTILE = "<script>alert(1)</script>\x1b[31m\u202e"


def score(candidate: str = "flash", **more: object) -> QualityScore:
    fields: dict[str, object] = {
        "candidate": candidate,
        "task": "sums",
        "measure": "accuracy",
        "unit": "points",
        "better": "higher",
        "base": Interval(point=0.8, low=0.77, high=0.83),
        "value": Interval(point=0.75, low=0.71, high=0.78),
        "difference": Interval(point=-5.0, low=-7.1, high=-2.9),
        "outcome": "worse",
        "margin": 1.0,
        "items": 1234,
        "needed": 8652,
        "minimum_detectable": 2.1,
        "flips": (80, 20),
        "flip_floor": Interval(point=0.03, low=0.01, high=0.05),
        "flip_counts": (3, 100),
        "counts": {"base.asked": 1300, "candidate.asked": 1300, "candidate.cut": 66},
        "reason": "66 of 1300 items have no readable answer",
        **more,
    }
    return QualityScore(**fields)  # type: ignore[arg-type]


def flip(**more: object) -> Flip:
    fields: dict[str, object] = {
        "candidate": "flash",
        "task": "sums",
        "item": "q1",
        "prompt": "What is 17 + 25?",
        "expected": "42",
        "base_text": "It is 42.",
        "candidate_text": "It is 43.",
        "base_score": 1.0,
        "candidate_score": 0.0,
        **more,
    }
    return Flip(**fields)  # type: ignore[arg-type]


def result(*scores: QualityScore, flips: tuple[Flip, ...] = ()) -> Result:
    return msgspec.structs.replace(sample.result(), scores=scores, flips=flips)


def view(*scores: QualityScore, flips: tuple[Flip, ...] = (), redact: bool = False) -> View:
    return build_view(result(*scores, flips=flips), sample.experiment(), redact=redact)


def test_the_terminal_tells_scores_flips_and_what_was_cut() -> None:
    text = render_terminal(view(score()), color=False, width=120)
    for part in ("Quality", "Accuracy · sums", "80.0 %", "75.0 %", "−5.0 points", "[−7.1, −2.9]", "✗ worse",
                 "1,234 items", "80 right → wrong, 20 wrong → right",
                 "the base flips 3 of 100 items against itself (5 % at most)",
                 "candidate: 66 cut", "no readable answer"):  # fmt: skip
        assert part in text, part


def test_few_items_asked_twice_are_told_as_what_they_are() -> None:
    floor = Interval(point=0.0, low=0.0, high=0.561)
    told = " ".join(render_terminal(view(score(flip_floor=floor, flip_counts=(0, 3))), color=False, width=200).split())
    assert "the base flips 0 of 3 items against itself (56 % at most)" in told
    unknown = " ".join(render_terminal(view(score(flip_floor=floor, flip_counts=None)), color=False, width=200).split())
    assert "the base flips 0.0 % of items against itself (56 % at most)" in unknown


def test_what_a_margin_needs_has_its_unit() -> None:
    open_row = score(outcome="inconclusive", needed=3863)
    told = " ".join(render_terminal(view(open_row), color=False).split())
    assert "a margin of 1 point needs about 3,863 items that flip like these" in told


def test_what_only_describes_is_for_the_full_report() -> None:
    agreement = score(measure="agreement", task=None, outcome="inconclusive", reason=None)
    assert "Agreement" not in render_terminal(view(score(), agreement), color=False, width=120)
    assert "Agreement" in render_terminal(view(score(), agreement), color=False, width=120, full=True)


def test_a_narrow_terminal_loses_no_fact() -> None:
    text = render_terminal(view(score()), color=False, width=60)
    assert all(len(line) <= 60 for line in text.splitlines() if "Accuracy" in line)
    assert "−5.0 points" in text
    assert "✗ worse" in " ".join(text.split())


def test_markdown_has_the_table() -> None:
    text = render_markdown(view(score()))
    assert "#### Quality" in text
    assert "| **✗ worse** |" in text
    assert "80 right → wrong" in text


def test_the_page_shows_flips_side_by_side_with_differences_marked() -> None:
    page = render_html(view(score(), flips=(flip(),)))
    assert 'id="quality"' in page
    assert "It is 4<del>2</del>." in page
    assert "It is 4<ins>3</ins>." in page
    assert "sums · q1 · flash: right → wrong" in page


def test_hostile_answers_are_shown_and_not_run() -> None:
    bad = flip(
        prompt=HOSTILE, base_text=HOSTILE, candidate_text=HOSTILE + "x", expected=HOSTILE, item=HOSTILE, task=HOSTILE
    )
    scores = score(task=HOSTILE, reason=HOSTILE, measure=HOSTILE)
    shown = view(scores, flips=(bad,))
    page = render_html(shown)
    assert "<script>" not in page
    assert "\u202e" not in page
    for text in (render_terminal(shown, color=False, width=100), render_markdown(shown)):
        assert "\x1b" not in text
    assert "<script>" not in render_markdown(shown)


def test_long_answers_are_bounded() -> None:
    page = render_html(view(score(), flips=tuple(flip(base_text="a" * 99_999, candidate_text="b") for _ in range(99))))
    assert page.count('class="flip"') == 30
    assert "a" * 1300 not in page


def test_redacted_reports_have_no_answers() -> None:
    assert view(score(), flips=(flip(),), redact=True).flips == ()
    assert "17 + 25" not in render_html(view(score(), flips=(flip(),), redact=True))
    redacted = redacted_result(result(score(), flips=(flip(),)), sample.experiment())
    assert redacted.flips == ()
    assert redacted.scores[0].outcome == "worse"


def test_json_holds_scores_and_flips() -> None:
    made = result(score(), flips=(flip(),))
    read = msgspec.json.decode(render_json(made), type=Result)
    assert read.scores == made.scores
    assert read.flips == made.flips


def test_nothing_is_shown_where_nothing_was_measured() -> None:
    assert 'id="quality"' not in render_html(view())
    assert "Accuracy" not in render_terminal(view(), color=False, width=100)


@pytest.mark.parametrize("measure", ["kl_mean", "same_top", "perplexity_ratio", "something_new"])
def test_other_measures_have_their_own_unit(measure: str) -> None:
    row = score(measure=measure, task=None, unit="nat", difference=Interval(point=0.0047, low=0.004, high=0.0055),
                base=Interval(point=0.0), value=Interval(point=0.0047), flips=None, outcome="inconclusive")  # fmt: skip
    text = render_terminal(view(row), color=False, width=140, full=True)
    assert "0.0047 nat" in text
    assert "[0.004, 0.0055]" in text


@given(st.text(alphabet="ab \n", max_size=40), st.text(alphabet="ab \n", max_size=40))
def test_marks_lose_no_character(one: str, two: str) -> None:
    left, right = marked(one, two)
    assert "".join(piece.text for piece in left) == one
    assert "".join(piece.text for piece in right) == two
    same = ["".join(p.text for p in side if not p.changed) for side in (left, right)]
    assert same[0] == same[1]
    if one == two:
        assert not any(piece.changed for piece in (*left, *right))


def test_small_numbers_are_written_as_people_write_them() -> None:
    row = score(measure="kl_mean", task=None, unit="nat", difference=Interval(point=1.988e-07, low=-9.0e-08, high=0.03),
                base=Interval(point=0.0), value=Interval(point=1.988e-07), flips=None, outcome="different")  # fmt: skip
    text = render_terminal(view(row), color=False, width=140, full=True)
    assert "2.0·10⁻⁷ nat" in text
    assert "[−9.0·10⁻⁸, 0.03]" in text


def test_the_page_says_once_what_holds_for_many_rows() -> None:
    rows = [
        score(candidate, measure=measure, task=None, unit="nat", flips=None, counts={"positions": 944}, reason=None)
        for candidate in ("flash", "fixed")
        for measure in ("kl_median", "kl_p99")
    ]
    page = render_html(view(*rows))
    assert page.count("944 positions") == 1
    assert "<summary>4 more rows, describing</summary>" in page
