"""The five source documents, each as a folder of tests to be read beside it."""
