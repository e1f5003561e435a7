DROP TABLE regente.quote_screenshots;
