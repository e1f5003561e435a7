"""Secrets at rest: keys and passwords are encrypted with a key that is not in the database."""

from __future__ import annotations

import base64
import hashlib
import os
from pathlib import Path
from urllib.parse import quote

from cryptography.fernet import Fernet, InvalidToken

from regente.engine.errors import RegenteError

KEY_FILE = "secret.key"
BLOT = "•••"
SHORTEST_BLOTTED = 4  # a shorter one is part of many a word


class SecretsUnreadable(RegenteError):
    """The key at hand is not the one that the secrets were encrypted with."""

    code = "SECRETS_UNREADABLE"


class Secrets:
    def __init__(self, key: bytes) -> None:
        self._fernet = Fernet(key)
        self._spoken: set[str] = set()

    @classmethod
    def of(cls, secret_key: str | None, folder: Path) -> Secrets:
        """From the given passphrase, or from the key file in the folder, which is made when there
        is none."""
        if secret_key:
            digest = hashlib.scrypt(
                secret_key.encode(), salt=b"regente", n=2**14, r=8, p=1, dklen=32
            )
            return cls(base64.urlsafe_b64encode(digest))
        return cls(_key_file(folder / KEY_FILE))

    def encrypt(self, text: str) -> str:
        return self._fernet.encrypt(text.encode()).decode()

    def decrypt(self, token: str) -> str:
        try:
            text = self._fernet.decrypt(token.encode()).decode()
        except InvalidToken:
            raise SecretsUnreadable(
                "a stored secret cannot be decrypted: set REGENTE_SECRET_KEY to the key "
                "that it was stored with "
                f"(or bring the file {KEY_FILE} of that machine), or enter the secret anew"
            ) from None
        if len(text) >= SHORTEST_BLOTTED:
            self._spoken.update((text, quote(text, safe="")))
        return text

    def blot(self, text: str) -> str:
        """Without any secret that this process has used: those whom they are told may
        repeat them."""
        for secret in self._spoken:
            if secret in text:
                text = text.replace(secret, BLOT)
        return text


def _key_file(path: Path) -> bytes:
    """Of two processes that make it at once, one does and both read the same."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists():
        fresh = path.with_name(f"{path.name}.{os.getpid()}")
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(Fernet.generate_key())
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(fresh, path)
        except FileExistsError:
            pass
        finally:
            fresh.unlink()
    return path.read_bytes().strip()
