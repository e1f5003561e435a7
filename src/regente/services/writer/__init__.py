"""The reference Writer: stores an array of a JSON document, read by URL, in PostgreSQL.

Jobs and their progress are in the database, and a batch's progress commits with its rows: a
killed writer resumes without loss and without duplicates.
"""

from regente.services.writer.app import create_app
from regente.services.writer.config import WriterConfig
from regente.services.writer.database import prepare_database

__all__ = ["WriterConfig", "create_app", "prepare_database"]
