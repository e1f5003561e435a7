"""What rounds add to the API's overview: the matches and pages that failed for good."""

from __future__ import annotations

from regente.api.additions import Additions, HealthPart, problems
from regente.pipelines.rounds.queries import QUERIES
from regente.queries import Source


class RoundAdditions(Additions):
    async def health(self, source: Source) -> HealthPart:
        (row,) = await QUERIES.fetch_all(source, "failed_for_good")
        return HealthPart(
            attention=problems(
                (
                    "MATCHES_FAILED",
                    row["matches"],
                    "matches failed for good",
                ),
                ("ROUNDS_FAILED", row["rounds"], "rounds whose page could not be read"),
            )
        )


ADDITIONS = RoundAdditions()
