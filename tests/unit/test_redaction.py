"""Secrets are hidden by their names and by their shapes, and nothing else is."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from regente.redaction import HIDDEN, redacted, redacted_text

SECRET_NAMES = [
    *("password", "db_password", "dbPassword", "DB_PASSWORD", "passwd", "pwd", "senha"),
    *("api_key", "apiKey", "x-api-key", "X-API-Key", "APIKEY", "openai_api_key", "api-keys"),
    *("secret_key", "secretKey", "aws_secret_access_key", "AWSSecretAccessKey", "private_key"),
    *("accessToken", "access_token", "refreshToken", "token", "id_token", "csrf-token"),
    *("clientSecret", "client_secret", "secret", "secrets", "secretValue", "access_key_id"),
    *("accountKey", "master_key", "clientsecret", "PGPASSWORD", "password1", "password_hash"),
    *(
        "DB_PASS",
        "creds",
        "jwt",
        "otp",
        "auth",
        "sessionid",
        "segredo",
        "chave_api",
        "token_acesso",
    ),
    *("SECRET_KEY_BASE", "pass_word", "dbpass", "passkey", "session_key", "app_key", "xsrf"),
    *("Ocp-Apim-Subscription-Key", "openai_key", "licence_key", "private-key-pem", "accesskeyid"),
    *("chave_privada", "chave_secreta", "token_de_acesso", "palavra_passe"),
    *("Authorization", "proxy-authorization", "cookie", "Set-Cookie", "cookies", "credentials"),
]
PLAIN_NAMES = [
    *("key", "keys", "keyboard", "monkey", "tokenizer", "secretary", "passport", "id", "value"),
    *("app", "session", "application", "service", "base", "word", "de", "session_limit"),
    *("author", "cookie_count", "primary_key", "idempotency_key", "key_id", "name", "text"),
]
SHAPES = [
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U",
    "sk-proj-abcdefghijklmnopqrstuvwx",
    "sk-ant-api03-abcdefghijklmnop",
    "sk_live_abcdefghijklmnop1234",
    "AKIAIOSFODNN7EXAMPLE",
    "AIza" + "a" * 35,
    "ghp_" + "a" * 36,
    "xoxb-1234567890-abcdefgh",
    "rg_" + "A" * 43,
    "eyJhbGciOiJub25lIn0.eyJzdWIiOiIxMjM0NTY3ODkwIn0.",
    "whsec_" + "a1" * 16,
    "npm_" + "a1" * 18,
    "hf_" + "aB" * 16,
    "pypi-" + "AgEIcHlwaS5vcmc" * 3,
    "ya29.a0AfH6SMBabcdefghijkl",
    "SG." + "a" * 22 + "." + "b" * 43,
    "dop_v1_" + "0a" * 32,
    "eyJhbGciOiJIUzI1NiJ9.e30.ZRrHA1JJJW8opsbCGfG",
    "eyJhbGciOiJkaXIifQ..c2FsdA.dGV4dA.dGFn",
    "sk-abc123def456",
    "sk-test-1234567890",
    "sk-ant-secretofmine",
    "GOCSPX-" + "aB3" * 9,
    "gsk_" + "aB3" * 16,
    "xai-" + "aB3" * 16,
    "nvapi-" + "aB3" * 16,
    "r8_" + "aB3" * 12,
    "dckr_pat_" + "aB3" * 9,
    "lin_api_" + "aB3" * 12,
    "figd_" + "aB3" * 12,
    "hvs.CAESI" + "aB3" * 12,
    "dapi" + "0a" * 16,
    "xoxe.xoxp-1-Mi0yLTM4abcd",
    "AGE-SECRET-KEY-1" + "A2" * 20,
]
ASSIGNED = [
    ("https://x.example/a?api_key=", "cana-ry1", "&page=2"),
    ("GET /x?access_token=", "cana-ry1", " HTTP/1.1"),
    ("postgresql://h/db?user=u&password=", "cana-ry1", ""),
    ("host=h user=u password=", "cana-ry1", " dbname=d"),
    ("host=h password=", "'cana ry1'", " dbname=d"),
    ("x-api-key: ", "cana-ry1", ""),
    ("authorization: bearer ", "cana-ry123", ""),
    ("Authorization: Token ", "cana-ry123", ""),
    ("Cookie: ", "session=cana-ry1; a=b", ""),
    ('{"password": ', '"cana-ry1"', ', "user": "ana"}'),
    ('{\\"api_key\\": ', '\\"cana-ry1\\"', "}"),
    ("{'client_secret': ", "'cana-ry1'", "}"),
    ("AWS_SECRET_ACCESS_KEY=", "cana-ry1", " aws s3 ls"),
    ("PGPASSWORD=", "cana-ry1", " psql"),
    ("AccountName=x;AccountKey=", "cana/ry1==", ";EndpointSuffix=core"),
    ("regente --api-key=", "cana-ry1", " --port 80"),
    ("regente --password ", "cana-ry1", " --port 80"),
    ("senha: ", "cana-ry1", ""),
    ("postgresql://h/db?password=", "x1", "&sslmode=require"),
    ("bearer=", "cana-ry1", ""),
    ("api key: ", "cana-ry1", ""),
    ("https://", "cana0123456789ry", "@git.example/x"),
]


@pytest.mark.parametrize("name", SECRET_NAMES)
@pytest.mark.parametrize("held", ["s3cr3t", 12345678, ["s3cr3t"], {"of": "s3cr3t"}, [{"a": "x"}]])
def test_what_is_under_a_secret_name_is_hidden(name: str, held: Any) -> None:
    """O18: as text, number, list or object, at any depth, also as a header's pair."""
    assert redacted({name: held}) == {name: HIDDEN}
    assert redacted([{"headers": {name: held}}]) == [{"headers": {name: HIDDEN}}]
    assert redacted({"headers": [[name, held]]}) == {"headers": [[name, HIDDEN]]}
    assert redacted([{"name": name, "value": held}]) == [{"name": name, "value": HIDDEN}]
    assert redacted({"Key": name, "Value": held, "n": 1}) == {"Key": name, "Value": HIDDEN, "n": 1}


