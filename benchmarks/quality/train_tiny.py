"""Trains a small Llama-shaped model at full precision and writes it as GGUF files: F32, F16, Q8_0, Q5_0, Q4_0.

To say what quantisation costs in quality, the base must have been trained at full precision: an up-cast copy of a
quantised file is no base. The tasks are made procedurally (copy, reverse, recall, sort, count, add), text is read
character by character, and the model is small enough to be trained in minutes on two cores. Same seed, same threads,
same torch: same files.

Needs torch, numpy and gguf.   Run: python benchmarks/quality/train_tiny.py OUT_FOLDER [--minutes 12] [--seed 0]
"""

from __future__ import annotations

import argparse
import json
import math
import random
import time
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import torch
from torch import nn
from torch.nn import functional

LETTERS = "abcdefghijklmnopqrstuvwxyz"
CHARACTERS = " " + LETTERS + "0123456789:=+,>?.-"
BYTES_FROM = 3  # after <unk>, <s>, </s>
CHARS_FROM = BYTES_FROM + 256
VOCABULARY = 320  # a multiple of 32, so that the embedding can be quantised in blocks
IDS = {character: CHARS_FROM + place for place, character in enumerate(CHARACTERS)}
BOS, EOS = 1, 2
WIDTH, LAYERS, HEADS, HIDDEN, CONTEXT = 128, 4, 4, 384, 256
EPSILON, THETA = 1e-5, 10_000.0


# Tasks ────────────────────────────────────────────────────────────────────────────────────────────────────────────────


def copy(draw: random.Random) -> tuple[str, str]:
    text = "".join(draw.choices(LETTERS, k=draw.randint(3, 10)))
    return f"copy {text}=", text


def reverse(draw: random.Random) -> tuple[str, str]:
    text = "".join(draw.choices(LETTERS, k=draw.randint(3, 8)))
    return f"reverse {text}=", text[::-1]


def recall(draw: random.Random) -> tuple[str, str]:
    keys = draw.sample(LETTERS, draw.randint(3, 7))
    values = [draw.choice("0123456789") + draw.choice("0123456789") for _ in keys]
    asked = draw.randrange(len(keys))
    pairs = ",".join(f"{key}:{value}" for key, value in zip(keys, values, strict=True))
    return f"recall {pairs}?{keys[asked]}=", values[asked]


def sort(draw: random.Random) -> tuple[str, str]:
    text = draw.sample(LETTERS, draw.randint(3, 7))
    return f"sort {''.join(text)}=", "".join(sorted(text))


def count(draw: random.Random) -> tuple[str, str]:
    letter = draw.choice("abc")
    text = "".join(draw.choices("abc", k=draw.randint(3, 9)))
    return f"count {letter} {text}=", str(text.count(letter))


def add(draw: random.Random) -> tuple[str, str]:
    first, second = draw.randint(0, 99), draw.randint(0, 99)
    return f"add {first:02d}+{second:02d}=", str(first + second)


TASKS = {"copy": copy, "reverse": reverse, "recall": recall, "sort": sort, "count": count, "add": add}


def encode(text: str) -> list[int]:
    return [IDS[character] for character in text]


def batch(draw: random.Random, size: int) -> tuple[torch.Tensor, torch.Tensor]:
    """(tokens, targets), both (size, longest − 1); targets are −100 where nothing is to be learnt (the question)."""
    rows, marks = [], []
    for _ in range(size):
        question, answer = draw.choice(list(TASKS.values()))(draw)
        asked, said = [BOS, *encode(question)], [*encode(answer), EOS]
        rows.append(asked + said)
        marks.append([-100] * (len(asked) - 1) + said)
    longest = max(map(len, rows))
    tokens = torch.tensor([row + [EOS] * (longest - len(row)) for row in rows])
    targets = torch.tensor([mark + [-100] * (longest - 1 - len(mark)) for mark in marks])
    return tokens[:, :-1], targets


# Model: llama's shape (RMS norm before, rotary positions, SwiGLU, no biases, tied embeddings) ────────────────────────


