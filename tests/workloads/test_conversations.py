"""Conversations: synthetic, recorded, and with the server's own answers; and what their caches may hold."""

from __future__ import annotations

import asyncio
import itertools
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bakeoff.model import BlockSize, CachePolicy, Load, Prompts, Workload
from bakeoff.workloads import JsonlPrompts, Prompt, PromptFactory, WorkloadError
from bakeoff.workloads.shorten import Cut, shorten

from .tokenizers import ALL, Toy, pieces


def _factory(cache: CachePolicy = "declared", **kw: Any) -> PromptFactory:
    prompts = {"input_tokens": 60, "turns": 3, "think_s": 2.0} | kw.pop("prompts", {})
    workload = Workload(
        name="talk",
        prompts=Prompts(**{name: value for name, value in prompts.items() if value is not None}),
        output_tokens=kw.pop("output_tokens", 20),
        load=Load(kind="closed", levels=(1.0,)),
        block=BlockSize(requests=9),
        api=kw.pop("api", "completions"),
        cache=cache,
    )
    return PromptFactory(workload, seed=1, run_id="r", **({"tokenizer": Toy(pieces)} | kw))


def _block(factory: PromptFactory, count: int = 9, variant: str = "base", **kw: Any) -> list[Prompt]:
    return asyncio.run(factory.block(round=kw.pop("round_", 0), variant=variant, visit="c1", count=count, **kw))


def _lines(folder: Path, *lines: object) -> Path:
    path = folder / "talk.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    return path


# Synthetic ────────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", ALL)
def test_every_turn_adds_its_tokens_exactly_and_keeps_its_history(name: str) -> None:
    factory = _factory(tokenizer=Toy(ALL[name]), prompts={"input_tokens": 80})
    block = _block(factory)
    assert [(p.conversation, p.turn) for p in block] == [(c, t) for c in range(3) for t in range(3)]
    assert [p.think_s for p in block] == [0.0, 2.0, 2.0] * 3
    assert [ALL[name](p.text) for p in block] == [80, 180, 280] * 3
    assert [p.asked_tokens for p in block] == [80, 180, 280] * 3
    for earlier, later in itertools.pairwise(block):
        if later.turn:
            assert later.text.startswith(earlier.text + "\n\n")
    assert len({p.text[40:] for p in block}) == 9
    assert factory.notes == ()


def test_as_messages_the_roles_alternate_and_the_text_is_the_same() -> None:
    texts = _block(_factory(api="completions"))
    chats = _block(_factory(api="chat"))
    for text, chat in zip(texts, chats, strict=True):
        assert chat.messages is not None
        assert [m["role"] for m in chat.messages] == ["user", "assistant"] * chat.turn + ["user"]
        assert "\n\n".join(m["content"] for m in chat.messages) == text.text == chat.text


def test_a_block_counts_requests_and_may_cut_the_last_conversation() -> None:
    factory = _factory()
    assert [(p.conversation, p.turn) for p in _block(factory, 4)] == [(0, 0), (0, 1), (0, 2), (1, 0)]
    assert _block(factory, 4) == _block(factory, 9)[:4]
    assert [p.conversation for p in _block(factory, 9, starts=2)] == [0, 0, 0, 1, 1, 1]
    assert [p.prompt_id for p in _block(factory, 3, round_=2)] == [200_000, 200_001, 200_002]


def test_estimated_conversations_have_the_length_by_pieces() -> None:
    block = _block(_factory(tokenizer=None))
    assert [pieces(p.text) for p in block] == pytest.approx([60, 140, 220] * 3, abs=4)
    assert {p.tokens_source for p in block} == {"estimated"}


