"""Sites of leagues: each has an adapter, in Python or in a file of selectors."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from regente import Fatal, InvalidInput, Regente
from regente.engine.pipeline import Registry
from regente.http_client.client import HttpClient
from regente.http_client.parsing import parse_page
from regente.pipelines.rounds.load_adapters import OURS, known_sites, load_adapter, site_of
from regente.pipelines.rounds.operations import RoundOperations
from regente.pipelines.rounds.parsing import parse_match, parse_round
from regente.pipelines.rounds.settings import RoundSettings
from regente.pipelines.rounds.setup import register_rounds
from regente.pipelines.rounds.standins.league import League
from regente.pipelines.rounds.standins.placar import Placar, match_page, round_page
from regente.services.sandbox import Sandbox
from tests.pipelines.rounds.conftest import QUICK

PLACAR = "placar-2025"
FILE = Path(OURS["placar"])


@pytest.fixture
async def sandbox() -> AsyncIterator[Sandbox]:
    async with Sandbox(proxies=0, seed=7, standins=[League(7), Placar(7)]) as place:
        yield place


@pytest.fixture
def placar(sandbox: Sandbox) -> Placar:
    return next(one for one in sandbox.standins if isinstance(one, Placar))


async def test_a_round_of_another_site_is_stored_as_it_was_played(
    app: Regente, operations: RoundOperations, placar: Placar
) -> None:
    """Z1, Z3, Z6: other elements, ids and dates; the adapter is a file of selectors."""
    started = await operations.start(PLACAR, 12)
    await app.run(until_idle=True)
    found = await operations.get(started.id)
    assert (found.status, found.listed, found.finished) == ("FINISHED", 10, 10)
    for place, truth in enumerate(placar.calendar.round(PLACAR, 12)):
        match = await operations.match(started.id, str(120_000 + place))
        assert (match.home, match.away) == (truth.home[1], truth.away[1])
        assert (match.home_goals, match.away_goals) == truth.goals
        assert (match.kickoff_at, match.venue) == (truth.kickoff, truth.venue)
        assert match.attendance == truth.attendance
        events = [(one.minute, one.kind, one.side, one.player) for one in match.event_list]
        expected = [(one.minute, one.kind, one.side, one.player) for one in truth.events]
        assert sorted(events) == sorted(expected)
        stats = {(one.name, one.side, one.value) for one in match.stat_list}
        assert stats == set(truth.stats)


@pytest.mark.parametrize(
    ("fault", "code", "word"),
    [
        ("layout", "LAYOUT_CHANGED", "main.ficha"),
        ("no_venue", "INVALID_DATA", "venue"),
        ("gone", "HTTP_404", "404"),
    ],
)
async def test_a_fault_of_another_site_is_fatal_with_its_page(
    app: Regente, operations: RoundOperations, placar: Placar, fault: str, code: str, word: str
) -> None:
    """Z2, Z3, Z4: nothing is stored of the match; the error says what was not found."""
    placar.break_match("120003", fault)
    started = await operations.start(PLACAR, 12)
    await app.run(until_idle=True)
    broken = await operations.match(started.id, "120003")
    assert (broken.status, broken.attempt_count, broken.error_code) == ("FAILED", 1, code)
    assert word in str(broken.error_message)
    (failure,) = await app.failures(broken.task_id)
    assert [one["name"] for one in failure["snapshots"]] == ["page.html"]
    placar.break_match("120003", None)
    await operations.retry_failed(started.id)
    await app.run(until_idle=True)
    assert (await operations.get(started.id)).status == "FINISHED"


def test_each_league_has_one_site() -> None:
    """Z1: the sandbox's league has those that no other site has."""
    sites = known_sites()
    assert [site.name for site in sites] == ["placar", "league"]
    assert site_of(sites, PLACAR).name == "placar"
    assert site_of(sites, "brasileirao-2025").name == "league"
    with pytest.raises(Fatal, match="both have the league placar-1") as refused:
        site_of([*sites, sites[0]], "placar-1")
    assert refused.value.code == "TWO_SITES"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("leagues = [", "ligas = ["), "leagues: Field required"),
        (("[round]", "[round"), "it is not TOML"),
        ((r"(\d+)ª rodada", r"\d+ª rodada"), "one group"),
        (('"America/Sao_Paulo"', '"Brasilia"'), "Brasilia is not a time zone"),
        (("rodada-{round}.html", "rodada.html"), "{round} is missing"),
        (("{league}/rodada", "{liga}/rodada"), "only {league} and {round} are known"),
        (('goals = { select = "div.mandante strong" }', ""), "a team has no goals"),
        (("slug = true", "slugs = true"), "slugs: Extra inputs are not permitted"),
    ],
)
def test_a_wrong_file_says_what_is_wrong(
    tmp_path: Path, change: tuple[str, str], message: str
) -> None:
    """Z3: at the start of the runner, with the file's name."""
    before = FILE.read_text("utf-8")
    assert change[0] in before
    path = tmp_path / "mine.toml"
    path.write_text(before.replace(*change, 1), "utf-8")
    with pytest.raises(InvalidInput) as refused:
        known_sites(str(path))
    assert str(path) in str(refused.value)
    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ("nothing.toml", "it cannot be read"),
        ("no_such_module:SITE", "cannot be imported: ModuleNotFoundError"),
        ("regente.pipelines.rounds.models:nothing", "cannot be imported: AttributeError"),
        ("regente.pipelines.rounds.models:MAX_ROWS", "has no leagues, base_url"),
        ("just-a-name", "name a .toml file, or module:object"),
    ],
)
def test_a_site_that_cannot_be_used_says_why(reference: str, message: str) -> None:
    """Z3."""
    with pytest.raises(InvalidInput, match="site") as refused:
        known_sites(reference)
    assert message in str(refused.value)


