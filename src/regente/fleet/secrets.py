"""Encryption of stored keys and passwords, with keys that are not in the database.

A stored secret names the key that it was encrypted with, so that several keys can be in use while
one replaces the other: the first encrypts, all of them decrypt. What is written in SQL is sealed by
the database, which knows the public half of a key alone.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import fcntl
import hashlib
import os
import re
import threading
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from urllib.parse import quote

from cryptography.exceptions import InvalidSignature, InvalidTag
from cryptography.fernet import Fernet, InvalidToken
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.hmac import HMAC
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from regente.engine.errors import InvalidInput, RegenteError

KEY_FILE = "secret.key"
MASK = "•••"
MIN_MASKED_CHARACTERS = 4  # shorter ones occur inside ordinary words
MIN_PASSPHRASE_CHARACTERS = 16
MIN_DIFFERENT_CHARACTERS = 6
MIN_UNCOMMON_CHARACTERS = 10
_COMMON = re.compile(
    r"pass(?:word|wd|phrase)|senha|secret|segredo|chave|regente|admin|letmein|welcome|default|"
    r"change[-_ ]?(?:me|this|it)|example|test|qwerty(?:uiop)?|asdfgh(?:jkl)?|key|"
    r"0?123456789?0?|1234"
)
"""What is tried first."""

_FORM = "rg2"  # AES-256-GCM; secrets stored before it are Fernet tokens
_SEALED = "rgs"  # by the database, see `regente.seal` in the missions' migrations
_NONCE_BYTES = 12
_BLOCK_BYTES = 32


class SecretsUnreadable(RegenteError):
    """No current key is the one that the secrets were encrypted with."""

    code = "SECRETS_UNREADABLE"


@dataclass(frozen=True, slots=True)
class SecretKey:
    id: str
    cipher: AESGCM = field(repr=False)
    former: Fernet = field(repr=False)
    """Reads what earlier versions stored under the same passphrase or file."""
    unsealing: X25519PrivateKey = field(repr=False)
    """Opens what the database has sealed for its public half."""

    @classmethod
    def of_passphrase(cls, text: str) -> SecretKey:
        if is_weak(text):
            raise InvalidInput(
                f"REGENTE_SECRET_KEY is too weak: at least {MIN_PASSPHRASE_CHARACTERS} characters, "
                "without repetitions, sequences and common words; `openssl rand -base64 32` "
                "makes one"
            )
        former = hashlib.scrypt(text.encode(), salt=b"regente", n=2**14, r=8, p=1, dklen=32)
        return cls._of(former, base64.urlsafe_b64encode(former))

    @classmethod
    def of_line(cls, line: bytes) -> SecretKey:
        """A key of the key file."""
        return cls._of(base64.urlsafe_b64decode(line), line)

    @classmethod
    def _of(cls, material: bytes, former: bytes) -> SecretKey:
        derived = hashlib.blake2b(material, digest_size=64, person=b"regente secrets").digest()
        unsealing = hashlib.blake2b(material, digest_size=32, person=b"regente sealing").digest()
        return cls(
            derived[32:36].hex(),
            AESGCM(derived[:32]),
            Fernet(former),
            X25519PrivateKey.from_private_bytes(unsealing),
        )

    def unsealed(self, sealed: bytes) -> str:
        """X25519, HKDF and HMAC, with SHA-256; a key stream of the text's length."""
        own, tag, data = (
            sealed[:_BLOCK_BYTES],
            sealed[_BLOCK_BYTES : 2 * _BLOCK_BYTES],
            sealed[2 * _BLOCK_BYTES :],
        )
        shared = self.unsealing.exchange(X25519PublicKey.from_public_bytes(own))
        salt = own + self.unsealing.public_key().public_bytes_raw()
        derive = HKDF(SHA256(), _BLOCK_BYTES + len(data), salt, b"regente sealed secret")
        stream = derive.derive(shared)
        check = HMAC(stream[:_BLOCK_BYTES], SHA256())
        check.update(data)
        check.verify(tag)
        return bytes(a ^ b for a, b in zip(data, stream[_BLOCK_BYTES:], strict=True)).decode()


