-- The audit log is a chain: each event has a number and the hash of the one before, so that a
-- missing or altered one is noticed (`regente audit verify`). The head is in `settings`.

CREATE FUNCTION regente.audit_hash(previous text, number bigint, at timestamptz, details jsonb)
RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN encode(sha256(convert_to(
  concat_ws('|', previous, number, (extract(epoch FROM at) * 1000000)::bigint, details::text),
  'UTF8')), 'hex');

-- The lock on the head makes one event follow the other.
CREATE FUNCTION regente.audit(details jsonb) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
  head jsonb;
  next_number bigint;
  next_hash text;
  now_at timestamptz := regente.clock();
BEGIN
  INSERT INTO regente.settings (key, value) VALUES ('audit_head', '{"number": 0, "hash": ""}')
  ON CONFLICT (key) DO UPDATE SET key = excluded.key
  RETURNING value INTO head;
  next_number := (head ->> 'number')::bigint + 1;
  next_hash := regente.audit_hash(head ->> 'hash', next_number, now_at, details);
  INSERT INTO regente.events (event, at, details)
  VALUES ('operator_action', now_at, details || jsonb_build_object('audit', jsonb_build_object(
    'number', next_number, 'previous', head ->> 'hash', 'hash', next_hash)));
  UPDATE regente.settings
  SET value = jsonb_build_object('number', next_number, 'hash', next_hash), updated_at = now_at
  WHERE key = 'audit_head';
  RETURN next_number;
END $$;
