"""Encryption of stored keys and passwords, with a key that is not in the database."""

from __future__ import annotations

import base64
import hashlib
import os
from pathlib import Path
from urllib.parse import quote

from cryptography.fernet import Fernet, InvalidToken

from regente.engine.errors import RegenteError

KEY_FILE = "secret.key"
MASK = "•••"
MIN_MASKED_CHARACTERS = 4  # shorter ones occur inside ordinary words


class SecretsUnreadable(RegenteError):
    """The current key is not the one that the secrets were encrypted with."""

    code = "SECRETS_UNREADABLE"


class Secrets:
    def __init__(self, key: bytes) -> None:
        self._fernet = Fernet(key)
        self._decrypted: set[str] = set()

    @classmethod
    def of(cls, secret_key: str | None, folder: Path) -> Secrets:
        """Derive the key from the passphrase, or read the folder's key file (created once)."""
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
                f"(or copy the file {KEY_FILE} from that machine), or enter the secret again"
            ) from None
        if len(text) >= MIN_MASKED_CHARACTERS:
            self._decrypted.update((text, quote(text, safe="")))
        return text

    def mask(self, text: str) -> str:
        """Mask every secret that this process has decrypted: a peer may repeat it in a response."""
        for secret in self._decrypted:
            if secret in text:
                text = text.replace(secret, MASK)
        return text


def _key_file(path: Path) -> bytes:
    """Create the key file or read it; concurrent callers get the same key."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists():
        temporary = path.with_name(f"{path.name}.{os.getpid()}")
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(Fernet.generate_key())
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(temporary, path)
        except FileExistsError:
            pass
        finally:
            temporary.unlink()
    return path.read_bytes().strip()