def test_the_servers_own_answers_replace_the_recorded_ones() -> None:
    for api in ("completions", "chat"):
        block = _block(_factory(api=api, prompts={"history": "answered"}))
        first, _, third = block[:3]
        assert first.rebuild is None
        assert third.rebuild is not None
        assert (first.asked_tokens, third.asked_tokens) == (60, None)
        text, messages = third.rebuild(["the first answer", "the second"])
        assert text.startswith(first.text + "\n\nthe first answer\n\n")
        assert "\n\nthe second\n\n" in text
        assert third.text.split("\n\n")[::2] == text.split("\n\n")[::2]  # what the user says is the same
        if api == "chat":
            assert messages is not None
            assert [m["content"] for m in messages][1::2] == ["the first answer", "the second"]
            assert messages[0]["content"] == first.text
        else:
            assert messages is None


def test_openings_are_first_turns_alone() -> None:
    block = _block(_factory(openings=True), 3)
    assert [(p.turn, pieces(p.text)) for p in block] == [(0, 60)] * 3


# The shared prefix ────────────────────────────────────────────────────────────────────────────────────────────────────


@settings(max_examples=20, deadline=None, derandomize=True)
@given(share=st.floats(0.05, 0.9), tokens=st.integers(60, 400))
def test_all_prompts_share_exactly_the_share_that_was_asked_for(share: float, tokens: int) -> None:
    prompts = {"input_tokens": tokens, "shared_prefix": share, "turns": 1}
    factory = _factory(prompts=prompts)
    block = [p.text for round_ in range(2) for p in _block(factory, 4, round_=round_)]
    assert {pieces(text) for text in block} == {tokens}
    size = min(round(share * tokens), tokens - 8)
    bodies = [text[30:] for text in block]  # behind the nonce of 30 letters
    common = bodies[0]
    for body in bodies:
        while not body.startswith(common):
            common = common[:-1]
    assert size <= pieces(common) <= size + 2  # the next word may begin alike by chance
    assert len(set(bodies)) == len(bodies)


def test_a_share_that_leaves_no_room_is_made_smaller_and_noted() -> None:
    factory = _factory(prompts={"input_tokens": 40, "shared_prefix": 0.99, "turns": 1})
    assert {pieces(p.text) for p in _block(factory)} == {40}
    assert factory.notes == ("the shared prefix is 32 tokens long: the prompts have no room for more",)


# Nonces by policy ─────────────────────────────────────────────────────────────────────────────────────────────────────


def _heads(block: list[Prompt]) -> list[str]:
    return [p.text[:30] for p in block]


def test_unique_gives_every_request_a_nonce_of_its_own_even_within_a_conversation() -> None:
    factory = _factory("unique")
    assert len(set(_heads(_block(factory)))) == 9
    assert factory.notes == ("cache: unique keeps the server from reusing what these prompts share; cache: declared "
                             "allows it",)  # fmt: skip


def test_declared_gives_a_block_one_nonce_and_another_block_another_one() -> None:
    factory = _factory("declared")
    blocks = [_block(factory), _block(factory, variant="flash"), _block(factory, round_=1)]
    again = asyncio.run(factory.block(round=1, variant="base", visit="aa/c1", count=9))
    heads = [set(_heads(block)) for block in (*blocks, again)]
    assert [len(found) for found in heads] == [1] * 4
    assert len(set.union(*heads)) == 4


def test_shared_prompts_carry_none() -> None:
    factory = _factory("shared")
    assert _block(factory) == _block(factory, variant="flash")
    assert [pieces(p.text) for p in _block(factory)] == [60, 140, 220] * 3


def test_a_declared_nonce_of_another_cost_is_drawn_again_for_the_whole_block() -> None:
    def rare_words_cost_two(text: str) -> int:
        return pieces(text) + sum(word.startswith(("b", "c", "d", "f")) for word in text[:29].split())

    factory = _factory("declared", tokenizer=Toy(rare_words_cost_two))
    for variant in ("base", "flash", "third"):
        block = _block(factory, variant=variant)
        assert [rare_words_cost_two(p.text) for p in block] == [60, 140, 220] * 3
        assert len(set(_heads(block))) == 1
    assert factory.notes == ()


