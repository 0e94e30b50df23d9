"""Prompts and conversations from files: their own texts, counted, and kept within the workload's limits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ..model import Workload
from .bodies import Body, Making
from .entries import Entry, Turn, joined
from .problems import WorkloadError
from .shorten import Cut, cut_turn, shorten
from .tokens import count_or_estimate
from .windows import Windows

_GLUE = "\n"
_MOST_SKIPPED = 50  # times as many entries as asked for are looked at before giving up


class Source(Protocol):
    """A file of prompts."""

    @property
    def notes(self) -> tuple[str, ...]: ...
    def __len__(self) -> int: ...
    @property
    def mean_turns(self) -> float: ...
    def entry(self, number: int) -> Entry: ...


class RecordedBodies:
    """The prompts of a file. kept: the numbers of those entries that may be used; windows: which of them come when.

    turns: most turns of a conversation.
    """

    def __init__(
        self, workload: Workload, source: Source, kept: Sequence[int], windows: Windows, *, turns: int
    ) -> None:
        self._workload = workload
        self._prompts = workload.prompts
        self._source = source
        self._kept = kept
        self._windows = windows
        self._turns = turns
        self._round = self._place = 0
        self._asked = self._cut = self._skipped = 0

    @property
    def mean_turns(self) -> float:
        """Turns of an entry that are used, on average."""
        return min(float(self._turns), self._source.mean_turns)

    def begin(self, round_: int) -> None:
        """Starts a round afresh."""
        self._round, self._place = round_, 0
        self._asked = self._cut = self._skipped = 0

    async def more(self, count: int, making: Making) -> list[list[Body]]:
        """The next `count` entries of the round that are not skipped."""
        for note in self._source.notes:
            making.note(note)
        if making.tokenizer is None:
            making.note("prompt lengths are estimated: the server offers no tokenizer")
        units: list[list[Body]] = []
        looked_at = 0
        while len(units) < count:
            if looked_at > _MOST_SKIPPED * count + 100:
                raise WorkloadError(
                    f"nearly every prompt is longer than max_input_tokens: {self._prompts.max_input_tokens}",
                    where=self._workload.name,
                    remedy="raise prompts.max_input_tokens, or set overlong: truncate",
                )
            entries = [self._next() for _ in range(count - len(units))]
            looked_at += len(entries)
            for unit, shortened in await self._bodies(entries, len(units) + self._asked, making):
                if unit:
                    units.append(unit)
                    self._cut += shortened
                else:
                    self._skipped += 1
        self._asked += len(units)
        if self._windows.repeats(self._round, self._place):
            making.note(f"the file's {len(self._kept)} prompts are fewer than the run needs: they repeat, reshuffled")
        for what, number in (("cut", self._cut), ("skipped", self._skipped)):
            if number:
                text = f"longer than {self._prompts.max_input_tokens} tokens and {what}, of this round's prompts"
                making.count(text, number)
        return units

    def _next(self) -> Entry:
        number = self._kept[self._windows.number(self._round, self._place)]
        self._place += 1
        return self._source.entry(number)

    async def _bodies(self, entries: Sequence[Entry], first: int, making: Making) -> list[tuple[list[Body], bool]]:
        """(bodies, whether something was cut) of every entry; no bodies for one that is skipped."""
        words = making.heads.room(None)
        head = (await making.stand_in(words)).text
        glue = _GLUE if words else ""
        spoken = [entry.turns[: self._turns] for entry in entries]
        flat = [(place, turn) for place, turns in enumerate(spoken) for turn in range(len(turns))]
        texts = [head + glue + joined(spoken[place][: turn + 1]) for place, turn in flat]
        counts = dict(zip(flat, await count_or_estimate(making.tokenizer, texts), strict=True))
        openings = await self._shortened(spoken, counts, head + glue, making)
        limits = await self._limits(spoken, making)
        made: list[tuple[list[Body], bool]] = []
        unit = first
        for place, turns in enumerate(spoken):
            opening = openings.get(place, (turns[0], counts[place, 0]))
            fits = opening is not None and self._fits(counts, place, len(turns))
            if opening is None or not fits:
                made.append(([], False))
                continue
            bodies = [
                Body(
                    text=glue + joined((opening[0], *turns[1 : turn + 1])),
                    tokens=opening[1] if turn == 0 else counts[place, turn],
                    words=words,
                    asked_tokens=self._wanted(counts[place, turn], turn, making),
                    turns=self._as_turns((opening[0], *turns[1 : turn + 1])),
                    glue=glue,
                    output_tokens=limits[place][turn],
                    conversation=unit if self._prompts.turns > 1 else None,
                    turn=turn,
                    think_s=self._pause(turns[turn]) if turn else 0.0,
                )
                for turn in range(len(turns))
                if turn == 0 or (place not in openings and not self._overlong(counts[place, turn]))
            ]
            made.append((bodies, len(bodies) < len(turns) or place in openings))
            unit += 1
        return made

    def _overlong(self, tokens: int) -> bool:
        return self._prompts.max_input_tokens is not None and tokens > self._prompts.max_input_tokens

    def _fits(self, counts: dict[tuple[int, int], int], place: int, turns: int) -> bool:
        """Whether a conversation is used at all."""
        if self._prompts.overlong == "truncate":
            return True
        return not any(self._overlong(counts[place, turn]) for turn in range(turns))

    def _wanted(self, tokens: int, turn: int, making: Making) -> int | None:
        """The file's own length: unknown where it is only estimated, or where the server's answers come into it."""
        if making.tokenizer is None or (turn and self._prompts.history == "answered"):
            return None
        return tokens

    def _as_turns(self, turns: tuple[Turn, ...]) -> tuple[Turn, ...]:
        chat = self._workload.api != "completions"
        return turns if self._prompts.turns > 1 or (chat and turns[0].messages) else ()

    def _pause(self, turn: Turn) -> float:
        return self._prompts.think_s if turn.think_s is None else turn.think_s

    async def _shortened(
        self,
        spoken: Sequence[Sequence[Turn]],
        counts: dict[tuple[int, int], int],
        prefix: str,
        making: Making,
    ) -> dict[int, tuple[Turn, int] | None]:
        """First turns that are too long, cut, with their tokens (None: cannot be cut), by their place."""
        limit = self._prompts.max_input_tokens
        if limit is None or self._prompts.overlong == "skip":
            return {}
        places = [place for place in range(len(spoken)) if self._overlong(counts[place, 0])]
        cuts = [Cut(prefix, spoken[place][0].text, limit, counts[place, 0]) for place in places]
        await shorten(cuts, making.tokenizer)
        turns = [cut_turn(spoken[place][0], cut.keep) for place, cut in zip(places, cuts, strict=True)]
        texts = [prefix + (turn.text if turn else "") for turn in turns]
        sizes = await count_or_estimate(making.tokenizer, texts) if texts else []
        return {
            place: None if turn is None else (turn, tokens)
            for place, turn, tokens in zip(places, turns, sizes, strict=True)
        }

    async def _limits(self, spoken: Sequence[Sequence[Turn]], making: Making) -> list[list[int | None]]:
        """The limit of each answer: the file's number, or the tokens of the recorded answer, or None."""
        limits: list[list[int | None]] = [[turn.output_tokens for turn in turns] for turns in spoken]
        if not self._prompts.recorded_lengths:
            return limits
        flat = [
            (place, number)
            for place, turns in enumerate(spoken)
            for number, turn in enumerate(turns)
            if turn.answer and turn.output_tokens is None
        ]
        answers = [spoken[place][number].answer or "" for place, number in flat]
        counts = await count_or_estimate(making.tokenizer, answers) if answers else []
        for (place, number), tokens in zip(flat, counts, strict=True):
            limits[place][number] = max(1, min(tokens, self._workload.output_tokens))
        if any(tokens > self._workload.output_tokens for tokens in counts):
            making.note(f"answers of more than {self._workload.output_tokens} tokens are asked for with that limit")
        return limits
