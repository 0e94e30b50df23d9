"""What is asked about quality, and what is answered. Imports nothing of ours."""

from __future__ import annotations

from typing import Literal

import msgspec

Scorer = Literal["exact", "normalised", "numeric", "regex", "choice", "function", "task"]
TaskSource = Literal["reasoning-gym", "jsonl", "lm-eval"]
AnswerStatus = Literal["scored", "cut", "failed", "ungradable"]
# score: it counts. again: the base asked a second time, on a start of its own, for its own flip floor. consistency: the
# same prompt once more at temperature 0.
Purpose = Literal["score", "again", "consistency"]


class QualityTask(msgspec.Struct, frozen=True, kw_only=True):
    """One scored set of questions, the same for every variant.

    ``reasoning-gym`` draws items from its generators (`datasets`: generator → number of items; empty: the default
    mix), ``jsonl`` reads prompt and answer from `path`, ``lm-eval`` runs that library's task `task`.
    """

    name: str
    source: TaskSource
    datasets: dict[str, int] = {}
    path: str | None = None
    task: str | None = None
    items: int | None = None  # at most that many, drawn by seed; None: all
    repeats: int = 1  # answers to each item
    scorer: Scorer = "normalised"  # task: the one that the source brings along
    pattern: str | None = None  # scorer regex: its first group (or the whole match) is the answer given
    function: str | None = None  # scorer function: ``module:function(answer, item) -> float`` in the user's own code
    stop: tuple[str, ...] = ()  # texts that end an answer
    max_tokens: int = 512
    template: Literal["chat", "plain"] = "plain"  # chat: the server's chat template; plain: the text as it is
    temperature: float = 0.0
    seed: int = 0


class Divergence(msgspec.Struct, frozen=True, kw_only=True):
    """How far the candidates' next-token probabilities are from the base's, along the base's own answers."""

    prompts: int = 32
    tokens: int = 64  # positions of each answer that are compared
    top: int | None = None  # probabilities asked at each position; None: as many as the server gives, up to 1,024


class Consistency(msgspec.Struct, frozen=True, kw_only=True):
    """The same prompts again and again at temperature 0."""

    items: int = 20
    repeats: int = 4


class Quality(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that is asked about quality."""

    tasks: tuple[QualityTask, ...] = ()
    margin_points: float = 1.0  # non-inferiority margin of an accuracy [percentage points]
    divergence: Divergence | None = None
    consistency: Consistency | None = None


class Answer(msgspec.Struct, kw_only=True):
    """One answer of one variant to one item. `score` is None unless the status is ``scored``.

    ``cut``: ended by max_tokens before an answer could be read; ``failed``: the request failed; ``ungradable``: the
    scorer could not decide. None of these is a wrong answer, and none is left out in silence.
    """

    task: str
    item: str  # the same name for the same question in every variant
    group: str = ""  # items of one group resemble each other (one passage, one generator)
    variant: str
    purpose: Purpose = "score"
    repeat: int = 0
    prompt: str = ""
    expected: str = ""
    text: str = ""
    given: str = ""  # the answer that the scorer read out of the text
    reasoning: str = ""
    score: float | None = None  # 0..1
    status: AnswerStatus = "scored"
    reason: str | None = None  # why it is not scored
    chance: float | None = None  # score of blind guessing, where the kind of question tells it
    finish_reason: str | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    reasoning_tokens: int | None = None
    scheduled_ns: int = 0
    first_token_ns: int | None = None
    last_token_ns: int | None = None
    start_id: int = -1
    round: int = 0


class Distribution(msgspec.Struct, kw_only=True):
    """Next-token probabilities at one position of one text, as one variant gives them."""

    prompt: int
    position: int
    variant: str
    token: int  # the token that the base's text goes on with
    token_logprob: float
    ids: list[int] = []  # the likeliest tokens, in falling order
    logprobs: list[float] = []
    rest: float = 0.0  # probability of all tokens that are not listed; 0: the list is complete


class ForcedText(msgspec.Struct, kw_only=True):
    """One of the base's own greedy answers, along which all variants tell their probabilities."""

    prompt: str  # text, or messages as JSON
    chat: bool = False  # the prompt is messages
    before: list[int]  # tokens of the prompt as the base reads it
    tokens: list[int]  # of the answer as it was generated, the token that ended it included
    text: str = ""
    read: list[int] = []  # tokens of `text` as the base's tokenizer reads it


class DivergencePass(msgspec.Struct, frozen=True, kw_only=True):
    """One walk of one variant along the texts. The base walks twice: against itself it must not differ."""

    variant: str
    repeat: int = 0  # 1: the base's second walk, on a start of its own
    told_by: str = ""  # how the server told its probabilities
    top: int | None = None  # tokens asked for at each position
    texts: int = 0
    start_id: int = -1
    part: str | None = None  # file of the distributions, relative to the run folder; None: there are none
    problem: str | None = None  # why there are none
    remedy: str | None = None
