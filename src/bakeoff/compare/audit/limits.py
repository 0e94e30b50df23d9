"""Thresholds of the fairness audit, each with its reason. Shares and relative differences are fractions."""

from __future__ import annotations

from typing import NamedTuple

from ...model import OTHER_CPU_LIMIT, STEAL_LIMIT
from ...stats import steady


class Limit(NamedTuple):
    """A threshold and why it is where it is."""

    value: float
    why: str


OUTPUT_TOKENS = Limit(0.01, "E2E is proportional to the tokens written: 1 % is a third of the default margin")
SHORTFALL = Limit(0.01, "as OUTPUT_TOKENS, against the length that was asked for")
MISCOUNTED = Limit(0.05, "as TPOT_HIDDEN: a stray answer moves no median, one in twenty may")
NATURAL_LENGTH = Limit(0.02, "below 2 % a longer answer is no explanation of anything")
NATURAL_LENGTH_P = Limit(0.01, "natural lengths scatter: a difference has to be more than chance")
LENGTHS_OFF = Limit(0.02, "tokenizers and templates differ by a little; 2 % of a length moves no figure noticeably")
LENGTHS_SHARE = Limit(0.05, "a few odd prompts change no quantile; one in twenty is another traffic")
INPUT_TOKENS = Limit(0.01, "prefill time is proportional to the prompt: 1 % is a third of the default margin")
SAME_OFFSET = Limit(0.9, "a template adds the same number of tokens to (nearly) every prompt; a tokenizer does not")
FINISH_REASONS = Limit(0.10, "a shift of 10 points in how answers end means that the arms do other work")
FINISH_P = Limit(0.01, "and it has to be more than chance")
ODD_STREAMS = Limit(0.10, "as FINISH_REASONS: a shift of 10 points means that the arms answer in other ways")
ODD_P = Limit(0.01, "and it has to be more than chance")
UNSEEN_OUTPUT = Limit(
    0.05, "the answers that show something are those that think least: without 5 % a median may be off"
)
ERRORS_ONE_ARM = Limit(0.20, "with a fifth of one arm's requests lost, those left are a selection (survivorship)")
CACHE_HITS = Limit(0.05, "5 % of the prefill not computed is more than the margin in TTFT")
CACHE_HEAD_TOKENS = Limit(32, "the head of a chat template stands before the nonce and is reused rightly")
CACHE_UNEQUAL = Limit(0.05, "5 points of the prefill computed by one arm alone are more than the margin in TTFT")
CACHE_BEYOND = Limit(0.05, "as CACHE_HITS, beyond what the prompts of a block share; characters are not quite tokens")
FOREIGN = Limit(0.02, "another client's work slows ours by about its share: 2 % is close to the margin")
COUNTED = Limit(0.90, "the last requests of a block may be counted after the reading, a tenth of them is not")
QUEUEING = Limit(0.10, "a tenth of TTFT spent waiting is three times the margin")
KV_FULL = Limit(0.95, "above 95 % the next long prompt finds no room")
SEND_DELAY = Limit(0.01, "the client's own delay is part of TTFT: 1 % is a third of the default margin")
SEND_DELAY_HEALTHY_S = Limit(0.0005, "an event loop in good health sends within 0.1 to 0.3 ms: more is a busy client")
SEND_DELAY_BETWEEN = Limit(1 / 3, "of the margin: what the arms do not share looks like a difference of the servers")
SEND_DELAY_SHARED = Limit(1.0, "of the margin: what they share shrinks the log ratio by about its share of TTFT")
LOOP_LAG_MEDIAN_S = Limit(0.002, "timers of an idle event loop are up to 1 ms late, by their resolution")
LOOP_LAG_TAIL_S = Limit(0.005, "above the scheduler's own tail on a busy machine")
LOOP_LAG_TPOT = Limit(0.10, "a gap that is 10 % client is no measurement of the server")
CLIENT_CPU = Limit(0.80, "one event loop has one core: above 80 % of it requests queue in the client")
OTHER_CPU = Limit(
    OTHER_CPU_LIMIT, "a tenth of the machine taken by others is about what moves an embedded engine by 3 %"
)
STEAL = Limit(STEAL_LIMIT, "time the hypervisor took: 2 % is close to the margin")
BAD_BLOCKS = Limit(1 / 3, "up to a third of the blocks a median over pairs still holds")
DRIFT_P = Limit(0.01, "one false alarm in a hundred runs: it is divided by the number of gates")
DRIFT_OF_MARGIN = Limit(0.5, "a drift over the run of half the margin could turn an outcome")
SERIES_PAIRS = Limit(6, "a slope through fewer pairs is noise")
LAG1_P = Limit(0.01, "one false alarm in a hundred rows")
FIRST_P = Limit(0.001, "the first pair is looked at again and again, so it must stand out far")
OUTLIER_SD = Limit(steady.OUTLIER_SD, "robust standard deviations: chance puts a pair there in one series of a hundred")
WITHIN_P = Limit(0.001, "blocks are searched place by place, so a step inside them must repeat beyond doubt")
MACHINES_P = Limit(0.01, "machines have to disagree by more than chance before their mean is called into question")
AA_LEVEL = Limit(0.001, "a failed A/A stops everything, so it must be beyond doubt")
HIDDEN_GAPS = Limit(0.20, "with a fifth of the gaps unseen the quantiles of the rest are biased")
TPOT_HIDDEN = Limit(0.05, "answers that come in one read are the fast ones: without 5 % of them a median may be off")
SATURATION_GROWTH = Limit(2.0, "a stable queue does not double its waiting within a block")
SATURATION_REQUESTS = Limit(12, "three thirds of four requests, the least to see a trend in")
GARBAGE_POINTS = Limit(0.30, "small models loop on random prompts too: only a clear excess over the base counts")
GARBAGE_P = Limit(0.001, "calling a set-up broken must be beyond doubt")
BASE_DEGENERATE = Limit(0.30, "with a third of the base's outputs degenerate nothing can be said about quality")
DISTINCT_WORDS = Limit(
    0.20, "ordinary prose of 60 words has 60 to 80 % distinct words, a loop of one token a few per cent"
)
COMPRESSION = Limit(0.20, "short prose compresses to 50 to 70 % of its bytes, one repeated token to under 15 %")
UNPRINTABLE = Limit(0.20, "replacement and control characters hardly occur in good text")
GIBBERISH_NATS = Limit(1.0, "per character; prose of another topic is within 0.5 nats of the base's own outputs")
GIBBERISH_GAIN = Limit(0.0, "prose gains 0.3 to 0.9 nats by its order of letters, random characters lose up to 1.2")
GIBBERISH_SPREADS = Limit(5.0, "robust standard deviations of the base's outputs against each other")
