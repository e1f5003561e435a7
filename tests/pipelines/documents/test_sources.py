"""Files: only regular ones, only inside the folder; secrets stay hidden."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from regente import Fatal, InvalidInput, Transient
from regente.pipelines.documents.settings import DocumentSettings
from regente.pipelines.documents.sources import NewDocument, checked, documents_in, read_below
from tests.pipelines.documents.environment import Environment


def test_links_pipes_and_hidden_files_are_no_documents(tmp_path: Path) -> None:
    """F15: a pipe would block a thread for ever, a link leads outside."""
    (tmp_path / "a.txt").write_text("x")
    (tmp_path / ".hidden").write_text("x")
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "config").write_text("x")
    (tmp_path / "link").symlink_to("/etc/passwd")
    (tmp_path / "folder").symlink_to("/etc")
    os.mkfifo(tmp_path / "pipe")
    assert [one.code for one in documents_in(tmp_path)[1]] == ["a.txt"]
    with pytest.raises(Transient, match="plain file"):
        read_below(str(tmp_path), "pipe", 10)
    with pytest.raises((Transient, Fatal)):
        read_below(str(tmp_path), "link", 10)
    with pytest.raises(Fatal, match="is not in"):
        read_below(str(tmp_path), "../../etc/passwd", 10)
    assert read_below(str(tmp_path), "a.txt", 10) == b"x"


def test_more_than_two_thousand_are_refused(tmp_path: Path) -> None:
    """W9: 2,000 in one execution, and no more."""
    assert len(checked([NewDocument(f"{number}", 1) for number in range(2_000)])) == 2_000
    with pytest.raises(InvalidInput, match="2,001"):
        checked([NewDocument(f"{number}", 1) for number in range(2_001)])
    with pytest.raises(InvalidInput, match="is not a document's name"):
        checked([NewDocument("\udcff", 1)])


def test_the_key_is_shown_nowhere() -> None:
    """No repr has a secret, and repeated ones are masked."""
    settings = DocumentSettings(api_key="sk-or-canary")
    assert "canary" not in repr(settings)
    assert settings.mask("Bearer sk-or-canary is wrong") == "Bearer *** is wrong"
    assert settings.chat_url("http://sandbox") == "https://openrouter.ai/api/v1"
    assert DocumentSettings().chat_url("http://sandbox/") == "http://sandbox/openrouter/api/v1"
    assert (
        DocumentSettings(api_url="http://local/v1/").chat_url("http://sandbox") == "http://local/v1"
    )


async def test_a_task_without_a_document_row_is_refused(env: Environment) -> None:
    """The right to queue tasks does not allow to read the server's files."""
    task_id = await env.app.enqueue("documents", {"codigo": "/etc/passwd"})
    await env.app.run(until_idle=True)
    task = await env.app.get(task_id)
    assert (task.status, task.error_code) == ("failed", "NO_DOCUMENT")
