"""The reference Writer service: takes a JSON document by its URL and stores the rows of one of its
arrays in PostgreSQL.

A job and its progress live in the database, and a batch's progress commits together with its rows:
whatever is killed goes on where it was, without loss and without a second effect.
"""

from regente.services.writer.app import create_app
from regente.services.writer.config import WriterConfig
from regente.services.writer.database import prepare_database

__all__ = ["WriterConfig", "create_app", "prepare_database"]
