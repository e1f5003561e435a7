"""Why an execution stalled, in Portuguese, from what was recorded then."""

from __future__ import annotations

from regente.engine.models import Stall


def stall_reason(stall: Stall, codigo: str | None) -> str:
    """`codigo` is the document that the execution waited for."""
    parts = [_cause(stall, codigo)]
    if stall.error_code:
        parts.append(f"Último erro: {stall.error_code}: {stall.error_message}.")
    return " ".join(parts)


def _cause(stall: Stall, codigo: str | None) -> str:
    place = f" na etapa {stall.step}" if stall.step else ""
    if stall.reason == "no_runner":
        where = f" Parou em {codigo}{place}." if codigo else ""
        return (
            f"Nenhum runner ativo atende o pipeline {stall.pipeline}: inicie um com "
            f"`regente run`.{where}"
        )
    if codigo is None:
        return "Nenhum documento avançou."
    since = f" desde {stall.since:%d/%m/%Y %H:%M:%S %Z}" if stall.since else ""
    if stall.status != "running":
        return f"O documento {codigo} espera na fila{since}, e nenhum outro terminou."
    if not stall.runner_alive:
        return f"O runner {stall.runner}, que processava {codigo}{place}, não responde mais{since}."
    where = f"{place} no runner {stall.runner}"
    return f"O documento {codigo} está parado{where}, sem progresso{since}."
