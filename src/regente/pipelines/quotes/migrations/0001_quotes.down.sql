DROP TABLE regente.quote_sources;
DROP TABLE regente.quotes;
