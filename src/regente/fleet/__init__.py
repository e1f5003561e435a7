"""The fleet: the register of workers, proxies and writers, their clients and their tests."""
