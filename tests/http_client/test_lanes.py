"""The names of the lanes in which HTTP services are called."""

from __future__ import annotations

import pytest

from regente import Lane, LaneLimits
from regente.http_client.lanes import lane_of, without_lane

LIMITS = LaneLimits(concurrency=4)


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("https://www.loja.example/cadeira?cor=preta", "shop:loja.example"),
        ("https://loja.example", "shop:loja.example"),
        ("http://LOJA.example:8080/x", "shop:loja.example:8080"),
        ("http://user:password@loja.example/", "shop:loja.example"),
        ("http://[::1]:80/", "shop:::1:80"),
        ("http://loja.example:port/", "shop:unknown"),
        ("not a url", "shop:unknown"),
        (f"https://{'x' * 300}.example", f"shop:{'x' * 195}"),
    ],
)
def test_a_lane_is_named_by_what_is_called_and_its_host(url: str, name: str) -> None:
    """Q2: one lane for all pages of a shop; no secret of a URL is in its name."""
    assert lane_of("shop", url, LIMITS) == Lane(name, LIMITS)


async def test_programs_that_are_no_tasks_call_past_the_lane() -> None:
    async with without_lane(Lane("shop:loja.example")):
        pass
