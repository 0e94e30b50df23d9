"""The streaming HTTP load client: the instrument. Stamps at the socket read, counts what the server says."""

from .block import ClientBlock, ClosedLoop, OpenLoop, Timeouts
from .clock import SYSTEM_CLOCK, Clock
from .interrupt import asked, held, listening, loose
from .load import limits_of, run_requests
from .loop import LoopRunner, loop_runner
from .query import Answer, HttpClient
from .request import Place, PreparedRequest, prepare, prepare_at
from .shards import Shards

__all__ = [
    "SYSTEM_CLOCK",
    "Answer",
    "ClientBlock",
    "Clock",
    "ClosedLoop",
    "HttpClient",
    "LoopRunner",
    "OpenLoop",
    "Place",
    "PreparedRequest",
    "Shards",
    "Timeouts",
    "asked",
    "held",
    "limits_of",
    "listening",
    "loop_runner",
    "loose",
    "prepare",
    "prepare_at",
    "run_requests",
]
