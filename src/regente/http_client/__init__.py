"""Calls to other people's HTTP services: capped, timed, watched by the observer, without a secret
in what they say."""