def test_another_tokenizer_for_the_candidate_keeps_the_text_and_says_so() -> None:
    factory = _factory("declared")
    base = _block(factory)
    factory.tokenizer = Toy(lambda text: 2 * pieces(text))
    flash = _block(factory, variant="flash")
    assert [p.text[30:] for p in base] == [p.text[30:] for p in flash]
    assert [p.input_tokens for p in flash] == [2 * pieces(p.text) for p in flash]
    assert any("tokenizer differs" in note for note in factory.notes)


# Recorded ─────────────────────────────────────────────────────────────────────────────────────────────────────────────

_TALK: dict[str, Any] = {
    "messages": [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "One?"},
        {"role": "assistant", "content": "Yes."},
        {"role": "user", "content": "Two?", "think_s": 5},
        {"role": "assistant", "content": "No."},
        {"role": "user", "content": "Three?"},
    ],
    "output_tokens": 7,
}


def _recorded(path: Path, **kw: Any) -> PromptFactory:
    more = {"source": "jsonl", "path": str(path), "input_tokens": None} | kw.pop("prompts", {})
    return _factory(**({"cache": "shared", "api": "chat"} | kw), prompts=more)


def test_several_user_turns_are_played_as_a_conversation(tmp_path: Path) -> None:
    block = _block(_recorded(_lines(tmp_path, _TALK)), 3)
    assert [(p.turn, p.think_s, p.output_tokens) for p in block] == [(0, 0.0, 7), (1, 5.0, 7), (2, 2.0, 7)]
    plain = [{k: v for k, v in m.items() if k != "think_s"} for m in _TALK["messages"]]
    assert [p.messages for p in block] == [plain[:2], plain[:4], plain]
    assert [p.asked_tokens for p in block] == [pieces(p.text) for p in block]
    text = _block(_recorded(_lines(tmp_path, _TALK), api="completions"), 3)[2]
    assert (text.messages, text.text) == (None, "Be brief.\n\nOne?\n\nYes.\n\nTwo?\n\nNo.\n\nThree?")


def test_one_turn_sends_all_messages_as_one_prompt(tmp_path: Path) -> None:
    (prompt,) = _block(_recorded(_lines(tmp_path, _TALK), prompts={"turns": 1}), 1)
    assert len(prompt.messages or []) == 6
    assert "think_s" not in json.dumps(prompt.messages)
    assert prompt.conversation is None


def test_at_most_the_turns_that_were_asked_for(tmp_path: Path) -> None:
    block = _block(_recorded(_lines(tmp_path, _TALK, {"prompt": "single"}), prompts={"turns": 2}), 6)
    sizes = [[p.turn for p in block if p.conversation == c] for c in range(4)]
    assert sorted(sizes[:2]) == [[0], [0, 1]]


def test_the_nonce_stands_before_the_first_message_of_every_turn(tmp_path: Path) -> None:
    block = _block(_recorded(_lines(tmp_path, _TALK), cache="declared"), 3)
    firsts = [p.messages[0]["content"] for p in block if p.messages]
    assert len(set(firsts)) == 1
    assert firsts[0].endswith("\nBe brief.")
    assert len(firsts[0]) == 30 + len("\nBe brief.")


