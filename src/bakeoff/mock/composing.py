"""What an answer says, and how a fault dresses it up."""

from __future__ import annotations

from collections.abc import Callable

from .asks import Ask
from .events import Ending, Events, Kind, Tokens
from .events_openai import OpenAIEvents
from .fault_table import FaultKind
from .latency import LatencyModel
from .words import Pieces, accented, answer_source, gibberish, natural_length

SOUND = FaultKind(name="none", says="answers as it should")
_PADDING = b',"padding":"' + b"x" * (1 << 20) + b'"}\n\n'
_AHEAD = 64
_DRIP_GAP_NS = 50_000
_SPLIT_GAP_NS = 2_000_000  # long enough for the first packet to be read before the second comes
_PING = b": ping\n\n"


class Answer:
    """What will be said: `count` pieces of one token each, made some ahead of their sending, and why it ends."""

    __slots__ = ("_ahead", "_at", "_kinds", "_pieces", "_turn", "count", "finish")

    def __init__(self, count: int, finish: str, pieces: Callable[[int], list[str]], kinds: Kind) -> None:
        self.count, self.finish = count, finish
        self._pieces = pieces
        self._kinds = kinds
        self._ahead: list[str] = []  # the next one last
        self._at = 0
        self._turn = count // 2  # where the answer turns from reasoning to text, or from text to a tool call

    @property
    def reasoning_tokens(self) -> int:
        return self._turn if self._kinds == "reasoning" else 0

    def take(self, tokens: int) -> tuple[str, Kind]:
        """The next piece of so many tokens. Where it is of two kinds, all of it is of the first."""
        at, self._at = self._at, self._at + tokens
        ahead = self._ahead
        if len(ahead) < tokens:
            more = self._pieces(max(tokens - len(ahead), min(_AHEAD, self.count - at - len(ahead))))
            self._ahead = ahead = more[::-1] + ahead
        text = ahead.pop() if tokens == 1 else "".join([ahead.pop() for _ in range(tokens)])
        if self._kinds == "text":
            return text, "text"
        if self._kinds == "reasoning":
            return text, "reasoning" if at < self._turn else "text"
        if at < self._turn:
            return text, "text"
        start = '{"text":"' if at == self._turn or at + tokens == self.count == 1 else ""
        return f"{start}{text}" + ('"}' if self._at >= self.count else ""), "tool"


def compose(ask: Ask, model: LatencyModel, fault: FaultKind) -> Answer:
    """The answer to a request: the same for the same seed and prompt."""
    source = answer_source(model.seed, ask.prompt, model.nonce_tokens)
    if ask.ignore_eos and ask.limit is not None:
        count = ask.limit
    else:
        wanted = max(ask.least, natural_length(source, model.natural_tokens_mean * model.talkative))
        count = wanted if ask.limit is None else min(wanted, ask.limit)
    finish = "length" if count == ask.limit else "stop"
    if fault.text == "none":
        return Answer(0, "stop", lambda _: [], "text")
    pieces: Callable[[int], list[str]] = Pieces(source)
    if fault.text == "gibberish":
        pieces = lambda tokens: gibberish(source, tokens)  # noqa: E731  # three one-line sources of text
    elif fault.text == "accents":
        pieces = lambda tokens: accented(source, tokens)  # noqa: E731
    elif fault.text == "one token":
        piece = pieces(1)[0]
        pieces = lambda tokens: [piece] * tokens  # noqa: E731
    # /v1/completions knows neither reasoning nor tools.
    return Answer(count, finish, pieces, "text" if ask.api == "completions" else fault.kinds)


def ending_of(answer: Answer, fault: FaultKind, input_tokens: int, cached_tokens: int) -> Ending:
    """How an answer ends, and what it says of its tokens."""
    usage: Tokens | None = None
    if fault.usage != "none":
        told = answer.count * (2 if fault.usage == "wrong" else 1)
        usage = Tokens(input_tokens, told, cached_tokens, answer.reasoning_tokens)
    return Ending(answer.finish if fault.finish else None, usage, fault.done)


class Dress:
    """A fault's changes to the bytes of one streamed answer."""

    def __init__(self, fault: FaultKind, events: Events, count: int) -> None:
        self._fault, self._events = fault, events
        self._number = 0
        self._middle = max(0, (count - 1) // 2)
        self.part_gap_ns = _SPLIT_GAP_NS if fault.shape == "split" else _DRIP_GAP_NS
        if fault.usage == "every" and isinstance(events, OpenAIEvents):
            events.count_always()

    def chunk(self, event: bytes, tokens: int, events: list[bytes], sizes: list[int]) -> None:
        """Adds the events of one chunk of content, and the tokens of each content event."""
        number, self._number = self._number, self._number + 1
        insert = self._fault.insert
        if insert == "comments":
            events.append(_PING)
        elif insert == "nothing" and number < 2:
            events.append(self.shaped(self._events.nothing()))
        elif insert == "giant" and number == 0:
            event = event.removesuffix(b"}\n\n") + _PADDING
        elif insert == "broken" and number == self._middle:
            event = event[: len(event) // 2] + b"\n\n"
        events.append(self.shaped(event))
        sizes.append(tokens)
        if insert == "twice" and number == self._middle:
            events.append(event)
            sizes.append(0)

    def shaped(self, data: bytes) -> bytes:
        """Events as their lines are to look."""
        if self._fault.shape == "crlf":
            return data.replace(b"\n", b"\r\n")
        return data.replace(b"data: ", b"data:") if self._fault.shape == "tight" else data

    def parts(self, framed: bytes) -> list[bytes]:
        """What is sent apart, the first last; empty: it goes out whole."""
        if self._fault.shape == "drip":
            return [framed[at : at + 1] for at in range(len(framed) - 1, -1, -1)]
        if self._fault.shape == "split":
            # Behind the first byte of the last character that has several.
            at = max((at for at, byte in enumerate(framed) if byte >= 0xC0), default=0) + 1
            return [framed[at:], framed[:at]]
        return []

    def closing(self, ending: Ending, answer: Answer) -> bytes:
        """What follows the content."""
        if self._fault.insert != "after finish":
            return self.shaped(self._events.closing(ending))
        finish = self._events.closing(Ending(ending.reason, None, done=False))
        late = b"".join([self._events.content(*_told(answer), "text") for _ in range(2)])
        return finish + late + self._events.closing(Ending(None, ending.usage, ending.done))


def _told(answer: Answer) -> tuple[str, int]:
    return answer.take(1)[0], answer.count
