"""Section 3: the tables, columns, types and defaults under the document's names."""

from __future__ import annotations

import psycopg
import pytest

from tests.contract.scraping_orchestrator.conftest import Sql

COLUMNS = {
    "missions": {
        "id": "bigint",  # the document: TEXT
        "date_start": "date",
        "date_end": "date",
        "media_type": "character varying",
        "languages": "ARRAY",
        "status": "mission_status",
        "checkpoint": "checkpoint_type",
        "worker_id": "text",
        "worker_job_id": "character varying",
        "worker_data_url": "text",
        "proxy_used": "character varying",
        "writer_job_id": "character varying",
        "ads_count": "integer",
        "error_code": "character varying",
        "error_message": "text",
        "retry_count": "integer",
        "created_at": "timestamp with time zone",
        "queued_at": "timestamp with time zone",
        "started_at": "timestamp with time zone",
        "finished_at": "timestamp with time zone",
    },
    "workers": {
        "id": "text",
        "name": "character varying",
        "url": "character varying",
        "api_key": "text",  # the document: VARCHAR(200); a sealed key is longer
        "storage_domain": "character varying",
        "status": "worker_status",
        "session_count": "integer",
        "current_mission_id": "bigint",  # the document: TEXT
        "active": "boolean",
        "last_test_at": "timestamp with time zone",
        "last_test_ok": "boolean",
        "created_at": "timestamp with time zone",
        "updated_at": "timestamp with time zone",
    },
    "proxies": {
        "id": "text",
        "name": "text",
        "host": "character varying",
        "port": "integer",
        "username": "character varying",
        "password": "text",  # the document: VARCHAR(100); a sealed password is longer
        "active": "boolean",
        "in_use_by_worker_id": "text",
        "fail_count": "integer",
        "last_used_at": "timestamp with time zone",
        "last_test_at": "timestamp with time zone",
        "last_test_ok": "boolean",
        "created_at": "timestamp with time zone",
    },
    "writers": {
        "id": "text",
        "name": "character varying",
        "url": "character varying",
        "api_key": "text",
        "active": "boolean",
        "last_test_at": "timestamp with time zone",
        "last_test_ok": "boolean",
        "created_at": "timestamp with time zone",
        "updated_at": "timestamp with time zone",
    },
    "mission_logs": {
        "id": "text",
        "mission_id": "bigint",  # the document: TEXT
        "event": "mission_event",
        "details": "jsonb",
        "timestamp": "timestamp with time zone",
    },
}
ENUMS = {
    "mission_status": ["draft", "queued", "running", "completed", "failed", "canceled"],
    "checkpoint_type": ["atribuido", "extracao", "armazenamento", "finalizado"],
    "worker_status": ["idle", "initializing", "ready", "scraping", "error"],
}
TWENTY = [
    "mission_queued",
    "mission_assigned",
    "mission_canceled",
    "session_started",
    "session_ready",
    "session_failed",
    "session_terminated",
    "scrape_started",
    "scrape_progress",
    "scrape_completed",
    "scrape_failed",
    "scrape_empty",
    "writer_started",
    "writer_progress",
    "writer_completed",
    "writer_failed",
    "mission_completed",
    "mission_failed",
    "retry_triggered",
    "proxy_rotated",
]


@pytest.mark.parametrize("table", COLUMNS)
def test_3_2_to_3_6_the_columns_have_the_documents_names_and_types(sql: Sql, table: str) -> None:
    """O1: 3.2 missions, 3.3 workers, 3.4 proxies, 3.5 writers, 3.6 mission_logs."""
    found = {
        row["column_name"]: row["udt_name"]
        if row["data_type"] == "USER-DEFINED"
        else row["data_type"]
        for row in sql(
            "SELECT column_name, data_type, udt_name FROM information_schema.columns "
            "WHERE table_schema = 'regente' AND table_name = %(table)s",
            table=table,
        )
    }
    assert {name: found.get(name) for name in COLUMNS[table]} == COLUMNS[table]


def test_3_2_3_3_3_6_the_types_have_the_documents_values(sql: Sql) -> None:
    """O1: in its order; `draft` is ours, and so are events beyond its twenty."""
    for name, values in ENUMS.items():
        (row,) = sql(f"SELECT enum_range(NULL::{name})::text[] AS values")
        assert row["values"] == values
    (row,) = sql("SELECT enum_range(NULL::mission_event)::text[] AS values")
    assert row["values"][:20] == TWENTY


def test_3_2_a_mission_is_inserted_with_the_documents_defaults(sql: Sql) -> None:
    """O1, O2: `id DEFAULT generate_mission_id()`, `status DEFAULT 'queued'`, `retry_count` 0."""
    (row,) = sql(
        "INSERT INTO missions (date_start, date_end, media_type, languages) "
        "VALUES ('2025-01-15', '2025-01-15', 'video', ARRAY['pt']) RETURNING *"
    )
    assert row["id"] > 0
    assert (row["status"], row["retry_count"]) == ("queued", 0)
    assert row["created_at"] is not None
    assert [row[name] for name in ("worker_id", "ads_count", "error_code", "finished_at")] == [
        None
    ] * 4


@pytest.mark.parametrize("media_type", ["all", "video", "image"])
def test_3_2_media_type_is_one_of_three(sql: Sql, media_type: str) -> None:
    """O2: `CHECK (media_type IN ('all', 'video', 'image'))`."""
    insert = (
        (
            "INSERT INTO missions (date_start, date_end, media_type, languages) "
            "VALUES ('2025-01-15', '2025-01-15', %(media_type)s, '{{pt}}') RETURNING media_type"
        )
        .replace("{{", "{")
        .replace("}}", "}")
    )
    assert sql(insert, media_type=media_type) == [{"media_type": media_type}]
    with pytest.raises(psycopg.errors.CheckViolation):
        sql(insert, media_type="audio")


@pytest.mark.parametrize("name", ["worker", "proxy", "writer", "mission", "mission_log"])
def test_3_2_to_3_6_ids_are_generated(sql: Sql, name: str) -> None:
    """O1: `generate_*_id()`; no id twice."""
    (row,) = sql(f"SELECT generate_{name}_id() AS one, generate_{name}_id() AS two")
    assert row["one"] != row["two"]


def test_3_3_to_3_5_the_fleet_is_inserted_with_plain_keys(sql: Sql) -> None:
    """O1, O20: the document's columns and defaults; the keys are encrypted before they are
    stored."""
    (worker,) = sql(
        "INSERT INTO workers (name, url, api_key) "
        "VALUES ('w2', 'https://w2.example.com', 'plain') RETURNING *"
    )
    (proxy,) = sql(
        "INSERT INTO proxies (host, port, username, password) "
        "VALUES ('proxy.example.com', 8080, 'user', 'plain') RETURNING *"
    )
    (writer,) = sql(
        "INSERT INTO writers (name, url, api_key) "
        "VALUES ('s2', 'https://s2.example.com', 'plain') RETURNING *"
    )
    assert (worker["status"], worker["session_count"], worker["active"]) == ("idle", 0, True)
    assert (proxy["fail_count"], proxy["active"], proxy["in_use_by_worker_id"]) == (0, True, None)
    assert writer["active"] is True
    secrets = [worker["api_key"], proxy["password"], writer["api_key"]]
    assert all(secret.startswith("rgs.") for secret in secrets)
    with pytest.raises(psycopg.errors.UniqueViolation):
        sql("INSERT INTO writers (name, url, api_key) VALUES ('s2', 'https://s.example.com', 'k')")
