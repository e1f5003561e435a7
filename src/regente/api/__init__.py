"""The HTTP API, for the console, scripts and third parties.

`create_app` in `app.py` puts it together. Routes are in `routes/`, wire models in `models/`,
queries in `sql/`, authentication and roles in `access/`, error responses in `problems.py`.
"""