def test_an_adapter_that_fails_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Z3, Z4: an error of the adapter is no error of the page, and no retry helps."""
    site = load_adapter(OURS["league"])
    monkeypatch.setattr(type(site), "discover", lambda self, page: page["matches"])
    with pytest.raises(Fatal, match=r"discover of .*league:SITE failed: TypeError") as failed:
        parse_round(OURS["league"], "<html></html>", "http://x/", "a", "1")
    assert failed.value.code == "ADAPTER_FAILED"
    monkeypatch.setattr(type(site), "parse", lambda self, page: None)
    with pytest.raises(Fatal, match="returned NoneType, not a dict"):
        parse_match(OURS["league"], "<html></html>", "http://x/", "a")


PACKAGE = """
from regente.pipelines.rounds.adapters import required, text


class TinyCup:
    leagues = ["tiny-*"]
    base_url = "{sandbox}/placar"

    def round_url(self, league, number):
        return f"/{league}/rodada-{number}.html"

    def discover(self, page):
        rows = required(page.root, "section.rodada table").css("a")
        links = [row.attributes["href"] for row in rows]
        return {
            "number": page.round,
            "matches_said": len(links),
            "matches": [
                {"match_id": link[5:-5], "url": page.url.rpartition("/")[0] + "/" + link}
                for link in links
            ],
        }

    def parse(self, page):
        raise NotImplementedError("tiny")
"""


def install(folder: Path) -> None:
    """What an installer leaves of a small package: a module, and its metadata."""
    (folder / "tiny_cup.py").write_text(PACKAGE)
    info = folder / "tiny_cup-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: tiny-cup\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[regente.rounds.sites]\ntiny = tiny_cup:TinyCup\n")


async def test_an_installed_package_adds_a_site(
    database_url: str,
    registry: Registry,
    settings: Any,
    sandbox: Sandbox,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Z1, Z3: by an entry point, without a change of ours or a setting."""
    install(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    http = HttpClient()
    async with Regente(database_url, settings=settings, pipelines=registry) as app:
        register_rounds(registry, app, http, RoundSettings(**QUICK), sandbox.url)
        operations = RoundOperations(app)
        started = await operations.start("tiny-1", 3)
        await app.run(until_idle=True)
        matches = await operations.matches(started.id)
        assert [one.match_id for one in matches] == [str(30_000 + n) for n in range(10)]
        assert {one.error_code for one in matches} == {"ADAPTER_FAILED"}
        assert "parse of the site's adapter tiny_cup:TinyCup" in str(matches[0].error_message)
    await http.close()


async def test_a_large_page_is_parsed_by_its_adapter_in_a_child(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Z3: the child finds the adapter by its reference, also one of an installed package."""
    install(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    matches = Placar(7).calendar.round(PLACAR, 12)
    page = round_page(PLACAR, 12, matches).replace("<table>", f"<!--{'x' * 200_000}--><table>")
    url = "http://127.0.0.1/placar/placar-2025/rodada-12.html"
    for reference in (OURS["placar"], OURS["league"], "tiny_cup:TinyCup"):
        asked = parse_page(parse_round, reference, page, url, PLACAR, "12")
        if reference == OURS["league"]:
            with pytest.raises(Fatal, match="main#round"):
                await asked
        else:
            assert len((await asked).matches) == 10


def test_the_command_shows_the_sites_and_tries_one_on_saved_pages(
    tmp_path: Path, placar_pages: tuple[Path, Path]
) -> None:
    """Z3: as a real process, with an installed package."""
    install(tmp_path)
    listed = regente(tmp_path, "rounds", "sites", "--json")
    assert [one["name"] for one in listed] == ["tiny", "placar", "league"]
    round_file, match_file = map(str, placar_pages)
    asked = ("rounds", "try-site", "placar", PLACAR, "12")
    tried = regente(tmp_path, *asked, "--round", round_file, "--match", match_file, "--json")
    assert (tried["round"]["number"], len(tried["round"]["matches"])) == (12, 10)
    assert tried["match"]["status"] == "finished"


@pytest.fixture
def placar_pages(tmp_path: Path) -> tuple[Path, Path]:
    """Pages of the site, as a browser saves them."""
    matches = Placar(7).calendar.round(PLACAR, 12)
    pages = tmp_path / "round.html", tmp_path / "match.html"
    pages[0].write_text(round_page(PLACAR, 12, matches))
    pages[1].write_text(match_page(matches[3], "120003"))
    return pages


def regente(folder: Path, *words: str) -> Any:
    done = subprocess.run(
        [sys.executable, "-m", "regente", *words],
        env={**os.environ, "PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
