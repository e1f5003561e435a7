-- Pipelines whose finished tasks are history: deleted by age only when a retention time was set,
-- and not after the default one.
ALTER TABLE regente.pipelines ADD COLUMN kept boolean NOT NULL DEFAULT false;
