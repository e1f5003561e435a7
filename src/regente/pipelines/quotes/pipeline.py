"""The pipeline of a quote. Recorded steps are neither repeated nor paid for again."""

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
from regente.pipelines.quotes.providers import Providers
from regente.pipelines.quotes.settings import QuotesSettings
from regente.pipelines.quotes.store import put_result

PATIENT_TRIES = 2
"""How often a page that does not answer delays the quote; then the quote continues without it."""


class QuotePipeline:
    def __init__(self, providers: Providers, settings: QuotesSettings) -> None:
        self._providers = providers
        self._settings = settings

    async def quote(self, task: Task[QuoteArgs]) -> QuoteResult:
        if not task.resumed:
            await task.progress(checkpoint=Checkpoint.INIT)
        analysed = await self._analysed(task)
        if analysed.analysis.kind is Kind.VEHICLE:
            evidence = await self._vehicle(task, analysed.analysis)
        else:
            evidence = await self._market(task, analysed.analysis)
        return await self._finalised(task, analysed, evidence)

    async def _analysed(self, task: Task[QuoteArgs]) -> Analysed:
        done = Checkpoint.AI_ANALYSIS_DONE
        await _arrive(task, Checkpoint.AI_ANALYSIS_START, before=done)
        return await task.step(
            done, self._providers.analyst.analyse, task.args.description, task.idempotency_key(done)
        )

    async def _vehicle(self, task: Task[QuoteArgs], analysis: Analysis) -> list[Evidence]:
        await _arrive(task, Checkpoint.FIPE_SEARCH, before=Checkpoint.FIPE_SEARCH)
        return [await task.step(Checkpoint.FIPE_SEARCH, self._providers.vehicles.price, analysis)]

    async def _market(self, task: Task[QuoteArgs], analysis: Analysis) -> list[Evidence]:
        done = Checkpoint.SHOPPING_SEARCH_DONE
        await _arrive(task, Checkpoint.SHOPPING_SEARCH_START, before=done)
        found = await task.step(
            done, self._providers.shopping.search, analysis.search_query, task.idempotency_key(done)
        )
        products = await task.step(Checkpoint.PRICE_EXTRACTION_START, self._choose, found)

        async def look(product: Product) -> Evidence:
            return await self._providers.product_pages.look(
                product, patient=task.tries < PATIENT_TRIES
            )

        at_once = self._settings.products_at_once
        return await task.each(
            Checkpoint.PRICE_EXTRACTION_PROGRESS, products, look, concurrency=at_once
        )

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
        await _arrive(task, Checkpoint.FINALIZATION, before=Checkpoint.COMPLETED)
        currency = self._settings.currency
        if appraisal.statistics is None:
            async with task.transaction() as connection:
                await put_result(connection, task, analysed, evidence, appraisal, currency)
            raise Fatal(f"none of {len(evidence)} sources has a price", code="NO_PRICE")
        if not await task.done(Checkpoint.COMPLETED):
            async with task.transaction(Checkpoint.COMPLETED) as connection:
                await put_result(connection, task, analysed, evidence, appraisal, currency)
        found = appraisal.statistics
        return QuoteResult(
            kind=analysed.analysis.kind,
            value=found.value,
            currency=currency,
            prices=found.prices,
            outliers=found.outliers,
            sources=len(evidence),
        )


async def _arrive(task: Task[QuoteArgs], checkpoint: Checkpoint, *, before: Checkpoint) -> None:
    """Set the checkpoint, unless an earlier attempt went further: it never goes back."""
    if not await task.done(before):
        await task.progress(checkpoint=checkpoint)


async def _appraised(evidence: list[Evidence]) -> Appraisal:
    return appraise(evidence)
