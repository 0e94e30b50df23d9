"""Servers that tell probabilities of a tiny language, in the ways of llama.cpp, of vLLM, and of old completions.

One token a character, 128 tokens, token 1 in front of every prompt, token 2 ends an answer. The logits of what follows
hang on the last two tokens alone, are drawn by a fixed formula, and a server may blur them as quantisation does.
"""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

VOCABULARY = 128
FIRST, LAST = 1, 2


def tokens_of(text: str, *, special: bool, merged: bool = False) -> list[int]:
    """merged: this tokenizer knows " b" as one token, 3."""
    found = [ord(c) % VOCABULARY for c in text]
    if merged:
        found, rest = [], found
        while rest:
            pair = rest[:2] == [32, 98]
            found.append(3 if pair else rest[0])
            rest = rest[2 if pair else 1 :]
    return [FIRST, *found] if special else found


def logprobs(before: list[int], blur: float = 0.0) -> list[float]:
    """Of every token after these; `blur` adds a second formula to the logits."""
    last, earlier = before[-1], before[-2] if len(before) > 1 else 0
    logits = [
        4 * math.sin(1.7 * token + 0.9 * last + 0.37 * earlier) + blur * math.cos(2.3 * token * last + earlier)
        for token in range(VOCABULARY)
    ]
    total = math.log(sum(math.exp(x) for x in logits))
    return [x - total for x in logits]


class TinyLanguage:
    """What the handlers answer with. `way`: llamacpp, vllm, echo or none; `limit`: most tokens that vLLM lists."""

    def __init__(self, way: str, *, blur: float = 0.0, limit: int = 20, merged: bool = False) -> None:
        self.way = way
        self.blur = blur
        self.limit = limit
        self.merged = merged
        self.asked: list[tuple[str, dict[str, Any]]] = []

    def answer(self, path: str, body: dict[str, Any]) -> tuple[int, Any]:
        self.asked.append((path, body))
        known = {
            ("llamacpp", "/tokenize"): self._tokenize_llamacpp,
            ("llamacpp", "/completion"): self._completion,
            ("llamacpp", "/apply-template"): lambda b: (200, {"prompt": f"<{b['messages'][0]['content']}>"}),
            ("vllm", "/tokenize"): self._tokenize_vllm,
            ("vllm", "/v1/completions"): self._prompt_logprobs,
            ("echo", "/v1/completions"): self._echo,
        }.get((self.way, path))
        if known is None and path == "/v1/completions":
            return 200, {"choices": [{"index": 0, "text": "x", "finish_reason": "length", "logprobs": None}]}
        return (404, {"error": {"message": "no such path"}}) if known is None else known(body)

    def _logprobs(self, before: list[int]) -> list[float]:
        return logprobs(before, self.blur)

    def _tokenize_llamacpp(self, body: dict[str, Any]) -> tuple[int, Any]:
        return 200, {"tokens": tokens_of(body["content"], special=body["add_special"], merged=self.merged)}

    def _completion(self, body: dict[str, Any]) -> tuple[int, Any]:
        before = list(body["prompt"])
        steps: list[dict[str, Any]] = []
        for _ in range(body["n_predict"]):
            told = self._logprobs(before)
            order = sorted(range(VOCABULARY), key=lambda token: -told[token])
            bias = dict(map(tuple, body.get("logit_bias", [])))
            chosen = next(iter(bias), order[0])
            top = [{"id": token, "logprob": told[token]} for token in order[: body["n_probs"]]]
            steps.append({"id": chosen, "logprob": told[chosen], "top_logprobs": top})
            before.append(chosen)
            if chosen == LAST:
                break
        text = "".join(chr(step["id"]) for step in steps if step["id"] != LAST)
        return 200, {"content": text, "completion_probabilities": steps}

    def _tokenize_vllm(self, body: dict[str, Any]) -> tuple[int, Any]:
        text = body["prompt"] if "prompt" in body else f"<{body['messages'][0]['content']}>"
        return 200, {"tokens": tokens_of(text, special=body.get("add_special_tokens", True), merged=self.merged)}

    def _prompt_logprobs(self, body: dict[str, Any]) -> tuple[int, Any]:
        top = body.get("prompt_logprobs")
        if top is not None and top > self.limit:
            said = f"Requested prompt logprobs of {top}, which is greater than max allowed: {self.limit}"
            return 400, {"error": {"message": said}}
        prompt = body["prompt"]
        choice: dict[str, Any] = {"index": 0, "finish_reason": "length"}
        if top is not None:
            choice["prompt_logprobs"] = [
                None,
                *(self._entry(prompt[:n], prompt[n], top) for n in range(1, len(prompt))),
            ]
        before, tokens = list(prompt), []
        for _ in range(body["max_tokens"]):
            told = self._logprobs(before)
            tokens.append(max(range(VOCABULARY), key=told.__getitem__))
            before.append(tokens[-1])
            if tokens[-1] == LAST:
                break
        choice["text"] = "".join(chr(token) for token in tokens if token != LAST)
        if body.get("return_token_ids"):
            choice["token_ids"] = tokens
        return 200, {"choices": [choice]}

    def _entry(self, before: list[int], token: int, top: int) -> dict[str, Any]:
        told = self._logprobs(before)
        order = sorted(range(VOCABULARY), key=lambda other: -told[other])
        listed = dict.fromkeys([token, *order[:top]])  # its own token first, as vLLM does
        return {str(t): {"logprob": told[t], "rank": order.index(t) + 1, "decoded_token": chr(t)} for t in listed}

    def _echo(self, body: dict[str, Any]) -> tuple[int, Any]:
        ids = [FIRST, *tokens_of(body["prompt"], special=False)]
        likeliest = [max(range(VOCABULARY), key=self._logprobs(ids[:n]).__getitem__) for n in range(1, len(ids))]
        told = {
            "tokens": list(body["prompt"]),
            "token_logprobs": [None, *(self._logprobs(ids[:n])[ids[n]] for n in range(2, len(ids)))],
            "top_logprobs": [None, *({chr(token): 0.0} for token in likeliest[1:])],
            "text_offset": list(range(len(body["prompt"]))),
        }
        return 200, {"choices": [{"index": 0, "text": body["prompt"] + "x", "logprobs": told}]}


@contextmanager
def served(language: TinyLanguage) -> Iterator[str]:
    """The server's base URL."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            status, answer = language.answer(self.path, body)
            data = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/v1"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