def test_lines_of_openais_batch_format_are_read_for_their_body_alone(tmp_path: Path) -> None:
    body = {"model": "theirs", "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 9, "tools": []}
    lines = [
        {"custom_id": "1", "method": "POST", "url": "/v1/chat/completions", "body": body},
        {"body": {"prompt": "Once", "max_completion_tokens": 4}},
        {"body": {"prompt": "Plain"}},
    ]
    prompts = JsonlPrompts(_lines(tmp_path, *lines), "chat")
    turns = [prompts.entry(n).turns[0] for n in range(3)]
    assert [(turn.text, turn.output_tokens) for turn in turns] == [("Hi", 9), ("Once", 4), ("Plain", None)]
    assert turns[0].messages == [{"role": "user", "content": "Hi"}]
    with pytest.raises(WorkloadError, match='"max_tokens" must be'):
        JsonlPrompts(_lines(tmp_path, {"body": {"prompt": "x", "max_tokens": 0}}), "chat")


@pytest.mark.parametrize("think", [-1, "2s", True, 1e9])
def test_a_pause_must_be_a_number_of_seconds(tmp_path: Path, think: object) -> None:
    with pytest.raises(WorkloadError, match="think_s"):
        JsonlPrompts(_lines(tmp_path, {"messages": [{"role": "user", "content": "x", "think_s": think}]}), "chat")


def test_messages_without_a_user_are_no_conversation(tmp_path: Path) -> None:
    path = _lines(tmp_path, {"messages": [{"role": "system", "content": "x"}]})
    assert len(JsonlPrompts(path, "chat")) == 1
    with pytest.raises(WorkloadError, match="no turn of a user"):
        JsonlPrompts(path, "chat", conversations=True)


# Limits ───────────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", ALL)
def test_texts_are_cut_close_below_their_limit(name: str) -> None:
    texts = ["word " * size for size in (300, 1000, 5000)]
    cuts = [Cut("Head: ", text, 500, ALL[name]("Head: " + text)) for text in texts]
    cuts = [cut for cut in cuts if cut.tokens > 500]
    asyncio.run(shorten(cuts, Toy(ALL[name])))
    for cut in cuts:
        assert 480 <= ALL[name]("Head: " + cut.text[: cut.keep]) <= 500


def test_overlong_prompts_of_a_file_are_cut_and_counted(tmp_path: Path) -> None:
    chat = {"messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "word " * 300}]}
    path = _lines(tmp_path, {"prompt": "word " * 200}, {"prompt": "short"}, chat)
    factory = _recorded(path, prompts={"turns": 1, "max_input_tokens": 50})
    block = sorted(_block(factory, 3), key=lambda p: p.asked_tokens or 0)
    assert [p.asked_tokens for p in block] == [1, 200, 303]
    assert [pieces(p.text) for p in block] == [1, 50, 50]
    assert [p.input_tokens for p in block] == [1, 50, 50]
    messages = block[2].messages
    assert messages is not None
    assert messages[0]["content"] == "Be brief."
    assert pieces(messages[1]["content"]) == 47
    assert factory.notes == ("longer than 50 tokens and cut, of this round's prompts: 2",)
    assert _block(factory, 3, variant="flash") == _block(factory, 3)


def test_overlong_prompts_of_a_file_are_skipped_and_counted_round_by_round(tmp_path: Path) -> None:
    path = _lines(tmp_path, *({"prompt": "word " * n} for n in (10, 200, 20, 300, 30)))
    factory = _recorded(path, prompts={"turns": 1, "max_input_tokens": 50, "overlong": "skip"})
    _block(factory, 1)
    block = _block(factory, 3)  # a block that grows counts on
    assert sorted(p.asked_tokens or 0 for p in block) == [10, 20, 30]
    (note,) = [note for note in factory.notes if "skipped" in note]
    assert note in {f"longer than 50 tokens and skipped, of this round's prompts: {n}" for n in (1, 2)}
    with pytest.raises(WorkloadError, match="nearly every prompt"):
        _block(_recorded(path, prompts={"turns": 1, "max_input_tokens": 5, "overlong": "skip"}))


def test_a_conversation_ends_before_the_turn_that_would_be_too_long(tmp_path: Path) -> None:
    long = json.loads(json.dumps(_TALK))
    long["messages"][3]["content"] = "word " * 100
    cut = _block(_recorded(_lines(tmp_path, long), prompts={"max_input_tokens": 50}), 2)
    assert [p.turn for p in cut] == [0, 0]  # the first turn, again in the next conversation
    with pytest.raises(WorkloadError, match="nearly every"):
        _block(_recorded(_lines(tmp_path, long), prompts={"max_input_tokens": 50, "overlong": "skip"}), 2)
