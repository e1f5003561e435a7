-- A removed worker, proxy or writer stays as a row: missions, sessions and logs keep naming it. Its
-- name is free for another one.

ALTER TABLE regente.workers ADD COLUMN removed_at timestamptz;
ALTER TABLE regente.proxies ADD COLUMN removed_at timestamptz;
ALTER TABLE regente.writers ADD COLUMN removed_at timestamptz;
ALTER TABLE regente.workers ADD CONSTRAINT removed_is_inactive
    CHECK (removed_at IS NULL OR NOT active AND status = 'idle' AND current_mission_id IS NULL);
ALTER TABLE regente.proxies ADD CONSTRAINT removed_is_inactive
    CHECK (removed_at IS NULL OR NOT active AND in_use_by_worker_id IS NULL);
ALTER TABLE regente.writers ADD CONSTRAINT removed_is_inactive
    CHECK (removed_at IS NULL OR NOT active);
ALTER TABLE regente.workers DROP CONSTRAINT workers_name_key;
ALTER TABLE regente.proxies DROP CONSTRAINT proxies_name_key;
ALTER TABLE regente.writers DROP CONSTRAINT writers_name_key;
CREATE UNIQUE INDEX workers_once_per_name ON regente.workers (name) WHERE removed_at IS NULL;
CREATE UNIQUE INDEX proxies_once_per_name ON regente.proxies (name) WHERE removed_at IS NULL;
CREATE UNIQUE INDEX writers_once_per_name ON regente.writers (name) WHERE removed_at IS NULL;

CREATE FUNCTION regente.refuse_delete() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION 'the history of % needs its row', OLD.name USING ERRCODE = 'RG001',
    HINT = 'Remove it with `regente fleet remove`, or UPDATE … SET active = false.';
END $$;
CREATE TRIGGER workers_keep_their_history BEFORE DELETE ON regente.workers FOR EACH ROW
    EXECUTE FUNCTION regente.refuse_delete();
CREATE TRIGGER proxies_keep_their_history BEFORE DELETE ON regente.proxies FOR EACH ROW
    EXECUTE FUNCTION regente.refuse_delete();
CREATE TRIGGER writers_keep_their_history BEFORE DELETE ON regente.writers FOR EACH ROW
    EXECUTE FUNCTION regente.refuse_delete();
