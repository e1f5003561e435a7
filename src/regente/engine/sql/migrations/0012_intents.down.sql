DROP TABLE regente.intents;
