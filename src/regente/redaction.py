"""Hides secrets in arguments, results, errors, events and log lines, by name and by shape."""

from __future__ import annotations

import re
from typing import Any

HIDDEN = "•••"

_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_SECRET_WORDS = frozenset(
    {
        "auth",
        "authorization",
        "bearer",
        "cookie",
        "cred",
        "credential",
        "csrf",
        "xsrf",
        "jwt",
        "otp",
        "pass",
        "passcode",
        "passe",
        "passphrase",
        "passwort",
        "pwd",
        "segredo",
        "senha",
        "sessionid",
    }
)
_SECRET_ENDS = (
    "apikey",
    "accesskey",
    "accesskeyid",
    "passkey",
    "dbpass",
    "secretkey",
    "privatekey",
    "passwd",
    "password",
    "secret",
    "token",
)
"""A word may be written together with the one before: `PGPASSWORD`, `clientsecret`."""
_KEY_OWNERS = frozenset(
    {
        *("access", "account", "api", "auth", "client", "decryption", "deploy", "encryption"),
        *("hmac", "master", "private", "secret", "shared", "signing", "ssh", "webhook"),
        *("app", "application", "licence", "license", "recovery", "service", "session", "ssl"),
        *("subscription", "tls", "anthropic", "azure", "openai", "stripe", "privada", "secreta"),
    }
)
"""`key` is a secret after one of these words: `x-api-key`, `aws_secret_access_key`."""
_QUALIFIERS = frozenset(
    {
        *("key", "id", "value", "string", "text", "header", "hash", "list"),
        *("api", "acesso", "access", "old", "new", "base", "pem", "word", "de"),
        *("privada", "secreta"),
    }
)
"""`access_key_id`, `secretValue`: the words before one of these decide."""
_LABELS = ("name", "key", "header", "field", "k")
_VALUES = frozenset({"value", "val", "v", "default", "content"})
"""`{"name": "password", "value": …}` holds a secret, too."""

_SHAPES = re.compile(
    r"""
      -----BEGIN[ A-Z]{0,40}PRIVATE\ KEY(?:\ BLOCK)?-----
      (?:(?!-----END)[\s\S]){0,20000}(?:-----END[ A-Z]{0,40}-----)?
    | (?<![\w-])eyJ[\w-]{8,}\.[\w-]*\.[\w-]*(?:\.[\w-]*){0,2}         # JSON web token
    | (?<![\w-])(?:sk|pk|rk|whsec|pypi|xapp)[-_][\w-]{16,}         # OpenAI, Anthropic, Stripe ...
    | (?<![\w-])sk[-_](?:(?:ant|live|or|proj|svcacct|test)[-_][\w-]{3,}
                        |(?=[\w-]{0,40}[0-9])[\w-]{8,})
    | (?<![\w-])(?:npm|hf|shp(?:at|ss|pa|ca)|do[por]_v1|glsa|gsk|r8|dckr_pat|lin_api|figd)_\w{20,}
    | (?<![\w-])(?:xai|nvapi|PMAK)-[\w-]{20,} | (?<![\w-])hvs\.[\w-]{20,}
    | \bdapi[0-9a-f]{32}\b | AGE-SECRET-KEY-1[0-9A-Z]{20,80}
    | (?<![0-9A-Z])(?:AKIA|ASIA)[0-9A-Z]{16}(?![0-9A-Z])       # AWS
    | (?<![\w-])AIza[\w-]{35} | (?<![\w-])(?:ya29\.|GOCSPX-)[\w-]{16,}  # Google
    | (?<![A-Za-z0-9])gh[pousr]_[A-Za-z0-9]{20,} | \bgithub_pat_\w{20,}
    | (?<![\w-])glpat-[\w-]{20,}
    | (?<![\w-])(?:xoxe\.)?xox[a-z]-[\w-]{10,} | (?<=hooks\.slack\.com/services/)[\w/]{20,}
    | (?<![\w-])SG\.[\w-]{16,}\.[\w-]{16,}                             # SendGrid
    | (?<![\w-])rg_[\w-]{43}                                           # our own API keys
    | (?i:(?<=\bbearer\ )|(?<=\bbasic\ ))[\w.~+/=-]{8,}
    | (?<=://)[^\s/@:]{0,200}:[^\s@]{1,200}(?=@)               # user and password in a URL
    | (?<=://)[^\s/@:]{16,200}(?=@)
    """,
    re.VERBOSE,
)

