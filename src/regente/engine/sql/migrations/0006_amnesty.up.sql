-- After an outage runners get another lease instead of being declared lost: `lease` says how long,
-- `amnesties` how often since the last renewal. Older code beside this one renews without resetting
-- the number, so its runners get fewer of them.
ALTER TABLE regente.runners ADD COLUMN lease interval NOT NULL DEFAULT '60 seconds',
  ADD COLUMN amnesties smallint NOT NULL DEFAULT 0;
