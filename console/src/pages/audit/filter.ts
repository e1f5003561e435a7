import type { EventFilter } from "../../api/engine";

export const FIELDS = ["mission", "task", "batch", "types", "worker", "since", "until"] as const;

// The field holds local time; the API takes UTC.
const moment = (value: string | null): string | undefined => {
  const at = value ? new Date(value) : null;
  return at && !Number.isNaN(at.getTime()) ? at.toISOString() : undefined;
};

export function filterOf(search: URLSearchParams): EventFilter {
  const numbered = (name: string) => {
    const id = Number(search.get(name));
    return Number.isSafeInteger(id) && id > 0 ? id : undefined;
  };
  const types = (search.get("types") ?? "").split(/[\s,]+/).filter(Boolean);
  const found: EventFilter = {
    mission_id: numbered("mission"),
    task_id: numbered("task"),
    batch_id: numbered("batch"),
    types: types.length ? types.slice(0, 50) : undefined,
    worker_id: search.get("worker") || undefined,
    since: moment(search.get("since")),
    until: moment(search.get("until")),
  };
  return Object.fromEntries(Object.entries(found).filter(([, value]) => value !== undefined));
}

export function exportQuery({ types, ...rest }: EventFilter, format: "csv" | "json"): string {
  const query = new URLSearchParams({ format });
  for (const [name, value] of Object.entries(rest)) query.set(name, String(value));
  for (const type of types ?? []) query.append("types", type);
  return query.toString();
}
