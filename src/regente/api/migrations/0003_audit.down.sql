DROP FUNCTION regente.audit(jsonb);
DROP FUNCTION regente.audit_hash(text, bigint, timestamptz, jsonb);
DELETE FROM regente.settings WHERE key IN ('audit_head', 'audit_floor');
