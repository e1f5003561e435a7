"""Finds incomplete matches, without the pipeline's code and the schema's constraints.

One statement, so that it sees one moment of the database; run it as often as you like, at any time.
"""

from __future__ import annotations

import threading
from types import TracebackType
from typing import Any, Self

import psycopg
from psycopg.rows import dict_row

TEAMS, STATS = 2, 16  # what every page of the sandbox's league has
HALF = """
SELECT 'match ' || m.match_id AS what, 'has ' || t.n || ' teams, ' || e.n || ' of ' || m.events_said
    || ' events, ' || s.n
       || ' stats; score by teams ' || t.goals || ', by events ' || e.goals AS why
FROM regente.matches m
CROSS JOIN LATERAL (SELECT count(*) AS n, count(DISTINCT team_id) AS teams,
                    coalesce(sum(goals), 0) AS goals
                    FROM regente.match_teams WHERE match = m.id) AS t
CROSS JOIN LATERAL (SELECT count(*) AS n, count(*) FILTER (WHERE kind IN ('goal', 'own_goal'))
                    AS goals
                    FROM regente.match_events WHERE match = m.id) AS e
CROSS JOIN LATERAL (SELECT count(*) AS n FROM regente.match_stats WHERE match = m.id) AS s
WHERE t.n <> %(teams)s OR t.teams <> %(teams)s OR s.n <> %(stats)s OR e.n <> m.events_said
  OR t.goals <> e.goals
UNION ALL SELECT 'team ' || slug, 'plays no match' FROM regente.teams t
WHERE NOT EXISTS (SELECT FROM regente.match_teams x WHERE x.team_id = t.id)
UNION ALL SELECT table_name || ' ' || match, 'has no match' FROM (
  SELECT 'match_teams' AS table_name, match FROM regente.match_teams
  UNION SELECT 'match_events', match FROM regente.match_events UNION SELECT 'match_stats', match
      FROM regente.match_stats) AS o
WHERE NOT EXISTS (SELECT FROM regente.matches m WHERE m.id = o.match)
UNION ALL SELECT 'match ' || match_id, 'was stored ' || count(*) || ' times' FROM regente.matches
GROUP BY league, match_id HAVING count(*) > 1
UNION ALL SELECT 'round ' || r.id, 'is discovered with ' || count(rm.task_id) || ' of '
    || r.matches_said || ' matches, '
       || count(t.id) || ' of them with a task'
FROM regente.rounds r LEFT JOIN regente.round_matches rm ON rm.round_id = r.id LEFT
JOIN regente.tasks t ON t.id = rm.task_id
WHERE r.matches_said IS NOT NULL GROUP BY r.id HAVING count(rm.task_id) <> r.matches_said
  OR count(t.id) <> r.matches_said
UNION ALL SELECT 'round ' || r.id, 'has matches and was not discovered' FROM regente.rounds r
WHERE r.matches_said IS NULL AND EXISTS (SELECT FROM regente.round_matches rm
                                         WHERE rm.round_id = r.id)
UNION ALL SELECT 'task ' || t.id, 'is completed and its match is not there' FROM regente.tasks t
WHERE t.pipeline = 'matches' AND t.status = 'completed'
  AND NOT EXISTS (SELECT FROM regente.matches m WHERE m.match_id = t.args ->> 'match_id'
                  AND m.league = t.args ->> 'league')
"""
STORED = "SELECT count(*) AS n FROM regente.matches"


def half_matches(connection: psycopg.Connection[Any]) -> list[str]:
    with connection.cursor(row_factory=dict_row) as cursor:
        return [
            f"{row['what']} {row['why']}"
            for row in cursor.execute(HALF, {"teams": TEAMS, "stats": STATS})
        ]


class ContinuousCheck:
    """Checks all the time, in a thread with its own connection, while the block runs."""

    def __init__(self, url: str) -> None:
        self.found: list[str] = []
        self.looks = 0
        self.seen: set[int] = set()  # how many matches were stored at some look
        self._url = url
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, name="the checker")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._over.set()
        self._thread.join()

    def _look(self) -> None:
        with psycopg.connect(self._url, autocommit=True) as connection:
            while True:
                self.found += half_matches(connection)
                row = connection.execute(STORED).fetchone()
                self.seen.add(int(row[0]) if row else 0)
                self.looks += 1
                if self._over.wait(0.02):
                    return
