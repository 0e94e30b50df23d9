import msgspec

from bakeoff.model import Capabilities, Endpoint, QualityTask, RequestRecord
from bakeoff.quality.asking import Place, answers_of, prepare_questions
from bakeoff.quality.consistency import Repeats, on_common_items, pass_k, repeats_by_item
from bakeoff.quality.items import Item, Question
from bakeoff.quality.scorers import exact


def endpoint(**more: object) -> Endpoint:
    return Endpoint(base_url="http://127.0.0.1:1/v1", model="m", **more)  # type: ignore[arg-type]


def question(**task: object) -> Question:
    fields: dict[str, object] = {"name": "sums", "source": "jsonl", "max_tokens": 7, **task}
    item = Item(id="q", prompt="1+1=", grade=exact(["2"]), expected="2", stop=("\n",), group="g", chance=0.1)
    return Question(task=msgspec.convert(fields, QualityTask), item=item)


def body(one: Question, where: Endpoint) -> dict[str, object]:
    (prepared,) = prepare_questions(where, [one])
    found = msgspec.json.decode(prepared.body)
    assert isinstance(found, dict)
    return found


def test_the_same_bytes_go_to_both_arms_apart_from_their_own_fields() -> None:
    plain = body(question(), endpoint())
    assert plain["prompt"] == "1+1="
    assert plain["max_tokens"] == 7
    assert plain["temperature"] == 0
    assert plain["stop"] == ["\n"]
    assert "seed" not in plain
    assert body(question(), endpoint()) == plain
    off = endpoint(capabilities=Capabilities(cache_off={"cache_prompt": False}), body={"user": "me"})
    assert body(question(), off) == {**plain, "cache_prompt": False, "user": "me"}


def test_a_chat_template_takes_messages() -> None:
    (prepared,) = prepare_questions(endpoint(), [question(template="chat")])
    assert prepared.path == "/chat/completions"
    assert msgspec.json.decode(prepared.body)["messages"] == [{"role": "user", "content": "1+1="}]


def test_repeats_draw_anew_and_alike_in_every_arm() -> None:
    first = question(temperature=0.7)
    second = Question(task=first.task, item=first.item, repeat=1)
    one, two = body(first, endpoint()), body(second, endpoint())
    assert one["seed"] != two["seed"]
    assert body(first, endpoint()) == one
    steady = Question(task=first.task, item=first.item, purpose="consistency")
    assert body(steady, endpoint())["temperature"] == 0


def record(index: int, text: str, **more: object) -> RequestRecord:
    fields: dict[str, object] = {"index": index, "prompt_id": index, "scheduled_ns": 5, "text": text, **more}
    return msgspec.convert(fields, RequestRecord)


def test_answers_are_graded_and_failures_are_not() -> None:
    place = Place("flash", 3, 9)
    asked = [question()] * 4
    records = [
        record(0, "2", finish_reason="stop", output_tokens=1, first_token_ns=6, last_token_ns=7),
        record(1, "3", finish_reason="stop"),
        record(2, "", finish_reason="length"),
        record(3, "2", error="timeout", error_message="after 600 s"),
    ]
    found = answers_of(asked, records, place)
    assert [(a.score, a.status) for a in found] == [(1.0, "scored"), (0.0, "scored"), (None, "cut"), (None, "failed")]
    first = found[0]
    assert (first.variant, first.round, first.start_id, first.group, first.chance) == ("flash", 3, 9, "g", 0.1)
    assert (first.scheduled_ns, first.first_token_ns, first.last_token_ns, first.output_tokens) == (5, 6, 7, 1)
    assert found[3].reason == "timeout: after 600 s"
    assert answers_of(asked, records[:1], Place("base", 0, 1, again=True))[0].purpose == "again"


def test_an_empty_answer_is_wrong_unless_it_was_cut() -> None:
    records = [
        record(0, "", error="empty", finish_reason="stop"),
        record(1, "", error="empty", finish_reason="length"),
    ]
    done, cut = answers_of([question()] * 2, records, Place("base", 0, 0))
    assert (done.score, done.status, done.reason) == (0.0, "scored", "the answer is empty")
    assert cut.status == "cut"


def test_an_endless_answer_is_kept_in_part() -> None:
    (found,) = answers_of([question()], [record(0, "x" * 300_000)], Place("base", 0, 0))
    assert len(found.text) == 100_000


def test_agreement_identity_and_pass_k() -> None:
    steady = Question(task=question().task, item=question().item, purpose="consistency")
    texts = ["2", "2 ", "3"]
    answers = answers_of([steady] * 3, [record(i, t) for i, t in enumerate(texts)], Place("base", 0, 0))
    found = repeats_by_item(answers)
    assert found == {("sums", "q"): Repeats(agree=False, identical=False, right=2, graded=3, repeats=3)}
    same = answers_of([steady] * 2, [record(0, "2"), record(1, "2 ")], Place("base", 0, 0))
    assert repeats_by_item(same)["sums", "q"] == Repeats(True, False, 2, 2, 2)
    assert repeats_by_item(same[:1]) == {}
    assert repeats_by_item(answers_of([question()] * 2, [record(0, "2"), record(1, "2")], Place("b", 0, 0))) == {}


def test_pass_k_is_the_chance_that_all_are_right() -> None:
    item = Repeats(agree=False, identical=False, right=3, graded=4, repeats=4)
    assert pass_k(item, 1) == 0.75
    assert pass_k(item, 2) == 0.5
    assert pass_k(item, 4) == 0.0
    assert pass_k(item, 5) is None
    other = {("t", "a"): item, ("t", "c"): item}
    assert on_common_items({("t", "a"): item, ("t", "b"): item}, other, lambda r: pass_k(r, 1)) == [(0.75, 0.75)]
