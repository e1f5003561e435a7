// Columns of the mission table: title, width and cell of each.
import type { ReactNode } from "react";
import { Link } from "wouter";
import type { Mission } from "../../api/missions";
import { StatusBadge } from "../../components/StatusBadge";
import type { MessageId, Translate } from "../../i18n";
import type { Format } from "../../i18n/format";

interface MissionColumn {
  title: MessageId;
  width: string;
  // A column without phoneWidth is hidden on phones.
  phoneWidth?: string;
  cell: (mission: Mission, format: Format, t: Translate) => ReactNode;
}

const SELECT_WIDTH = "30px";

export const COLUMNS: readonly MissionColumn[] = [
  {
    title: "mission.id",
    width: "46px",
    phoneWidth: "44px",
    cell: ({ id }) => <Link href={`/missions/${id}`}>{id}</Link>,
  },
  {
    title: "mission.status",
    width: "104px",
    phoneWidth: "minmax(104px, 1fr)",
    cell: ({ status, canceling }, _, t) =>
      canceling && status === "running" ? (
        <span className="quiet">{t("mission.canceling")}</span>
      ) : (
        <StatusBadge status={status} />
      ),
  },
  {
    title: "mission.checkpoint",
    width: "94px",
    cell: ({ checkpoint }, _, t) => checkpoint && t(`checkpoint.${checkpoint}`),
  },
  {
    title: "mission.days",
    width: "minmax(82px, 1.3fr)",
    phoneWidth: "minmax(84px, 1fr)",
    cell: ({ date_start, date_end }, format) => format.days(date_start, date_end),
  },
  {
    title: "mission.media",
    width: "58px",
    cell: ({ media_type }, _, t) =>
      media_type === "video" || media_type === "image" || media_type === "all"
        ? t(`media.${media_type}`)
        : media_type,
  },
  {
    title: "mission.language",
    width: "66px",
    cell: ({ languages }) => languages.join(", "),
  },
  {
    title: "mission.progress",
    width: "70px",
    phoneWidth: "52px",
    cell: ({ progress, status }) =>
      progress !== null && status === "running" ? `${Math.round(progress * 100)} %` : "",
  },
  {
    title: "mission.worker",
    width: "minmax(96px, 1fr)",
    cell: ({ worker_name }) => worker_name,
  },
  {
    title: "mission.proxy",
    width: "minmax(88px, 1fr)",
    cell: ({ proxy_used }) => proxy_used,
  },
  {
    title: "mission.attempt",
    width: "58px",
    cell: ({ attempt, retry_count }) =>
      retry_count ? `${attempt} (↻ ${retry_count})` : attempt || "",
  },
  {
    title: "mission.error",
    width: "72px",
    cell: ({ error_code }) => error_code && <span className="code">{error_code}</span>,
  },
  {
    title: "mission.age",
    width: "72px",
    cell: ({ created_at }, format) => format.ago(created_at),
  },
];

const template = (widths: (string | undefined)[]): string =>
  [SELECT_WIDTH, ...widths.filter(Boolean)].join(" ");

// Custom properties that MissionTable.css uses as grid templates.
export const GRID_TEMPLATES: Record<`--${string}`, string> = {
  "--columns": template(COLUMNS.map(({ width }) => width)),
  "--phone-columns": template(COLUMNS.map(({ phoneWidth }) => phoneWidth)),
};
