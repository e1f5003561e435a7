"""`wordllama`: a small local model (averaged token vectors, 256 dimensions) whose weights come
inside its package.

Installed with `pip install regente[embeddings]`; it never reaches for the network. It knows English
best.
"""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import threading
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from regente.pipelines.embeddings.contents import Content
from regente.pipelines.embeddings.vectors import Vector, vector_of

NAME = "wordllama"
DIMENSIONS = 256
_loading = threading.Lock()


def is_installed() -> bool:
    return importlib.util.find_spec("wordllama") is not None


class WordLlamaEmbedder:
    dimensions = DIMENSIONS

    async def embed(self, contents: Sequence[Content]) -> list[Vector]:
        return await asyncio.to_thread(_embed, [content.text for content in contents])


def _embed(texts: list[str]) -> list[Vector]:
    with _loading:
        model = _model()
    return [vector_of(row) for row in model.embed(texts, norm=True).tolist()]


@cache
def _model() -> Any:
    wordllama: Any = importlib.import_module("wordllama")  # an extra, without types
    # Named as its cache, the package's own folder is where the tokenizer is found beside the
    # weights.
    folder = Path(str(wordllama.__file__)).parent
    return wordllama.WordLlama.load(dim=DIMENSIONS, cache_dir=folder, disable_download=True)
