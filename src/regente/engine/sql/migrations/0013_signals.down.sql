DROP FUNCTION regente.signal(bigint, text, json, text, jsonb);
DROP FUNCTION regente.waits_until(bigint, text);
DROP TABLE regente.waits;
DROP TABLE regente.signals;
