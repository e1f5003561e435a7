// A selection: some missions by id, or all that match the filter.
import type { Mission, MissionFilter, MissionSelection } from "../../api/missions";

export type Selected = { all: false; ids: ReadonlySet<number> } | { all: true };

export const NO_SELECTION: Selected = { all: false, ids: new Set() };

export const isSelected = (selected: Selected, id: number): boolean =>
  selected.all || selected.ids.has(id);

export function toggleSelection(
  selected: Selected,
  id: number,
  loaded: readonly Mission[],
): Selected {
  const ids = new Set(selected.all ? loaded.map((mission) => mission.id) : selected.ids);
  if (!ids.delete(id)) ids.add(id);
  return { all: false, ids };
}

export const selectAll = (loaded: readonly Mission[]): Selected => ({
  all: false,
  ids: new Set(loaded.map(({ id }) => id)),
});

export const selectionRequest = (
  selected: Selected,
  filter: MissionFilter,
): Omit<MissionSelection, "dry_run"> => (selected.all ? { filter } : { ids: [...selected.ids] });