class Norm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(WIDTH))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return functional.rms_norm(x, (WIDTH,), self.weight, EPSILON)


def rotate(x: torch.Tensor, cosine: torch.Tensor, sine: torch.Tensor) -> torch.Tensor:
    """Rotary positions over neighbouring pairs, the order that GGUF's llama expects (no permutation on export)."""
    even, odd = x[..., 0::2], x[..., 1::2]
    return torch.stack((even * cosine - odd * sine, even * sine + odd * cosine), dim=-1).flatten(-2)


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attn_norm, self.ffn_norm = Norm(), Norm()
        self.attn_q, self.attn_k, self.attn_v, self.attn_output = (
            nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(4)
        )
        self.ffn_gate, self.ffn_up = (nn.Linear(WIDTH, HIDDEN, bias=False) for _ in range(2))
        self.ffn_down = nn.Linear(HIDDEN, WIDTH, bias=False)

    def forward(self, x: torch.Tensor, cosine: torch.Tensor, sine: torch.Tensor) -> torch.Tensor:
        rows, length, _ = x.shape
        y = self.attn_norm(x)
        q, k, v = (
            part(y).view(rows, length, HEADS, WIDTH // HEADS).transpose(1, 2)
            for part in (self.attn_q, self.attn_k, self.attn_v)
        )
        q, k = rotate(q, cosine, sine), rotate(k, cosine, sine)
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.attn_output(mixed.transpose(1, 2).reshape(rows, length, WIDTH))
        y = self.ffn_norm(x)
        out: torch.Tensor = x + self.ffn_down(functional.silu(self.ffn_gate(y)) * self.ffn_up(y))
        return out


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.token_embd = nn.Embedding(VOCABULARY, WIDTH)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.output_norm = Norm()
        for name, weight in self.named_parameters():
            if weight.dim() == 2:
                shrink = math.sqrt(2 * LAYERS) if name.endswith(("attn_output.weight", "ffn_down.weight")) else 1.0
                nn.init.normal_(weight, std=0.02 if "embd" in name else WIDTH**-0.5 / shrink)
        head = WIDTH // HEADS
        angles = torch.outer(torch.arange(CONTEXT), THETA ** (-torch.arange(0, head, 2) / head))
        self.register_buffer("cosine", angles.cos())
        self.register_buffer("sine", angles.sin())

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.token_embd(tokens)
        cosine, sine = self.cosine[: tokens.shape[1]], self.sine[: tokens.shape[1]]
        for layer in self.layers:
            x = layer(x, cosine, sine)
        return functional.linear(self.output_norm(x), self.token_embd.weight)


@torch.no_grad()
def accuracy(model: Model, seed: int, items: int) -> dict[str, float]:
    """Share of questions answered exactly, by task (teacher-forced: each token of the answer must be the likeliest)."""
    found = {}
    for name, task in TASKS.items():
        draw, right = random.Random(f"{seed}/check/{name}"), 0
        for _ in range(items):
            question, answer = task(draw)
            asked, said = [BOS, *encode(question)], [*encode(answer), EOS]
            likeliest = model(torch.tensor([asked + said[:-1]]))[0, len(asked) - 1 :].argmax(-1)
            right += likeliest.tolist() == said
        found[name] = right / items
    return found


def train(seed: int, steps: int, size: int, rate: float) -> Model:
    torch.manual_seed(seed)
    draw = random.Random(seed)
    model = Model()
    optimiser = torch.optim.AdamW(model.parameters(), lr=rate, betas=(0.9, 0.98), weight_decay=0.01)
    began = time.monotonic()
    for step in range(steps):
        # Warm-up, then cosine to a tenth: the usual schedule.
        share = step / steps
        scale = min(1.0, (step + 1) / 100) * (0.1 + 0.45 * (1 + math.cos(math.pi * share)))
        for group in optimiser.param_groups:
            group["lr"] = rate * scale
        tokens, targets = batch(draw, size)
        loss = functional.cross_entropy(model(tokens).flatten(0, 1), targets.flatten(), ignore_index=-100)
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        if step % 250 == 249 or step == steps - 1:
            print(f"step {step + 1:5d}  loss {loss.item():.4f}  {time.monotonic() - began:.0f} s", flush=True)
    return model


# Files ────────────────────────────────────────────────────────────────────────────────────────────────────────────────


def vocabulary() -> tuple[list[bytes], list[float], list[int]]:
    tokens: list[tuple[bytes, float, int]] = [
        (b"<unk>", 0.0, gguf.TokenType.UNKNOWN),
        (b"<s>", 0.0, gguf.TokenType.CONTROL),
        (b"</s>", 0.0, gguf.TokenType.CONTROL),
        *((f"<0x{value:02X}>".encode(), 0.0, gguf.TokenType.BYTE) for value in range(256)),
        # A piece that stands for a space is written U+2581 in this kind of vocabulary.
        *((c.replace(" ", "\u2581").encode(), -1.0 - i, gguf.TokenType.NORMAL) for i, c in enumerate(CHARACTERS)),
    ]
    while len(tokens) < VOCABULARY:
        tokens.append((f"<unused{len(tokens)}>".encode(), -1000.0, gguf.TokenType.UNUSED))
    texts, scores, types = zip(*tokens, strict=True)
    return list(texts), list(scores), [int(kind) for kind in types]


def write(model: Model, path: Path, kind: Any) -> None:
    """Writes the model with its matrices in `kind`; norms stay F32, as in every GGUF file."""
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_name("bakeoff-tiny")
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(HIDDEN)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_layer_norm_rms_eps(EPSILON)
    writer.add_rope_dimension_count(WIDTH // HEADS)
    writer.add_rope_freq_base(THETA)
    writer.add_vocab_size(VOCABULARY)
    texts, scores, types = vocabulary()
    writer.add_tokenizer_model("llama")
    writer.add_token_list(texts)
    writer.add_token_scores(scores)
    writer.add_token_types(types)
    writer.add_bos_token_id(BOS)
    writer.add_eos_token_id(EOS)
    writer.add_unk_token_id(0)
    writer.add_add_bos_token(True)
    writer.add_add_space_prefix(False)
    writer.add_file_type({"F32": 0, "F16": 1, "Q8_0": 7, "Q5_0": 8, "Q4_0": 2}[kind.name])
    for name, weight in model.named_parameters():
        full = name.replace("layers.", "blk.")
        values = weight.detach().numpy().astype(np.float32)
        if values.ndim == 1 or kind.name == "F32":
            writer.add_tensor(full, values)
        elif kind.name == "F16":
            writer.add_tensor(full, values.astype(np.float16))
        else:
            writer.add_tensor(full, gguf.quants.quantize(values, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def write_items(path: Path, seed: int, items: int) -> None:
    """Questions with answers as JSON Lines, for `quality:` tasks; drawn apart from the training data's stream."""
    with path.open("w") as file:
        for name, task in TASKS.items():
            draw = random.Random(f"{seed}/items/{name}")
            for number in range(items):
                question, answer = task(draw)
                row = {"id": f"{name}-{number}", "group": name, "prompt": question, "answer": answer}
                file.write(json.dumps(row) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--steps", type=int, default=4000)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--rate", type=float, default=3e-3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--items", type=int, default=100, help="questions of each task in items.jsonl")
    chosen = parser.parse_args()
    torch.set_num_threads(chosen.threads)
    chosen.folder.mkdir(parents=True, exist_ok=True)
    model = train(chosen.seed, chosen.steps, chosen.batch, chosen.rate)
    for name, share in accuracy(model, chosen.seed, 200).items():
        print(f"{name:8s} {share:.1%}")
    for kind in ("F32", "F16", "Q8_0", "Q5_0", "Q4_0"):
        write(model, chosen.folder / f"tiny-{kind.lower()}.gguf", gguf.GGMLQuantizationType[kind])
    write_items(chosen.folder / "items.jsonl", chosen.seed, chosen.items)


if __name__ == "__main__":
    main()
