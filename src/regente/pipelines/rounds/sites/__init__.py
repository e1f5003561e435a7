"""The adapters that come with Regente: the sandbox's two sites."""
