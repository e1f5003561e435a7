// The filter of the list is kept in the search parameters, so that links contain it.
import type { MissionFilter, MissionStatus } from "../../api/missions";

export const STATUSES: MissionStatus[] = [
  "draft",
  "queued",
  "running",
  "completed",
  "failed",
  "canceled",
];
export const CHECKPOINTS = ["atribuido", "extracao", "armazenamento", "finalizado"] as const;
export const MEDIA_TYPES = ["all", "video", "image"] as const;

const DAY = /^\d{4}-\d{2}-\d{2}$/;

function parseOption<T extends string>(value: string | null, known: readonly T[]): T | undefined {
  return known.find((one) => one === value);
}

// Invalid values are ignored.
export function filterOf(search: URLSearchParams): MissionFilter {
  const statuses = STATUSES.filter((status) => search.getAll("status").includes(status));
  const text = (name: string) => search.get(name)?.trim() || undefined;
  const day = (name: string) =>
    DAY.test(search.get(name) ?? "") ? (search.get(name) ?? undefined) : undefined;
  const found: MissionFilter = {
    statuses: statuses.length ? statuses : undefined,
    checkpoint: parseOption(search.get("checkpoint"), CHECKPOINTS),
    media_type: parseOption(search.get("media"), MEDIA_TYPES),
    language: text("language"),
    date_from: day("from"),
    date_to: day("to"),
    worker_id: text("worker"),
    proxy: text("proxy"),
    error_code: text("code"),
  };
  return Object.fromEntries(Object.entries(found).filter(([, value]) => value !== undefined));
}

export function withParam(
  search: URLSearchParams,
  name: string,
  values: readonly string[],
): URLSearchParams {
  const next = new URLSearchParams(search);
  next.delete(name);
  for (const value of values) if (value) next.append(name, value);
  return next;
}

export const isEmpty = (filter: MissionFilter): boolean => Object.keys(filter).length === 0;
