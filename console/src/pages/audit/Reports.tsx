// Reports: mission timeline, failed missions, worker performance, problem proxies.
import { NativeSelect, TextInput } from "@mantine/core";
import { type UseQueryResult, useQuery } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { Link, useSearchParams } from "wouter";
import {
  failureReportQuery,
  proxyReportQuery,
  timelineReportQuery,
  workerReportQuery,
} from "../../api/reports";
import { type Columns, DataTable } from "../../components/DataTable";
import { EmptyState, QueryView } from "../../components/States";
import { StatusBadge } from "../../components/StatusBadge";
import { useT } from "../../i18n";
import { useFormat } from "../../i18n/format";
import { PhaseTimeline } from "../mission/PhaseTimeline";

function Report<T>({
  query,
  ...table
}: {
  query: UseQueryResult<T[]>;
  label: string;
  columns: Columns<T>;
  keyOf: (row: T) => string;
}) {
  const t = useT();
  return (
    <QueryView query={query}>
      {(rows) =>
        rows.length ? (
          <DataTable {...table} rows={rows} minWidth={600} />
        ) : (
          <EmptyState>{t("audit.none")}</EmptyState>
        )
      }
    </QueryView>
  );
}

// The time range of a report, kept in the search parameters.
function useWindow(
  name: "hours" | "days",
  choices: readonly number[],
  usual: number,
): [number, ReactNode] {
  const t = useT();
  const [search, setSearch] = useSearchParams();
  const chosen = choices.find((one) => String(one) === search.get(name)) ?? usual;
  const change = (value: string) =>
    setSearch(
      (now) => {
        const next = new URLSearchParams(now);
        next.set(name, value);
        return next;
      },
      { replace: true },
    );
  const select = (
    <NativeSelect
      size="xs"
      w={120}
      mb="md"
      label={t(`audit.${name}`)}
      value={chosen}
      data={choices.map(String)}
      onChange={(event) => change(event.currentTarget.value)}
    />
  );
  return [chosen, select];
}

export function FailureReport() {
  const t = useT();
  const format = useFormat();
  const [hours, select] = useWindow("hours", [1, 6, 24, 168, 720], 24);
  return (
    <>
      {select}
      <Report
        label={t("audit.tab.failures")}
        query={useQuery(failureReportQuery(hours))}
        keyOf={(row) => `${row.mission_id}${row.failed_at}`}
        columns={[
          [
            t("audit.mission"),
            (row) => <Link href={`/missions/${row.mission_id}`}>{row.mission_id}</Link>,
          ],
          [t("mission.status"), (row) => <StatusBadge status={row.status} />],
          [t("mission.error"), (row) => <span className="code">{row.error_code}</span>],
          [t("audit.message"), (row) => row.error_message],
          [t("mission.retries"), (row) => row.retry_count],
          [
            t("audit.failedAt"),
            (row) => <span className="nowrap">{format.time(row.failed_at)}</span>,
          ],
        ]}
      />
    </>
  );
}

export function WorkerReport() {
  const t = useT();
  const format = useFormat();
  const [days, select] = useWindow("days", [1, 7, 30, 90], 7);
  return (
    <>
      {select}
      <Report
        label={t("audit.tab.workers")}
        query={useQuery(workerReportQuery(days))}
        keyOf={(row) => row.worker_id}
        columns={[
          [t("mission.worker"), (row) => row.worker_name],
          [t("audit.completed"), (row) => format.number(row.completed_count)],
          [t("audit.failed"), (row) => format.number(row.failed_count)],
          [
            t("audit.average"),
            (row) =>
              row.avg_duration_ms === null ? "–" : format.duration(row.avg_duration_ms / 1000),
          ],
        ]}
      />
    </>
  );
}

export function ProxyReport() {
  const t = useT();
  const format = useFormat();
  const [days, select] = useWindow("days", [1, 7, 30, 90], 7);
  return (
    <>
      {select}
      <Report
        label={t("audit.tab.proxies")}
        query={useQuery(proxyReportQuery(days))}
        keyOf={(row) => row.proxy_id}
        columns={[
          [t("mission.proxy"), (row) => row.name],
          [t("field.host"), (row) => row.host],
          [t("fleet.state"), (row) => <StatusBadge status={row.active ? "valid" : "inactive"} />],
          [t("fleet.failures"), (row) => format.number(row.fail_count)],
          [t("audit.sessionFailures"), (row) => format.number(row.session_failures)],
          [t("audit.rotations"), (row) => format.number(row.rotations)],
        ]}
      />
    </>
  );
}

export function TimelineReport() {
  const t = useT();
  const format = useFormat();
  const [search, setSearch] = useSearchParams();
  const id = Number(search.get("mission"));
  const known = Number.isSafeInteger(id) && id > 0;
  const timeline = useQuery({ ...timelineReportQuery(id), enabled: known });
  return (
    <>
      <TextInput
        size="xs"
        w={120}
        mb="md"
        inputMode="numeric"
        label={t("audit.mission")}
        value={search.get("mission") ?? ""}
        onChange={(event) =>
          setSearch({ report: "timeline", mission: event.currentTarget.value }, { replace: true })
        }
      />
      {known ? (
        <>
          {timeline.data && timeline.data.length > 0 && (
            <PhaseTimeline events={timeline.data} ended={timeline.data.at(-1)?.timestamp ?? null} />
          )}
          <Report
            label={t("audit.tab.timeline")}
            query={timeline}
            keyOf={(row) => `${row.timestamp}${row.event}${JSON.stringify(row.details)}`}
            columns={[
              [
                t("audit.at"),
                (row) => <span className="nowrap">{format.time(row.timestamp)}</span>,
              ],
              [t("audit.event"), (row) => <span className="code">{row.event}</span>],
              [
                t("audit.details"),
                (row) => (
                  <span className="details">{row.details && JSON.stringify(row.details)}</span>
                ),
              ],
            ]}
          />
        </>
      ) : (
        <EmptyState>{t("audit.whichMission")}</EmptyState>
      )}
    </>
  );
}
