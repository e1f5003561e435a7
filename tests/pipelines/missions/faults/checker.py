"""Judges a campaign by the peers' records; of the engine only each mission's end is read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import date

from regente.pipelines.missions.read_models import Mission
from tests.pipelines.missions.faults.campaign import Campaign
from tests.pipelines.missions.faults.peers import overlaps
from tests.pipelines.missions.faults.plan import Ending

SUCCESS = ("completed", "empty")


async def faults_of(campaign: Campaign) -> list[str]:
    """Every violation, in words."""
    missions = {
        mission.date_start: mission for mission in await campaign.env.app.missions.find(limit=1000)
    }
    found = [
        f"the mission of {day} is not there"
        for day in campaign.plan.missions
        if day not in missions
    ]
    for day, mission in sorted(missions.items()):
        found += _wrong_ending(mission, campaign.plan.missions[day].ending)
        found += _wrong_jobs(campaign, day, campaign.plan.missions[day].ending)
    found += _worker_driven_by_two(campaign)
    found += _proxy_used_by_two(campaign)
    found += [f"a runner ended with {code}" for code in campaign.exit_codes if code != 0]
    return found


def _wrong_ending(mission: Mission, ending: Ending) -> Iterator[str]:
    said = (mission.status, mission.error_code if mission.status == "failed" else None)
    if said != (ending.status, ending.error_code):
        yield (
            f"mission {mission.id} of {mission.date_start} ended as {said}, and not as "
            f"{ending}: {mission.error_message}"
        )
    if ending.status == "completed" and mission.ads_count != ending.ads_count:
        yield f"mission {mission.id} says {mission.ads_count} ads, not {ending.ads_count}"


def _wrong_jobs(campaign: Campaign, day: date, ending: Ending) -> Iterator[str]:
    scrapes = campaign.scrapes_of(day)
    lived = [job for job in scrapes if job.ran_to_end]
    if len(lived) != ending.scrapes:
        yield f"{day}: {len(lived)} scrapes lived out their script, not {ending.scrapes}: {scrapes}"
    for pair in overlaps([(job.began, job.end, job.id) for job in scrapes]):
        yield f"{day}: {pair} ran at once"
    if scrapes and any(
        job.script.final_answer["status"] in SUCCESS and job.ran_to_end for job in scrapes[:-1]
    ):
        yield f"{day}: scraped again after it had succeeded: {scrapes}"
    storages = [
        job for job in campaign.env.writer.watched.values() if campaign.day_of(job.scrape_id) == day
    ]
    stored = [job for job in storages if job.final_answer["status"] != "failed"]
    if (len(storages), len(stored)) != (ending.storages, ending.stored):
        yield (
            f"{day}: {len(storages)} storages, {len(stored)} of them good; expected "
            f"{ending.storages} and {ending.stored}"
        )


def _worker_driven_by_two(campaign: Campaign) -> Iterator[str]:
    for worker in campaign.env.workers:
        for pair in worker.overlapping:
            yield f"{worker.name} ran two jobs at once: {pair}"
        replaced = [span for span in worker.spans if span.replaced]
        if replaced:
            yield (
                f"{worker.name}: {len(replaced)} sessions were replaced while they were open: "
                f"{replaced[:3]}"
            )


def _proxy_used_by_two(campaign: Campaign) -> Iterator[str]:
    spans = [(span, worker.name) for worker in campaign.env.workers for span in worker.spans]
    for proxy in sorted({span.proxy for span, _ in spans}):
        used = [(span.opened, span.closed, name) for span, name in spans if span.proxy == proxy]
        for pair in overlaps(used):
            yield f"{proxy} was used by {pair} at once"


def figures_of(campaign: Campaign) -> dict[str, object]:
    workers = campaign.env.workers
    jobs = [job for worker in workers for job in worker.watched.values()]
    return {
        "seconds": round(campaign.seconds, 1),
        "endings": dict(
            Counter(
                plan.ending.error_code or plan.ending.status
                for plan in campaign.plan.missions.values()
            )
        ),
        "scrape jobs": len(jobs),
        "of them cut short": sum(not job.ran_to_end for job in jobs),
        "sessions": sum(len(worker.spans) for worker in workers),
        "writer jobs": len(campaign.env.writer.created),
        "calls": sum(len(peer.calls) for peer in [*workers, campaign.env.writer]),
        "processes": len(campaign.env.started),
    }
