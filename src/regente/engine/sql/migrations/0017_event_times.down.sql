ALTER TABLE regente.events ALTER COLUMN at SET DEFAULT regente.clock();
