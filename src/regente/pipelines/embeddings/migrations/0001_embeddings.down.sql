DROP TABLE regente.embedding_reservations;
DROP TABLE regente.embeddings;
DROP TABLE regente.embedding_models;
