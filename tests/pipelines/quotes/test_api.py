"""Quotes over the API: submitted alone or in lots, shown with their evidence."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from regente import Regente
from regente.api.config import ApiConfig
from regente.pipelines.quotes.operations import QuoteOperations
from regente.pipelines.quotes.standins.quotes import QuotesStandin
from tests.api.conftest import body_of, events_of, served
from tests.pipelines.quotes.conftest import CHAIR, SHOPS, ended, paid_once
from tests.support.running import runner_in


async def test_quotes_are_submitted_listed_and_shown(
    app: Regente, operations: QuoteOperations, market: QuotesStandin
) -> None:
    """Q1, Q5, Q8: a lot of two and one alone; the totals add up."""
    async with served(app, ApiConfig()) as api, runner_in(app):
        body = {
            "quotes": [
                {"description": CHAIR.description, "reference": "P-1"},
                {"description": "Fiat Uno Mille 2010"},
            ]
        }
        lot = body_of(
            await api.operator.post("/api/quotes", json={**body, "lot": "inventário"}), 202
        )
        alone = body_of(
            await api.operator.post("/api/quotes", json={"description": "Mesa redonda"}), 202
        )
        again = body_of(
            await api.operator.post(
                "/api/quotes", json={"description": "x y", "reference": "P-1", "lot": "inventário"}
            ),
            202,
        )
        assert (lot["count"], alone["batch_id"], again["ids"]) == (2, None, lot["ids"][:1])
        for quote_id in (*lot["ids"], *alone["ids"]):
            await ended(operations, quote_id)
        page = body_of(await api.viewer.get("/api/quotes", params={"limit": 2}))
        rest = body_of(
            await api.viewer.get("/api/quotes", params={"limit": 2, "cursor": page["next"]})
        )
        assert sorted(one["id"] for one in page["items"] + rest["items"]) == sorted(
            lot["ids"] + alone["ids"]
        )
        assert rest["next"] is None
        shown = body_of(await api.viewer.get(f"/api/quotes/{lot['ids'][0]}"))
        assert (shown["status"], shown["processing_checkpoint"], shown["kind"]) == (
            "DONE",
            "COMPLETED",
            "product",
        )
        assert (len(shown["sources"]), len(shown["resume_data"]["tested_products"])) == (
            SHOPS,
            SHOPS,
        )
        assert {"last_heartbeat", "worker_id", "started_at", "completed_at", "attempt_number"} < {
            *shown
        }
        done = body_of(
            await api.viewer.get(
                "/api/quotes", params={"status": "DONE", "lot_id": lot["batch_id"]}
            )
        )
        worth = body_of(await api.viewer.get(f"/api/quotes/lots/{lot['batch_id']}"))
        assert (worth["quoted"], worth["completed"]) == (2, 2)
        assert Decimal(worth["value"]) == sum(Decimal(one["value"]) for one in done["items"])
        assert [
            one["id"] for one in body_of(await api.viewer.get("/api/quotes/lots"))["items"]
        ] == [lot["batch_id"]]
    (first, *_) = await events_of(app, "operator_action")
    assert (first["action"], first["after"]["submitted"]) == ("quotes.submit", 2)
    paid_once(market, analyses=3, searches=2)


async def test_an_invalid_quote_is_refused(app: Regente, operations: QuoteOperations) -> None:
    """422 with the field, and nothing is stored."""
    async with served(app, ApiConfig()) as api:
        wrong: tuple[dict[str, Any], ...] = (
            {},
            {"description": ""},
            {"description": "a", "quotes": []},
            {"quotes": []},
            {"description": "ok", "colour": "red"},
            {"quotes": [{"description": "ok"}, {"description": "\u0000\u0000"}]},
            {"quotes": [{"description": "ok"}], "reference": "P"},
            {"description": "ok", "lot": ""},
        )
        for body in wrong:
            assert (await api.operator.post("/api/quotes", json=body)).status_code == 422, body
        assert (await api.viewer.post("/api/quotes", json={"description": "ok"})).status_code == 403
        for path in ("/api/quotes/99", "/api/quotes/lots/99"):
            assert (await api.viewer.get(path)).status_code == 404
        assert (await api.viewer.get("/api/quotes", params={"status": "done"})).status_code == 422
    assert await operations.find() == []