@pytest.mark.parametrize("name", PLAIN_NAMES)
def test_other_names_are_shown(name: str) -> None:
    for held in ("shown", 7, ["shown"], {"a": "shown"}):
        assert redacted({name: held}) == {name: held}


@pytest.mark.parametrize("held", [None, True, False, "", [], {}])
def test_an_absent_secret_is_shown_as_absent(held: Any) -> None:
    assert redacted({"api_key": held}) == {"api_key": held}


def test_counts_of_tokens_are_no_secret() -> None:
    usage = {"prompt_tokens": 1200, "maxTokens": 16}
    assert redacted(usage) == usage
    assert redacted({"token": 1200, "tokens": ["a"]}) == {"token": HIDDEN, "tokens": HIDDEN}


@pytest.mark.parametrize("secret", SHAPES)
def test_what_looks_like_a_key_is_hidden_under_any_name(secret: str) -> None:
    """O18: in the midst of a text, too."""
    text = f"calling https://x.example with {secret}, then more"
    assert redacted_text(text) == f"calling https://x.example with {HIDDEN}, then more"
    assert secret not in json.dumps(redacted({"note": text, "list": [secret]}))


@pytest.mark.parametrize("secret", ["AKIAIOSFODNN7EXAMPLE", "ghp_" + "a" * 36])
def test_what_looks_like_a_key_is_hidden_behind_other_letters(secret: str) -> None:
    """O18: in a name that was made with it."""
    assert redacted_text(f"key_{secret}") == f"key_{HIDDEN}"


@pytest.mark.parametrize("secret", SHAPES)
def test_what_looks_like_a_key_is_hidden_as_a_name(secret: str) -> None:
    """O18: the name of a field may be a secret, too."""
    assert redacted({secret: 1, "n": [{secret: "x"}]}) == {HIDDEN: 1, "n": [{HIDDEN: "x"}]}


@pytest.mark.parametrize(("before", "secret", "after"), ASSIGNED)
def test_what_follows_a_secret_name_in_a_text_is_hidden(
    before: str, secret: str, after: str
) -> None:
    """O18: queries, headers, options, connection strings, JSON in an error message."""
    assert redacted_text(f"{before}{secret}{after}") == f"{before}{HIDDEN}{after}"
    assert redacted({"message": [f"{before}{secret}{after}"]}) == {
        "message": [f"{before}{HIDDEN}{after}"]
    }


def test_passwords_in_addresses_and_headers_are_hidden() -> None:
    assert (
        redacted_text("postgresql://ana:s3cr3t@db.example:5432/x")
        == f"postgresql://{HIDDEN}@db.example:5432/x"
    )
    assert redacted_text("Authorization: Bearer abcdef123456") == (
        f"Authorization: Bearer {HIDDEN}"
    )
    key = "-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----"
    assert redacted_text(f"a {key} b") == f"a {HIDDEN} b"


@pytest.mark.parametrize(
    "text",
    [
        "https://shop.example/a:b/c@d",
        "see https://shop.example/products/1234 at 14:03",
        "task sk-12 of desk-top",
        "the sk-learners of sk-estimators, gsk_ and xai- and dapi",
        "Basic needs",
        "eyJ is how it begins",
        "invalid token: unexpected end of the document",
        "the tokenizer: bpe, the secretary: Ana, max_tokens: 16, key: mission-7",
        "the cookie banner of a shop, and a password that is missing",
    ],
)
def test_plain_texts_are_shown(text: str) -> None:
    assert redacted_text(text) == text


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(alphabet="abc xyz"),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(alphabet="abc"), inner),
        max_leaves=20,
    )
)
def test_values_without_secrets_stay_as_they_are(value: Any) -> None:
    assert redacted(value) == value


@pytest.mark.parametrize(
    "start",
    [
        "eyJ",
        "sk-",
        "-eyJ-",
        "-sk-",
        "-xoxa-",
        ".eyJaaaaaaaa.",
        "://a:",
        "://",
        "Bearer ",
        "-----BEGIN PRIVATE KEY-----",
        "a.eyJa",
        "x:",
        "sk-ant-",
        "AKIA",
        "ghp_",
        "AGE-SECRET-KEY-1",
        "xoxe.",
        "hvs.",
        "AK",
        "password",
        "--key",
        "cookie: ",
        'token "',
    ],
)
def test_hostile_texts_take_linear_time(start: str) -> None:
    """A megabyte of beginnings; in quadratic time it would take hours."""
    began = time.thread_time()
    redacted_text(start * (2**20 // len(start)))
    redacted_text(start + "a" * 2**20)
    redacted_text(start + "a." * 2**19)
    assert time.thread_time() - began < 5.0
