DROP FUNCTION regente.stall_of(bigint);
ALTER TABLE regente.batches DROP COLUMN stall;
