// Only the rows in sight exist. A row shows its mission as it is now, but never moves while one looks at it.
import { Checkbox } from "@mantine/core";
import { useVirtualizer } from "@tanstack/react-virtual";
import { type ReactNode, useEffect, useRef } from "react";
import { Link } from "wouter";
import type { Mission } from "../../api/missions";
import { type MessageId, useT } from "../../i18n";
import { type Format, useFormat } from "../../i18n/format";
import { Status } from "../../parts/Status";
import { isSelected, type Selected } from "./selection";

const ROW = 40;
const NEAR_END = 30;

type Column = [
  title: MessageId,
  cell: (mission: Mission, format: Format, t: ReturnType<typeof useT>) => ReactNode,
];

const COLUMNS: Column[] = [
  ["mission.id", ({ id }) => <Link href={`/missions/${id}`}>{id}</Link>],
  [
    "mission.status",
    ({ status, canceling }, _, t) =>
      canceling && status === "running" ? (
        <span className="quiet">{t("mission.canceling")}</span>
      ) : (
        <Status of={status} />
      ),
  ],
  ["mission.checkpoint", ({ checkpoint }, _, t) => checkpoint && t(`checkpoint.${checkpoint}`)],
  ["mission.days", ({ date_start, date_end }, format) => format.days(date_start, date_end)],
  [
    "mission.media",
    ({ media_type }, _, t) =>
      media_type === "video" || media_type === "image" || media_type === "all"
        ? t(`media.${media_type}`)
        : media_type,
  ],
  ["mission.language", ({ languages }) => languages.join(", ")],
  [
    "mission.progress",
    ({ progress, status }) =>
      progress !== null && status === "running" ? `${Math.round(progress * 100)} %` : "",
  ],
  ["mission.worker", ({ worker_name }) => worker_name],
  ["mission.proxy", ({ proxy_used }) => proxy_used],
  [
    "mission.attempt",
    ({ attempt, retry_count }) => (retry_count ? `${attempt} (↻ ${retry_count})` : attempt || ""),
  ],
  ["mission.error", ({ error_code }) => error_code && <span className="code">{error_code}</span>],
  ["mission.age", ({ created_at }, format) => format.ago(created_at)],
];

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
    estimateSize: () => ROW,
    overscan: 12,
  });
  const shown = rows.getVirtualItems();
  const last = shown.at(-1)?.index ?? 0;
  const first = shown[0]?.index ?? 0;
  useEffect(() => {
    if (more && last >= missions.length - NEAR_END) more();
  }, [more, last, missions.length]);
  useEffect(
    () => visible(missions.slice(first, last + 1).map(({ id }) => id)),
    [visible, missions, first, last],
  );
  const every = missions.length > 0 && missions.every(({ id }) => isSelected(selected, id));
  return (
    <div
      className="grid-scroll"
      ref={scroll}
      tabIndex={0}
      role="region"
      aria-label={t("nav.missions")}
    >
      <div
        role="table"
        aria-rowcount={missions.length + 1}
        aria-label={t("nav.missions")}
        className="grid"
      >
        <div role="row" className="grid-row grid-head" aria-rowindex={1}>
          <span role="columnheader">
            <Checkbox
              size="xs"
              aria-label={t("bulk.loaded")}
              checked={every}
              onChange={toggleAll}
            />
          </span>
          {COLUMNS.map(([title]) => (
            <span role="columnheader" key={title} data-column={title}>
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
                  on={isSelected(selected, mission.id)}
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
  on: boolean;
  toggle: () => void;
}

function Row({ mission, index, top, on, toggle }: RowProps) {
  const t = useT();
  const format = useFormat();
  return (
    <div
      role="row"
      aria-rowindex={index + 2}
      className="grid-row"
      data-on={on}
      style={{ transform: `translateY(${top}px)` }}
    >
      <span role="cell">
        <Checkbox
          size="xs"
          aria-label={t("mission.select", { id: mission.id })}
          checked={on}
          onChange={toggle}
        />
      </span>
      {COLUMNS.map(([title, cell]) => (
        <span role="cell" key={title} data-column={title}>
          {cell(mission, format, t)}
        </span>
      ))}
    </div>
  );
}
