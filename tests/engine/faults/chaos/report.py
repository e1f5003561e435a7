"""What a campaign prints: its plan, and the verdicts."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from tests.engine.faults.chaos.checker import Finding
from tests.engine.faults.chaos.plan import Plan

EVIDENCE_LINES = 10


def show_plan(console: Console, plan: Plan) -> None:
    console.print(
        f"seed {plan.seed}: {plan.tasks} tasks, {len(plan.faults)} faults over "
        f"{plan.feed_seconds:.0f} s"
    )
    for fault in plan.faults:
        console.print(f"  {fault}")


def show_findings(console: Console, plan: Plan, findings: list[Finding]) -> None:
    table = Table(title=f"seed {plan.seed}", show_lines=False)
    for heading in ("", "check", "found"):
        table.add_column(heading)
    for finding in findings:
        evidence = "\n".join(finding.faults[:EVIDENCE_LINES])
        more = f"\n… {len(finding.faults)} in all" if len(finding.faults) > EVIDENCE_LINES else ""
        verdict = "[green]holds[/]" if finding.holds else "[red]BROKEN[/]"
        table.add_row(
            verdict,
            finding.check,
            finding.detail + (f"\n{evidence}{more}" if finding.faults else ""),
        )
    console.print(table)
