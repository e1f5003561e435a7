-- After a failover or a restore commits may be missing, and PostgreSQL begins anew where it is:
-- transaction ids and sequences repeat what was given out before. A timeline is a history without
-- such a step back. Its token, which is random, is part of every position in the feed.
CREATE TABLE regente.timelines (
  name     text PRIMARY KEY,  -- the cluster, its timeline, the database, and the table as restored
  token    text NOT NULL UNIQUE DEFAULT left(md5(gen_random_uuid()::text), 8),
  began_at timestamptz NOT NULL DEFAULT regente.clock()
);

CREATE FUNCTION regente.cluster_id() RETURNS text LANGUAGE sql STABLE
RETURN (SELECT c.system_identifier::text FROM pg_control_system() AS c);

-- A promotion begins a new timeline of the cluster; a dump brings a new table or a new database.
CREATE FUNCTION regente.timeline_name() RETURNS text LANGUAGE sql VOLATILE
RETURN (SELECT concat_ws('/', regente.cluster_id(), left(pg_walfile_name(pg_current_wal_lsn()), 8),
                         d.oid, 'regente.timelines'::regclass::oid)
        FROM pg_database d WHERE d.datname = current_database());

-- The token of the present timeline, once a connection has begun it.
CREATE FUNCTION regente.timeline() RETURNS text LANGUAGE sql STABLE
RETURN (SELECT t.token FROM regente.timelines t
        WHERE t.name = (SELECT regente.timeline_name()));

-- Returns the token of the present timeline. Each connection asks for it first. The first one of a
-- timeline begins it: it moves all sequences on by a thousand million, so that no id is given out
-- again that a lost commit had. In another cluster transaction ids are other ones, too: events keep
-- their order by id. With the rights of the owner, as a lesser role may come first.
CREATE FUNCTION regente.enter_timeline() RETURNS text LANGUAGE plpgsql VOLATILE
SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  here  text := regente.timeline_name();
  found text;
BEGIN
  SELECT t.token INTO found FROM regente.timelines t WHERE t.name = here;
  IF found IS NOT NULL THEN
    RETURN found;
  END IF;
  LOCK TABLE regente.timelines IN SHARE ROW EXCLUSIVE MODE;
  SELECT t.token INTO found FROM regente.timelines t WHERE t.name = here;
  IF found IS NOT NULL THEN
    RETURN found;
  END IF;
  IF EXISTS (SELECT FROM regente.timelines) THEN
    PERFORM setval(s.oid::regclass, nextval(s.oid::regclass) + 1000000000)
    FROM pg_class s WHERE s.relnamespace = 'regente'::regnamespace AND s.relkind = 'S';
  END IF;
  IF NOT EXISTS (SELECT FROM regente.timelines t
                 WHERE starts_with(t.name, regente.cluster_id() || '/')) THEN
    UPDATE regente.events SET txid = '0'
    WHERE txid >= pg_snapshot_xmax(pg_current_snapshot());
    UPDATE regente.settings SET value = jsonb_set(value, '{txid}', '"0"') WHERE key = 'feed_floor';
  END IF;
  INSERT INTO regente.timelines (name) VALUES (here) RETURNING token INTO found;
  RETURN found;
END $$;

-- Random, so that none is given out again after a failover or a restore: a runner's id is part of
-- the fence. Below 2^52, so that JSON has it exactly.
CREATE FUNCTION regente.random_id() RETURNS bigint LANGUAGE sql VOLATILE
RETURN greatest(1, ('x' || left(md5(gen_random_uuid()::text), 13))::bit(52)::bigint);

ALTER TABLE regente.runners ALTER COLUMN id DROP IDENTITY,
  ALTER COLUMN id SET DEFAULT regente.random_id();
