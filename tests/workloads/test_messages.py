from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from bakeoff.workloads.entries import as_messages, joined
from bakeoff.workloads.messages import messages_problem, split_turns

_MESSAGES = st.lists(
    st.fixed_dictionaries(
        {"role": st.sampled_from(["system", "user", "assistant", "tool"]), "content": st.text(max_size=5)},
        optional={"think_s": st.integers(0, 9), "name": st.just("x")},
    ),
    min_size=1,
    max_size=12,
)


@settings(deadline=None, derandomize=True)
@given(messages=_MESSAGES)
def test_turns_hold_every_message_once_and_in_order(messages: list[dict[str, Any]]) -> None:
    turns = split_turns(messages)
    plain = [{key: value for key, value in message.items() if key != "think_s"} for message in messages]
    kept = [message for turn in turns for message in (*(turn.messages or ()), *(turn.answer_messages or ()))]
    assert kept == plain[: len(kept)]
    asking = [n for n, message in enumerate(plain) if message["role"] in ("user", "tool")]
    assert len(kept) > max(asking, default=-1)  # only what nobody asks after is left out
    for place, turn in enumerate(turns):
        assert any(message["role"] in ("user", "tool") for message in turn.messages or ())
        assert (turn.answer is None) == (place == len(turns) - 1 and not turn.answer_messages)
        assert as_messages(turns[: place + 1]) == kept[: len(as_messages(turns[: place + 1]))]


def test_an_answered_history_has_the_given_answers() -> None:
    roles = ["system", "user", "assistant", "user", "assistant", "user"]
    turns = split_turns([{"role": role, "content": f"{role} {n}"} for n, role in enumerate(roles)])
    answered = as_messages(turns, ["one", "two"])
    assert [m["content"] for m in answered] == ["system 0", "user 1", "one", "user 3", "two", "user 5"]
    assert joined(turns, ["one", "two"]) == "system 0\n\nuser 1\n\none\n\nuser 3\n\ntwo\n\nuser 5"
    assert joined(turns) == "system 0\n\nuser 1\n\nassistant 2\n\nuser 3\n\nassistant 4\n\nuser 5"


@settings(deadline=None, derandomize=True)
@given(
    value=st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3) | st.just("role"),
        lambda inner: (
            st.lists(inner, max_size=4)
            | st.dictionaries(st.sampled_from(["role", "content", "think_s", "type", "text"]), inner, max_size=4)
        ),
        max_leaves=12,
    )
)
def test_whatever_passes_the_check_can_be_split(value: Any) -> None:
    if messages_problem(value, "chat") is None:
        assert all(turn.messages for turn in split_turns(value))
