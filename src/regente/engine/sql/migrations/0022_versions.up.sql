-- Which code a runner has: the version of each of its pipelines that has one.
ALTER TABLE regente.runners ADD COLUMN versions jsonb NOT NULL DEFAULT '{}';