_SHAPE_HINTS = (
    *("-----begin", "eyj", "sk-", "sk_", "pk-", "pk_", "rk-", "rk_", "whsec", "pypi-", "xapp-"),
    *("npm_", "hf_", "shp", "_v1_", "glsa_", "akia", "asia", "aiza", "ya29.", "gh", "glpat-"),
    *("gsk_", "r8_", "dckr_pat_", "lin_api_", "figd_", "xai-", "nvapi-", "pmak-", "hvs.", "dapi"),
    *("age-secret-key-", "gocspx-"),
    *("xox", "slack", "sg.", "rg_", "bearer ", "basic ", "://"),
)
"""One of them is in each shape: most texts have none, and are not searched any further."""

_ASSIGNED = re.compile(
    r"""
    (?P<name>
      (?:pass(?:word|wd|phrase|code)|pwd|senha|segredo|secret|token|credential
         |bearer(?==)|api[-_\ ]?key
         |(?:access|account|secret|private|signing|encryption|master)[-_]?key)
      (?:s|_?\d{1,3}|[-_]?(?:hash|value|id))? \\?["']? \s{0,4}
      (?:=|(?<!token):|:(?=\s{0,4}(?:\\?["']|[^\s"']{0,60}\d))) \s{0,4}
    | --[\w-]{0,40}(?:password|token|secret|key)\s{1,4}
    | (?:authorization|cookie|x-[\w-]{0,20}(?:key|token)):\s{0,4}(?:(?:bearer|basic|token)\s)?+
    )
    (?!•)
    (?:\\?"[^"\\]{1,2000}\\?" | \\?'[^'\\]{1,2000}\\?'
      | (?<==)[^\s"'\\&,;<>()\[\]{}]{1,2000} | (?<=cookie:\ )[^\r\n"'\\]{1,4000}
      | [^\s"'\\&,;<>()\[\]{}]{4,2000})
    """,
    re.VERBOSE | re.IGNORECASE,
)
"""Secrets after their names in a text: a query, a header, options, JSON in an error message."""
_NAME_HINTS = (
    *("pass", "pwd", "senha", "segredo", "secret", "token", "credential", "key"),
    *("authorization", "bearer", "cookie"),
)


def redacted(value: Any) -> Any:
    """The value with its secrets hidden; any JSON."""
    if isinstance(value, dict):
        return {_shown(name): _field(name, content, value) for name, content in value.items()}
    if isinstance(value, list | tuple):
        if len(value) == 2 and isinstance(value[0], str) and _names_secret(value[0], value[1]):
            return [value[0], HIDDEN]  # a header as a pair
        return [redacted(one) for one in value]
    return redacted_text(value) if isinstance(value, str) else value


def redacted_text(text: str) -> str:
    """The text with what looks like a key or a password hidden."""
    lower = text.lower()
    if any(hint in lower for hint in _SHAPE_HINTS):
        text = _SHAPES.sub(HIDDEN, text)
    if any(hint in lower for hint in _NAME_HINTS):
        text = _ASSIGNED.sub(lambda one: one["name"] + HIDDEN, text)
    return text


def _shown(name: Any) -> Any:
    return redacted_text(name) if isinstance(name, str) else name


def _field(name: Any, content: Any, around: dict[Any, Any]) -> Any:
    if not isinstance(name, str):
        return redacted(content)
    labels = [name]
    if name.lower() in _VALUES:
        labels += [one for key, one in around.items() if str(key).lower() in _LABELS]
    secret = any(isinstance(one, str) and _names_secret(one, content) for one in labels)
    return HIDDEN if secret else redacted(content)


def _names_secret(name: str, content: Any) -> bool:
    if content is None or isinstance(content, bool) or content in ("", [], {}):
        return False
    words = [word.lower() for word in _WORDS.findall(name[:200])]
    if words[-1:] == ["tokens"] and isinstance(content, int | float):
        return False  # how many of a model's tokens were used
    owned = not _KEY_OWNERS.isdisjoint(words)
    while words:
        word = words.pop()
        if word.removesuffix("s") in _SECRET_WORDS or word in _SECRET_WORDS:
            return True
        if word.endswith(_SECRET_ENDS) or word.removesuffix("s").endswith(_SECRET_ENDS):
            return True
        if word in ("key", "keys", "chave") and owned:
            return True
        if word not in _QUALIFIERS and not word.isdigit():
            return False
    return False
