"""The local embedders, which need no key."""

from __future__ import annotations

import math
import subprocess
import sys

import pytest

from regente.engine.errors import InvalidInput
from regente.http_client.client import HttpClient
from regente.pipelines.embeddings import wordllama
from regente.pipelines.embeddings.contents import content_of
from regente.pipelines.embeddings.embedders import Embedders, checked_model, default_model
from regente.pipelines.embeddings.hashing import hashed
from regente.pipelines.embeddings.settings import EmbeddingSettings
from regente.pipelines.embeddings.vectors import Vector, check_vectors, norm_of
from regente.pipelines.embeddings.wordllama import WordLlamaEmbedder


def cosine(first: Vector, second: Vector) -> float:
    return math.fsum(a * b for a, b in zip(first, second, strict=True)) / (
        norm_of(first) * norm_of(second)
    )


def test_hashing_knows_shared_words_and_parts_of_words() -> None:
    text = hashed("a comfortable office chair")
    assert cosine(text, hashed("comfortable chairs for the office")) > 0.6
    assert cosine(text, hashed("the price of coffee in Santos")) < 0.3
    assert cosine(hashed("Ação e emoção"), hashed("ACAO E EMOCAO")) == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize("text", ["a", "!!!", "😀", "\u200b", "日本語", "x" * 30_000, "1"])
def test_hashing_has_a_vector_of_length_one_for_every_text(text: str) -> None:
    assert check_vectors([hashed(text)], 256) == 256
    assert norm_of(hashed(text)) == pytest.approx(1.0, abs=1e-5)


GOLDEN = [(0, -0.4222), (17, 0.12666), (29, 0.12666), (63, 0.12666)]


def test_hashing_is_the_same_in_every_process() -> None:
    """The name stands for the algorithm: these values never change."""
    program = (
        "from regente.pipelines.embeddings.hashing import hashed; print(hashed('the same "
        "everywhere').tobytes().hex())"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={"PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
            text=True,
        ).stdout.strip()
        for seed in ("1", "2")
    }
    assert outputs == {hashed("the same everywhere").tobytes().hex()}
    firsts = [
        (place, round(value, 5))
        for place, value in enumerate(hashed("the same everywhere"))
        if value
    ][:4]
    assert firsts == GOLDEN


async def test_wordllama_knows_meaning() -> None:
    """A real model with weights in its package finds similar texts without a shared word."""
    pytest.importorskip("wordllama")
    texts = ["the cat sat on the mat", "a kitten rests upon a rug", "stock markets fell sharply"]
    cat, kitten, stocks = await WordLlamaEmbedder().embed(
        [content_of("wordllama", text) for text in texts]
    )
    assert check_vectors([cat, kitten, stocks], wordllama.DIMENSIONS) == 256
    assert cosine(cat, kitten) > cosine(cat, stocks) + 0.2


def test_the_default_model_is_the_best_available_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a key or an address the API; else the local model if installed; else hashing."""
    assert default_model(EmbeddingSettings(api_key="sk-x")) == "text-embedding-3-small"
    assert (
        default_model(EmbeddingSettings(base_url="http://127.0.0.1:1/v1"))
        == "text-embedding-3-small"
    )
    monkeypatch.setattr(wordllama, "is_installed", lambda: True)
    assert default_model(EmbeddingSettings()) == "wordllama"
    monkeypatch.setattr(wordllama, "is_installed", lambda: False)
    assert default_model(EmbeddingSettings()) == "hashing"
    assert default_model(EmbeddingSettings(model="hashing@64", api_key="sk-x")) == "hashing@64"


async def test_what_cannot_embed_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wordllama, "is_installed", lambda: False)
    http = HttpClient()
    embedders = Embedders(http, EmbeddingSettings())
    with pytest.raises(InvalidInput, match=r"regente\[embeddings\]"):
        embedders.of("wordllama")
    with pytest.raises(InvalidInput, match="REGENTE_EMBEDDINGS_API_KEY"):
        embedders.of("text-embedding-3-small")
    for wrong in ("", "@256", "a model", "hashing@0", "hashing@99999", "x" * 300, "wordllama@64"):
        with pytest.raises(InvalidInput):
            checked_model(wrong or " ", EmbeddingSettings())
    assert checked_model("wordllama@256", EmbeddingSettings()) == "wordllama"
    await http.close()
