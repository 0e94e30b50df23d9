"""Copies of a GGUF file, read back with the reference reader."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bakeoff.demo.convert import Q4_0_BLOCKS, Q8_0, convert
from bakeoff.demo.layout import read_layout
from bakeoff.errors import BakeoffError

from .tiny import TOKENS, metadata, types, values, write_tiny


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "source.gguf"
    write_tiny(path)
    return path


def test_every_matrix_becomes_q8_0_and_vectors_stay_f32(source: Path, tmp_path: Path) -> None:
    convert(source, tmp_path / "copy.gguf", Q8_0)
    assert types(tmp_path / "copy.gguf") == {
        "token_embd.weight": "Q8_0",
        "blk.0.attn_q.weight": "Q8_0",
        "blk.0.attn_norm.weight": "F32",
        "blk.1.ffn_up.weight": "Q8_0",
        "blk.1.ffn_down.weight": "Q8_0",
        "output_norm.weight": "F32",
    }


def test_only_block_matrices_become_q4_0(source: Path, tmp_path: Path) -> None:
    convert(source, tmp_path / "copy.gguf", Q4_0_BLOCKS)
    assert types(tmp_path / "copy.gguf") == {
        "token_embd.weight": "Q8_0",
        "blk.0.attn_q.weight": "Q4_0",
        "blk.0.attn_norm.weight": "F32",
        "blk.1.ffn_up.weight": "Q4_0",
        "blk.1.ffn_down.weight": "Q4_0",
        "output_norm.weight": "F32",
    }


@pytest.mark.parametrize(("form", "steps"), [(Q8_0, 127), (Q4_0_BLOCKS, 7)])
def test_values_stay_near_and_the_embedding_is_the_same_in_both(
    source: Path, tmp_path: Path, form: object, steps: int
) -> None:
    copy = tmp_path / "copy.gguf"
    convert(source, copy, form)  # type: ignore[arg-type]  # a Format; parametrize takes objects
    before, after = values(source), values(copy)
    assert list(before) == list(after)
    for name, old in before.items():
        new = after[name]
        assert new.shape == old.shape
        if name == "token_embd.weight" or old.ndim == 1:
            np.testing.assert_array_equal(new, old)
        else:
            # Half a step of the largest value of a block of 32, twice that at the far end of Q4_0's uneven range.
            limit = np.abs(old.reshape(-1, 32)).max(axis=1, keepdims=True) / steps
            assert (np.abs(new - old).reshape(-1, 32) <= limit * 1.05).all()


@pytest.mark.parametrize("alignment", [32, 128])
def test_metadata_is_kept_but_for_the_file_type(tmp_path: Path, alignment: int) -> None:
    source, copy = tmp_path / "source.gguf", tmp_path / "copy.gguf"
    write_tiny(source, alignment=alignment)
    convert(source, copy, Q8_0)
    before, after = metadata(source), metadata(copy)
    assert before["general.file_type"][1] == 15
    assert after.pop("general.file_type")[1] == 7
    del before["general.file_type"]
    assert list(after.items()) == list(before.items())
    assert after["tokenizer.ggml.tokens"][1] == TOKENS
    layout = read_layout(copy)
    assert layout.alignment == alignment
    assert layout.data_start % alignment == 0
    assert all(tensor.offset % alignment == 0 for tensor in layout.tensors)


def test_a_file_type_is_added_where_there_is_none(tmp_path: Path) -> None:
    source, copy = tmp_path / "source.gguf", tmp_path / "copy.gguf"
    write_tiny(source, file_type=False)
    convert(source, copy, Q4_0_BLOCKS)
    assert metadata(copy)["general.file_type"][1] == 2
    assert len(metadata(copy)) == len(metadata(source)) + 1


def test_slices_give_the_same_file_as_the_whole(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    convert(source, tmp_path / "whole.gguf", Q4_0_BLOCKS)
    shares: list[float] = []
    monkeypatch.setattr("bakeoff.demo.convert._SLICE", 64 * 7)
    convert(source, tmp_path / "sliced.gguf", Q4_0_BLOCKS, shares.append)
    assert (tmp_path / "sliced.gguf").read_bytes() == (tmp_path / "whole.gguf").read_bytes()
    assert len(shares) > 20
    assert shares == sorted(shares)
    assert shares[-1] == 1.0


def test_a_copy_of_a_copy_is_the_same(source: Path, tmp_path: Path) -> None:
    convert(source, tmp_path / "one.gguf", Q8_0)
    convert(tmp_path / "one.gguf", tmp_path / "two.gguf", Q8_0)
    assert (tmp_path / "one.gguf").read_bytes() == (tmp_path / "two.gguf").read_bytes()


def test_a_cut_file_is_refused(source: Path, tmp_path: Path) -> None:
    cut = tmp_path / "cut.gguf"
    cut.write_bytes(source.read_bytes()[:-500])
    with pytest.raises(BakeoffError, match="the file ends inside"):
        convert(cut, tmp_path / "copy.gguf", Q8_0)


def test_an_empty_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty.gguf").touch()
    with pytest.raises(BakeoffError, match="no GGUF file"):
        read_layout(tmp_path / "empty.gguf")


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_damaged_headers_are_refused_or_read_never_worse(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.getbasetemp()
    source = folder / "damage-source.gguf"
    if not source.exists():
        write_tiny(source)
    good = source.read_bytes()
    head = read_layout(source).data_start
    position = data.draw(st.integers(0, head - 1))
    bad = bytearray(good)
    bad[position] = data.draw(st.integers(0, 255))
    end = data.draw(st.sampled_from([len(good), position + 1]))
    path = folder / "damaged.gguf"
    path.write_bytes(bad[:end])
    try:
        layout = read_layout(path)
    except BakeoffError as error:
        assert "no GGUF file that can be copied" in error.message  # noqa: PT017 - either outcome is right
    else:
        assert layout.pairs < 100
