"""Encrypts the headers of a job's source while the job waits: they carry tokens.

The key is derived from the writer's API key, so that a copy of the database does not contain it.
"""

from __future__ import annotations

import base64
import hashlib
import json
from typing import Any

from cryptography.fernet import Fernet

_FIELD = "encrypted"


class HeaderCipher:
    def __init__(self, api_key: str) -> None:
        derived = hashlib.scrypt(
            api_key.encode(), salt=b"regente writer", n=2**14, r=8, p=1, dklen=64
        )
        self._fernet = Fernet(base64.urlsafe_b64encode(derived[:32]))
        self.key_id = derived[32:48].hex()
        """Names the key without telling it: writers with the same key share their jobs."""

    def encrypt(self, headers: dict[str, str]) -> dict[str, str]:
        if not headers:
            return {}
        return {_FIELD: self._fernet.encrypt(json.dumps(headers).encode()).decode()}

    def decrypt(self, stored: dict[str, Any]) -> dict[str, str]:
        if set(stored) != {_FIELD}:  # none, or of a writer before they were encrypted
            return stored
        found: dict[str, str] = json.loads(self._fernet.decrypt(stored[_FIELD].encode()))
        return found
