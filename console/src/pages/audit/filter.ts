import type { EventFilter } from "../../api/engine";

export function filterOf(search: URLSearchParams): EventFilter {
  const numbered = (name: string) => {
    const id = Number(search.get(name));
    return Number.isSafeInteger(id) && id > 0 ? id : undefined;
  };
  const [mission, task] = [numbered("mission"), numbered("task")];
  const types = (search.get("types") ?? "").split(/[\s,]+/).filter(Boolean);
  return {
    ...(mission ? { mission_id: mission } : {}),
    ...(task ? { task_id: task } : {}),
    ...(types.length ? { types: types.slice(0, 50) } : {}),
    ...(search.get("worker") ? { worker_id: search.get("worker") ?? "" } : {}),
  };
}

export function exportQuery(filter: EventFilter, format: "csv" | "json"): string {
  const query = new URLSearchParams({ format });
  if (filter.mission_id) query.set("mission_id", String(filter.mission_id));
  if (filter.task_id) query.set("task_id", String(filter.task_id));
  for (const type of filter.types ?? []) query.append("types", type);
  if (filter.worker_id) query.set("worker_id", filter.worker_id);
  return query.toString();
}
