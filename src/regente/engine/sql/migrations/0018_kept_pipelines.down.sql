ALTER TABLE regente.pipelines DROP COLUMN kept;