class Secrets:
    def __init__(self, load: Callable[[], Sequence[SecretKey]], *, named: bool = False) -> None:
        self.named = named
        """Whether the keys were given by name, and not made for a folder."""
        self._load = load
        self._keys = load()
        self._decrypted: set[str] = set()

    @classmethod
    def of(cls, secret_key: str | None, folder: Path, former: str | None = None) -> Secrets:
        """The keys of the passphrases, or of the folder's key file, which is created once."""
        if not secret_key:
            return cls(KeyFile(folder / KEY_FILE).load)
        keys = [SecretKey.of_passphrase(text) for text in (secret_key, former) if text]
        return cls(lambda: keys, named=True)

    @property
    def key_id(self) -> str:
        """The key that encrypts."""
        return self._keys[0].id

    @property
    def key_ids(self) -> list[str]:
        """The keys that decrypt."""
        return [key.id for key in self._keys]

    @property
    def sealing_key(self) -> str:
        """The public half, in hex, for which the database seals secrets."""
        return self._keys[0].unsealing.public_key().public_bytes_raw().hex()

    def reload(self) -> None:
        self._keys = self._load()

    def encrypt(self, text: str) -> str:
        """With the newest key, which another process may have added to the key file."""
        self.reload()
        key = self._keys[0]
        nonce = os.urandom(_NONCE_BYTES)
        sealed = nonce + key.cipher.encrypt(nonce, text.encode(), key.id.encode())
        return f"{_FORM}.{key.id}.{base64.urlsafe_b64encode(sealed).decode()}"

    def is_current(self, token: str) -> bool:
        return token.startswith(f"{_FORM}.{self.key_id}.")

    def decrypt(self, token: str) -> str:
        text = self._opened(token)
        if text is None:
            self.reload()  # another process may have added a key
            text = self._opened(token)
        if text is None:
            raise SecretsUnreadable(
                "a stored secret cannot be decrypted: set REGENTE_SECRET_KEY to the key "
                "that it was stored with "
                f"(or copy the file {KEY_FILE} from that machine), or enter the secret again"
            )
        if len(text) >= MIN_MASKED_CHARACTERS:
            self._decrypted.update((text, quote(text, safe="")))
        return text

    def _opened(self, token: str) -> str | None:
        form, _, rest = token.partition(".")
        for key in self._keys:
            try:
                if form not in (_FORM, _SEALED):
                    return key.former.decrypt(token.encode()).decode()
                key_id, _, encoded = rest.partition(".")
                if key_id != key.id:
                    continue
                given = base64.urlsafe_b64decode(encoded)
                if form == _SEALED:
                    return key.unsealed(given)
                nonce, data = given[:_NONCE_BYTES], given[_NONCE_BYTES:]
                return key.cipher.decrypt(nonce, data, key.id.encode()).decode()
            except (InvalidToken, InvalidTag, InvalidSignature, binascii.Error, ValueError):
                continue
        return None

    def mask(self, text: str) -> str:
        """Mask every secret that this process has decrypted: a peer may repeat it in a response."""
        for secret in self._decrypted:
            if secret in text:
                text = text.replace(secret, MASK)
        return text


def is_weak(text: str) -> bool:
    lower = text.lower()
    rest = _COMMON.sub("", lower)
    steps = [ord(after) - ord(before) for before, after in pairwise(lower)]
    return (
        len(text) < MIN_PASSPHRASE_CHARACTERS
        or len(rest) < MIN_UNCOMMON_CHARACTERS
        or len(set(lower)) < MIN_DIFFERENT_CHARACTERS
        or sum(abs(step) <= 1 for step in steps) > len(steps) / 2
        or _is_repetition(lower)
    )


def _is_repetition(text: str) -> bool:
    return any(
        all(sign == text[place % period] for place, sign in enumerate(text))
        for period in range(1, len(text) // 2 + 1)
    )


class KeyFile:
    """The keys of a file, read again when it was replaced. This process remembers those that were
    removed: what it stored under them at that moment can still be encrypted again."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._state: tuple[int, int] | None = None
        self._keys: list[SecretKey] = []

    def load(self) -> Sequence[SecretKey]:
        state = _state_of(self._path)
        if state is None or self._state != state:
            keys = [SecretKey.of_line(line) for line in _lines(self._path)]
            found = {key.id for key in keys}
            self._keys = keys + [key for key in self._keys if key.id not in found]
            self._state = state
        return self._keys


def _state_of(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_mtime_ns


def add_key(folder: Path) -> None:
    """Put a new key before those of the key file: it encrypts from now on."""
    with _locked(folder) as path:
        _write(path, [Fernet.generate_key(), *_lines(path)])


def keep_first_key(folder: Path) -> None:
    """Remove all keys of the file but the one that encrypts."""
    with _locked(folder) as path:
        _write(path, _lines(path)[:1])


@contextlib.contextmanager
def _locked(folder: Path) -> Generator[Path]:
    """The path of the key file, which one caller at a time may replace."""
    folder.mkdir(parents=True, exist_ok=True)
    lock = os.open(folder / f"{KEY_FILE}.lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield folder / KEY_FILE
    finally:
        os.close(lock)


def _lines(path: Path) -> list[bytes]:
    """The keys of the file, which concurrent callers create once."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists():
        temporary = _write_beside(path, [Fernet.generate_key()])
        try:
            os.link(temporary, path)
        except FileExistsError:
            pass
        finally:
            temporary.unlink()
    return path.read_bytes().split()


def _write(path: Path, lines: Sequence[bytes]) -> None:
    _write_beside(path, lines).replace(path)


def _write_beside(path: Path, lines: Sequence[bytes]) -> Path:
    temporary = path.with_name(f"{path.name}.{os.getpid()}.{threading.get_ident()}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(b"\n".join(lines) + b"\n")
        file.flush()
        os.fsync(file.fileno())
    return temporary
