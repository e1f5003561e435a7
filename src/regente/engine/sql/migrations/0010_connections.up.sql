-- The `application_name` of a runner's connections, so that another runner can end its transactions
-- when it is lost. NULL for runners of older code: their own timeouts end theirs.
ALTER TABLE regente.runners ADD COLUMN connections text;
