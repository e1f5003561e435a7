"""The API's wire models, one file per resource, with examples."""
