-- The doctor's queries. Every statement only reads, works from PostgreSQL 14 on without special
-- privileges, and is its own transaction, so that it works behind a transaction pooler.

-- name: backend_pid
SELECT pg_backend_pid() AS pid;

-- name: server
SELECT current_setting('server_version') AS version,
       current_setting('server_version_num')::int / 10000 AS major,
       current_setting('server_encoding') AS encoding,
       pg_is_in_recovery() AS is_standby,
       current_database() AS database,
       current_user AS role;

-- name: clock
SELECT extract(epoch FROM clock_timestamp())::float8 AS epoch_seconds;

-- name: extensions
SELECT name, default_version, installed_version
FROM pg_available_extensions
WHERE name IN ('vector', 'pg_stat_statements')
ORDER BY name;

-- name: settings
SELECT name, setting, source
FROM pg_settings
WHERE name IN ('fsync', 'full_page_writes', 'synchronous_commit', 'data_checksums', 'autovacuum',
               'track_counts');

-- name: timeouts
SELECT name, setting::bigint AS milliseconds, source
FROM pg_settings
WHERE name IN ('statement_timeout', 'idle_in_transaction_session_timeout', 'transaction_timeout',
               'lock_timeout',
               'idle_session_timeout')
  AND setting::bigint > 0
ORDER BY name;

-- name: connections
SELECT current_setting('max_connections')::int
         - current_setting('superuser_reserved_connections')::int
         - coalesce(current_setting('reserved_connections', true)::int, 0) AS allowed,
       (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend') AS used,
       (SELECT rolconnlimit FROM pg_roles WHERE rolname = current_user) AS role_limit,
       (SELECT count(*) FROM pg_stat_activity WHERE usename = current_user) AS role_used,
       (SELECT datconnlimit FROM pg_database WHERE datname = current_database()) AS database_limit,
       (SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()) AS database_used;

-- name: horizon
-- Everything that keeps VACUUM from removing dead rows, oldest first. Slots have no session and
-- so no start.
SELECT holder, pid, name, state, age_xids, since, extract(epoch
                                                          FROM clock_timestamp() - since)::float8
                                                          AS held_seconds
FROM (
    SELECT 'session' AS holder, pid, coalesce(nullif(application_name, ''), usename::text,
                                              backend_type) AS name, state,
           greatest(age(backend_xmin), age(backend_xid)) AS age_xids,
           coalesce(xact_start, query_start) AS since
    FROM pg_stat_activity
    WHERE (backend_xmin IS NOT NULL OR backend_xid IS NOT NULL)
      AND pid <> pg_backend_pid()
      AND backend_type <> 'walsender'
      AND (datname = current_database() OR datname IS NULL)
    UNION ALL
    SELECT 'prepared transaction', NULL, gid, NULL, age(transaction), prepared
    FROM pg_prepared_xacts
    WHERE database = current_database()
    UNION ALL
    SELECT 'replication slot', active_pid, slot_name::text, CASE WHEN active THEN 'active'
        ELSE 'inactive' END,
           greatest(age(xmin), age(catalog_xmin)), NULL
    FROM pg_replication_slots
    WHERE xmin IS NOT NULL OR catalog_xmin IS NOT NULL
    UNION ALL
    SELECT 'standby', pid, application_name, state, age(backend_xmin), NULL
    FROM pg_stat_replication
    WHERE backend_xmin IS NOT NULL
) AS holders
ORDER BY age_xids DESC NULLS LAST, since NULLS LAST
LIMIT 10;

-- name: feed
-- Transactions of the whole server, also in other databases, that have written: no event that is
-- younger than the oldest of them is shown.
SELECT holder, pid, name, database, state, age_xids, since,
       extract(epoch FROM clock_timestamp() - since)::float8 AS held_seconds
FROM (
    SELECT 'session' AS holder, pid, coalesce(nullif(application_name, ''), usename::text,
                                              backend_type) AS name,
           datname::text AS database, state, age(backend_xid) AS age_xids, xact_start AS since
    FROM pg_stat_activity
    WHERE backend_xid IS NOT NULL AND pid <> pg_backend_pid()
    UNION ALL
    SELECT 'prepared transaction', NULL, gid, database::text, NULL, age(transaction), prepared
    FROM pg_prepared_xacts
) AS writers
ORDER BY age_xids DESC LIMIT 10;

-- name: replication
-- No row for a standby. The name of a WAL file begins with the timeline, in hexadecimal.
SELECT ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::int AS timeline,
       current_setting('synchronous_standby_names') AS wanted,
       current_setting('synchronous_commit') AS commit
WHERE NOT pg_is_in_recovery();

-- name: standbys
-- A role without pg_monitor sees that they are there, and nothing about them.
SELECT coalesce(nullif(application_name, ''), host(client_addr), 'pid ' || pid) AS name,
       host(client_addr) AS address, state, sync_state,
       pg_wal_lsn_diff(pg_current_wal_lsn(), flush_lsn)::float8 AS missing_bytes,
       extract(epoch FROM flush_lag)::float8 AS behind_seconds
FROM pg_stat_replication
WHERE state IS DISTINCT FROM 'backup'
ORDER BY sync_state DESC NULLS LAST, name;

-- name: wraparound
SELECT datname AS database, age(datfrozenxid) AS age_xids,
       current_setting('autovacuum_freeze_max_age')::bigint AS freeze_max_age_xids
FROM pg_database
WHERE datallowconn
ORDER BY age(datfrozenxid) DESC
LIMIT 1;

-- name: schema
-- Not to_regclass(), which fails for a role without usage of the schema.
SELECT to_regnamespace('regente') IS NOT NULL AS has_schema,
       EXISTS (
           SELECT FROM pg_class WHERE relnamespace = to_regnamespace('regente')
               AND relname = 'migrations'
       ) AS has_migrations,
       has_database_privilege(current_database(), 'CREATE') AS may_create_schema,
       coalesce(has_schema_privilege(to_regnamespace('regente')::oid, 'USAGE'), false) AS may_use,
       coalesce(has_schema_privilege(to_regnamespace('regente')::oid, 'CREATE'), false)
           AS may_create;

-- name: schema_version
-- By component; older databases have one stream for all, each migration named for its component.
SELECT coalesce(to_jsonb(m) ->> 'component', m.name) AS component,
       max(CASE WHEN to_jsonb(m) ? 'component' THEN m.version ELSE 1 END) AS version
FROM regente.migrations m GROUP BY 1 ORDER BY min(m.applied_at), 1;

-- name: unlogged_tables
SELECT relname AS name
FROM pg_class
WHERE relnamespace = to_regnamespace('regente') AND relpersistence = 'u' AND relkind IN ('r', 'p')
ORDER BY relname;

-- name: task_table
SELECT n_live_tup AS live_rows, n_dead_tup AS dead_rows, last_autovacuum, last_vacuum
FROM pg_stat_all_tables
WHERE schemaname = 'regente' AND relname = 'tasks';
