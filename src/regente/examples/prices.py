"""The demo's pipeline: fetch a shop's page, read the price, store it. The shop is made up; its bad days are not.

regente run --import regente.examples.prices
"""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Literal

from pydantic import BaseModel

from regente import Fatal, Retry, Task, Throttled, Transient, pipeline
from regente.sql_files import load_queries

QUERIES = load_queries(Path(__file__).with_name("demo.sql"))

Mood = Literal["fine", "overloaded", "throttled", "redesigned", "sold_out"]


class PageRequest(BaseModel):
    batch: str
    product: int
    mood: Mood = "fine"


class Price(BaseModel):
    product: int
    cents: int


@pipeline("demo_prices", args=PageRequest, retry=Retry(max_attempts=3, first=0.5, maximum=5.0))
async def price_page(task: Task[PageRequest]) -> Price:
    request = task.args
    task.context["product"] = request.product  # on every log line of this task
    html: str = await task.step("FETCH", fetch, request, first_visit=not task.resumed, failures=task.tries)
    task.snapshot("page.html", html)  # kept if this attempt fails
    if "sold out" in html:
        task.skip("sold out: there is no price to store")
    price = await task.step("PARSE", parse, request.product, html)
    async with task.transaction("STORE") as connection:  # the row and the step's record commit together, or not at all
        await connection.execute(
            QUERIES["store_price"], {"batch": request.batch, "product": price.product, "cents": price.cents}
        )
    return price


async def fetch(request: PageRequest, *, first_visit: bool, failures: int) -> str:
    """What the shop answers, after a while; now and then it does not."""
    await asyncio.sleep(0.2 + request.product * 37 % 50 / 100)
    if request.mood == "overloaded" and failures == 0:
        raise Transient("the shop is overloaded", code="HTTP_503")
    if request.mood == "throttled" and first_visit:
        raise Throttled("too many requests", retry_after=1.0, code="HTTP_429")
    if request.mood == "sold_out":
        return "<html><p>sold out</p></html>"
    tag = "b" if request.mood == "redesigned" else "span"
    return f"<html><h1>Product {request.product}</h1><{tag} class=price>{cents_of(request.product) / 100:.2f}</{tag}></html>"


def parse(product: int, html: str) -> Price:
    """Strict: a page without the expected price is refused, and nothing is stored."""
    found = re.search(r"<span class=price>(\d+)\.(\d\d)</span>", html)
    if found is None:
        raise Fatal(f"the page of product {product} has no price where it used to be", code="LAYOUT_CHANGED")
    return Price(product=product, cents=int(found[1]) * 100 + int(found[2]))


def cents_of(product: int) -> int:
    return 500 + product * 7919 % 9500


def page_requests(batch: str, count: int) -> list[PageRequest]:
    """So many pages: 3 were redesigned, 2 products are sold out, and of the rest the shop has a bad moment for a few."""
    moods: dict[int, Mood] = dict.fromkeys(range(10, count + 1, 33), "overloaded")
    moods |= dict.fromkeys(range(7, count + 1, 100), "throttled")
    moods |= {count * quarter // 4: "redesigned" for quarter in (1, 2, 3)}
    moods |= {count * third // 3 + 1: "sold_out" for third in (1, 2)}
    return [PageRequest(batch=batch, product=product, mood=moods.get(product, "fine")) for product in range(1, count + 1)]
