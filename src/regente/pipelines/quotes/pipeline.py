"""The pipeline of a quote. A recorded step is neither repeated nor paid for again. A paid call with
an unknown outcome is repeated if its provider honours idempotency keys, else a person decides."""

from __future__ import annotations

from collections import Counter

from regente.engine.errors import Fatal
from regente.engine.task import Task
from regente.pipelines.quotes.appraisal import appraise
from regente.pipelines.quotes.checkpoints import Checkpoint
from regente.pipelines.quotes.models import (
    Analysed,
    Analysis,
    Appraisal,
    Evidence,
    Found,
    Kind,
    Product,
    QuoteArgs,
    QuoteResult,
)
from regente.pipelines.quotes.providers import Providers, on_unknown
from regente.pipelines.quotes.settings import QuotesSettings
from regente.pipelines.quotes.store import put_result, put_screenshot

CHOSEN, SHOP_PAGES = "CHOSEN_PRODUCTS", "SHOP_PAGES"
"""The choice of products, and the loop that looks up their shops' pages: no checkpoints of their
own."""
PATIENT_TRIES = 2
"""How often a page that does not answer delays the quote; then the quote continues without it."""


class QuotePipeline:
    def __init__(self, providers: Providers, settings: QuotesSettings) -> None:
        self._providers = providers
        self._settings = settings

    async def quote(self, task: Task[QuoteArgs]) -> QuoteResult:
        await _pass(task, Checkpoint.INIT, before=Checkpoint.AI_ANALYSIS_DONE)
        analysed = await self._analysed(task)
        if analysed.analysis.kind is Kind.VEHICLE:
            evidence = await self._vehicle(task, analysed.analysis)
        else:
            evidence = await self._market(task, analysed.analysis)
        return await self._finalised(task, analysed, evidence)

    async def _analysed(self, task: Task[QuoteArgs]) -> Analysed:
        done = Checkpoint.AI_ANALYSIS_DONE
        await _pass(task, Checkpoint.AI_ANALYSIS_START, before=done)
        return await task.step(
            done,
            self._analyse,
            task.args.description,
            task.idempotency_key(done),
            on_unknown=on_unknown(self._providers.analyst, self._settings.analysis_on_unknown),
            lane=self._providers.analyst.lane,
        )

    async def _analyse(self, description: str, key: str) -> Analysed:
        # Not the provider's own method as the step: a replay after a change of provider would ask
        # for another call than the recorded one.
        return await self._providers.analyst.analyse(description, key)

    async def _vehicle(self, task: Task[QuoteArgs], analysis: Analysis) -> list[Evidence]:
        if not await task.done(Checkpoint.FIPE_SEARCH):
            await task.progress(checkpoint=Checkpoint.FIPE_SEARCH)
        lane = self._providers.vehicles.lane
        found = await task.step(Checkpoint.FIPE_SEARCH, self._vehicle_price, analysis, lane=lane)
        return [found]

    async def _vehicle_price(self, vehicle: Analysis) -> Evidence:
        return await self._providers.vehicles.price(vehicle)

    async def _market(self, task: Task[QuoteArgs], analysis: Analysis) -> list[Evidence]:
        done = Checkpoint.SHOPPING_SEARCH_DONE
        await _pass(task, Checkpoint.SHOPPING_SEARCH_START, before=done)
        found = await task.step(
            done,
            self._search,
            analysis.search_query,
            task.idempotency_key(done),
            on_unknown=on_unknown(self._providers.shopping, self._settings.search_on_unknown),
            lane=self._providers.shopping.lane,
        )
        found = await self._at_their_shops(task, found)
        products = await task.step(Checkpoint.PRICE_EXTRACTION_START, self._choose, found)

        async def look(product: Product) -> Evidence:
            seen = await self._providers.product_pages.look(
                product, task.in_lane, patient=task.tries < PATIENT_TRIES
            )
            if seen.screenshot is not None:
                async with task.transaction() as connection:
                    await put_screenshot(connection, task, seen)
            return seen

        at_once = self._settings.products_at_once
        return await task.each(
            Checkpoint.PRICE_EXTRACTION_PROGRESS, products, look, concurrency=at_once
        )

    async def _search(self, query: str, key: str) -> Found:
        return await self._providers.shopping.search(query, key)

    async def _at_their_shops(self, task: Task[QuoteArgs], found: Found) -> Found:
        """The search result with the shops' own pages of the chosen products, where the search
        finds them."""

        async def find(product: Product) -> Product:
            return await self._providers.shopping.with_page(
                product,
                task.idempotency_key(f"{SHOP_PAGES}[{product.position}]"),
                patient=task.tries < PATIENT_TRIES,
            )

        if not self._settings.shop_pages or not any(_is_elsewhere(one) for one in found.products):
            return found
        done = Checkpoint.SHOPPING_SEARCH_DONE
        (chosen,) = await task.each(CHOSEN, [found], self._choose, checkpoint=done)
        looked_up = await task.each(
            SHOP_PAGES,
            [one for one in chosen if _is_elsewhere(one)],
            find,
            concurrency=self._settings.products_at_once,
            on_unknown=on_unknown(self._providers.shopping, self._settings.search_on_unknown),
            checkpoint=done,
            lane=self._providers.shopping.lane,
        )
        at_shops = {one.position: one for one in looked_up}
        products = [at_shops.get(one.position, one) for one in found.products]
        return found.model_copy(update={"products": products})

    async def _choose(self, found: Found) -> list[Product]:
        """The products to read: each page once, and one of each shop before a shop's second."""
        pages = {
            product.url or str(product.position): product for product in reversed(found.products)
        }
        turns: Counter[str] = Counter()
        ranked: list[tuple[int, int, Product]] = []
        for product in sorted(pages.values(), key=lambda one: one.position):
            turns[product.source] += 1
            ranked.append((turns[product.source], product.position, product))
        return [product for _, _, product in sorted(ranked, key=lambda one: one[:2])][
            : self._settings.max_products
        ]

    async def _finalised(
        self, task: Task[QuoteArgs], analysed: Analysed, evidence: list[Evidence]
    ) -> QuoteResult:
        if analysed.analysis.kind is Kind.PRODUCT:
            appraisal = await task.step(Checkpoint.PRICE_EXTRACTION_DONE, _appraised, evidence)
        else:
            appraisal = appraise(evidence)
        await _pass(task, Checkpoint.FINALIZATION, before=Checkpoint.COMPLETED)
        currency = self._settings.currency
        if appraisal.statistics is None:
            async with task.transaction() as connection:
                await put_result(connection, task, analysed, evidence, appraisal, currency)
            raise Fatal(f"none of {len(evidence)} sources has a price", code="NO_PRICE")
        await task.transact(
            Checkpoint.COMPLETED, put_result, task, analysed, evidence, appraisal, currency
        )
        found = appraisal.statistics
        return QuoteResult(
            kind=analysed.analysis.kind,
            value=found.value,
            currency=currency,
            prices=found.prices,
            outliers=found.outliers,
            sources=len(evidence),
        )


async def _pass(task: Task[QuoteArgs], checkpoint: Checkpoint, *, before: Checkpoint) -> None:
    """Record a checkpoint that has no work of its own, unless an earlier attempt went further: it
    never goes back."""
    if not await task.done(before):
        await task.step(checkpoint, _nothing)


def _is_elsewhere(product: Product) -> bool:
    return product.url is None and product.lookup_id is not None


async def _nothing() -> None:
    """The checkpoint is the whole record."""


async def _appraised(evidence: list[Evidence]) -> Appraisal:
    return appraise(evidence)
