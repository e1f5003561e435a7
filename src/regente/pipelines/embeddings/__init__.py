"""Embeddings: texts become vectors, each distinct content once, whoever asks and however often."""
