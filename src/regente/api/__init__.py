"""The HTTP API: the only door for the console, scripts and third parties.

`create_app` in `app.py` puts it together. A route lives in `routes/`, its wire models in `models/`,
its questions in `sql/`; who may come in is decided in `access/`, and every error becomes an answer
in `problems.py`.
"""
