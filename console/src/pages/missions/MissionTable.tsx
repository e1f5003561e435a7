// A virtual table: only the rows in view are in the document. A row is a grid that is positioned by
// its index, which <table> elements do not allow, so the roles are written out.
// biome-ignore-all lint/a11y/useSemanticElements: see above
// biome-ignore-all lint/a11y/useFocusableInteractive: rows of a table, unlike those of a grid, take no focus
import { Checkbox } from "@mantine/core";
import { useVirtualizer } from "@tanstack/react-virtual";
import { useEffect, useRef } from "react";
import type { Mission } from "../../api/missions";
import { useT } from "../../i18n";
import { useFormat } from "../../i18n/format";
import { COLUMNS, GRID_TEMPLATES } from "./columns";
import "./MissionTable.css";
import { isSelected, type Selected } from "./selection";

const ROW_HEIGHT = 40;
const ROWS_LEFT_TO_FETCH_MORE = 30;

interface TableProps {
  missions: Mission[];
  selected: Selected;
  toggle: (id: number) => void;
  toggleAll: () => void;
  more: (() => void) | null;
  visible: (ids: number[]) => void;
  pointer: (over: boolean) => void;
}

export function MissionTable({
  missions,
  selected,
  toggle,
  toggleAll,
  more,
  visible,
  pointer,
}: TableProps) {
  const t = useT();
  const scroll = useRef<HTMLDivElement>(null);
  const rows = useVirtualizer({
    count: missions.length,
    getScrollElement: () => scroll.current,
    estimateSize: () => ROW_HEIGHT,
    overscan: 12,
  });
  const shown = rows.getVirtualItems();
  const last = shown.at(-1)?.index ?? 0;
  const first = shown[0]?.index ?? 0;
  useEffect(() => {
    if (more && last >= missions.length - ROWS_LEFT_TO_FETCH_MORE) more();
  }, [more, last, missions.length]);
  useEffect(
    () => visible(missions.slice(first, last + 1).map(({ id }) => id)),
    [visible, missions, first, last],
  );
  const allSelected = missions.length > 0 && missions.every(({ id }) => isSelected(selected, id));
  return (
    <div
      className="grid-scroll"
      ref={scroll}
      // biome-ignore lint/a11y/noNoninteractiveTabindex: a scrollable region takes the keyboard focus
      tabIndex={0}
      role="region"
      aria-label={t("nav.missions")}
    >
      <div
        role="table"
        aria-rowcount={missions.length + 1}
        aria-label={t("nav.missions")}
        className="grid"
        style={GRID_TEMPLATES}
      >
        <div role="row" className="grid-row grid-head" aria-rowindex={1}>
          <span role="columnheader">
            <Checkbox
              size="xs"
              aria-label={t("bulk.loaded")}
              checked={allSelected}
              onChange={toggleAll}
            />
          </span>
          {COLUMNS.map(({ title, phoneWidth }) => (
            <span role="columnheader" key={title} data-phone={phoneWidth !== undefined}>
              {t(title)}
            </span>
          ))}
        </div>
        <div
          role="rowgroup"
          className="grid-body"
          style={{ height: rows.getTotalSize() }}
          onPointerEnter={() => pointer(true)}
          onPointerLeave={() => pointer(false)}
        >
          {shown.map(({ index, start }) => {
            const mission = missions[index];
            return (
              mission && (
                <Row
                  key={mission.id}
                  mission={mission}
                  index={index}
                  top={start}
                  checked={isSelected(selected, mission.id)}
                  toggle={() => toggle(mission.id)}
                />
              )
            );
          })}
        </div>
      </div>
    </div>
  );
}

interface RowProps {
  mission: Mission;
  index: number;
  top: number;
  checked: boolean;
  toggle: () => void;
}

function Row({ mission, index, top, checked, toggle }: RowProps) {
  const t = useT();
  const format = useFormat();
  return (
    <div
      role="row"
      aria-rowindex={index + 2}
      className="grid-row"
      data-on={checked}
      style={{ transform: `translateY(${top}px)` }}
    >
      <span role="cell">
        <Checkbox
          size="xs"
          aria-label={t("mission.select", { id: mission.id })}
          checked={checked}
          onChange={toggle}
        />
      </span>
      {COLUMNS.map(({ title, phoneWidth, cell }) => (
        <span role="cell" key={title} data-phone={phoneWidth !== undefined}>
          {cell(mission, format, t)}
        </span>
      ))}
    </div>
  );
}
