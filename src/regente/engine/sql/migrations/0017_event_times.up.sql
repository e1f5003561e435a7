-- Events of one transaction have rising times, in the order in which they were written: sorted by
-- time alone, a failure comes before the retry that it caused. A test that moves the clock moves
-- them too.
ALTER TABLE regente.events
    ALTER COLUMN at SET DEFAULT regente.clock() + (clock_timestamp() - now());
