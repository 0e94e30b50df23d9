"""A tiny GGUF that llama.cpp loads in milliseconds: llama architecture, random weights, about half a megabyte."""

from __future__ import annotations

from pathlib import Path

_EMBEDDING = 64
_HEADS = 2  # of 32, so that a q8_0 KV cache (blocks of 32) fits
_LAYERS = 2
_FEED_FORWARD = 128
_SPECIALS = 3 + 256  # <unk>, <s>, </s> and one token a byte
_WORDS = ("the", "a", "one", "two", "three", "hello", "world", "cat", "dog", "tree", "river", "stone", "light", "word")
_NORMAL, _UNKNOWN, _CONTROL, _BYTE = 1, 2, 3, 6  # llama.cpp's token types


def vocabulary() -> tuple[list[str], list[float], list[int]]:
    """SentencePiece-like: specials, all 256 bytes, printable characters, some words: (pieces, scores, types)."""
    pieces = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    kinds = [_UNKNOWN, _CONTROL, _CONTROL, *[_BYTE] * 256]
    characters = ["▁", *(chr(code) for code in range(33, 127))]
    # Longer pieces need all their prefixes, since pairs are merged step by step.
    longer = {f"▁{word}"[:length]: None for word in _WORDS for length in range(2, len(word) + 2)}
    pieces += [*characters, *longer]
    kinds += [_NORMAL] * (len(characters) + len(longer))
    scores = [0.0] * _SPECIALS + [-float(rank) for rank in range(len(characters) + len(longer))]
    return pieces, scores, kinds


def write_tiny_gguf(path: Path, seed: int = 0, context: int = 2048) -> Path:
    """Writes the model (the same bytes for the same seed) and returns its path."""
    import gguf
    import numpy as np

    random = np.random.default_rng(seed)
    pieces, scores, kinds = vocabulary()
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_name("tiny")
    writer.add_context_length(context)
    writer.add_embedding_length(_EMBEDDING)
    writer.add_block_count(_LAYERS)
    writer.add_feed_forward_length(_FEED_FORWARD)
    writer.add_head_count(_HEADS)
    writer.add_head_count_kv(_HEADS)
    writer.add_rope_dimension_count(_EMBEDDING // _HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(len(pieces))
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)
    writer.add_tokenizer_model("llama")
    writer.add_token_list(pieces)
    writer.add_token_scores(scores)
    writer.add_token_types(kinds)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
    writer.add_add_bos_token(True)
    writer.add_chat_template(
        "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"
        "{% if add_generation_prompt %}assistant:{% endif %}"
    )

    def matrix(name: str, rows: int, columns: int, silent: int = 0) -> None:
        values = (random.standard_normal((rows, columns)) / columns**0.5).astype(np.float32)
        values[:silent] = 0
        writer.add_tensor(name, values)

    def ones(name: str) -> None:
        writer.add_tensor(name, np.ones(_EMBEDDING, dtype=np.float32))

    matrix("token_embd.weight", len(pieces), _EMBEDDING)
    for layer in range(_LAYERS):
        block = f"blk.{layer}"
        ones(f"{block}.attn_norm.weight")
        for part in ("q", "k", "v", "output"):
            matrix(f"{block}.attn_{part}.weight", _EMBEDDING, _EMBEDDING)
        ones(f"{block}.ffn_norm.weight")
        matrix(f"{block}.ffn_gate.weight", _FEED_FORWARD, _EMBEDDING)
        matrix(f"{block}.ffn_up.weight", _FEED_FORWARD, _EMBEDDING)
        matrix(f"{block}.ffn_down.weight", _EMBEDDING, _FEED_FORWARD)
    ones("output_norm.weight")
    # Logits of zero: greedy decoding takes neither the end token nor single bytes, so every token is readable text.
    matrix("output.weight", len(pieces), _EMBEDDING, silent=_SPECIALS)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path
