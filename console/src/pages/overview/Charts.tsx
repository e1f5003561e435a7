// Charts of the selected time range.
import { Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { type Stats, type StatsWindow, type Trends, trendsQuery } from "../../api/overview";
import { HAS_MISSIONS } from "../../app/builtins";
import { Chart, type Series } from "../../components/chart/Chart";
import { HorizontalBars, LineChart, StackedColumns } from "../../components/chart/plots";
import { QueryView } from "../../components/States";
import { useStatusName } from "../../components/StatusBadge";
import { isMessageId, useT } from "../../i18n";
import { useFormat } from "../../i18n/format";
import { OverviewCard } from "./cards";
import { sessionPoints, throughputPoints } from "./points";

const PHASES = ["queue", "session", "scrape", "writer", "total"];

export function Charts({ stats, window }: { stats: Stats; window: StatsWindow }) {
  const t = useT();
  const trends = useQuery(trendsQuery(window));
  return (
    <div className="charts">
      <OverviewCard title={t("overview.throughput")}>
        <Throughput stats={stats} />
      </OverviewCard>
      {HAS_MISSIONS && (
        <OverviewCard title={t("overview.proxyHealth")}>
          <QueryView query={trends}>
            {(found) => <ProxyHealth stats={stats} trends={found} />}
          </QueryView>
        </OverviewCard>
      )}
      <OverviewCard title={t("overview.depth")}>
        <QueryView query={trends}>{(found) => <Depth trends={found} />}</QueryView>
      </OverviewCard>
      {HAS_MISSIONS && (
        <OverviewCard title={t("overview.phases")}>
          <Phases stats={stats} />
        </OverviewCard>
      )}
      <OverviewCard title={t("overview.retries")}>
        <QueryView query={trends}>{(found) => <Retries trends={found} />}</QueryView>
      </OverviewCard>
    </div>
  );
}

function Throughput({ stats }: { stats: Stats }) {
  const t = useT();
  const format = useFormat();
  const nameOf = useStatusName();
  const columns = throughputPoints(stats);
  const series: Series[] = [...new Set(stats.throughput.map(({ outcome }) => outcome))]
    .sort()
    .map((id) => ({ id, name: nameOf(id) }));
  const totals = columns.map(({ values }) =>
    Object.values(values).reduce((sum, one) => sum + one, 0),
  );
  const summary = t("overview.throughputSummary", {
    count: totals.reduce((sum, one) => sum + one, 0),
    minutes: Math.round(stats.window_seconds / 60),
  });
  const rows = columns
    .filter((_, index) => totals[index])
    .map(({ at, values }) => [
      format.clock(at),
      ...series.map(({ id }) => format.number(values[id] ?? 0)),
    ]);
  return (
    <Chart
      title={t("overview.throughput")}
      summary={summary}
      legend={series}
      headers={[t("chart.time"), ...series.map(({ name }) => name)]}
      rows={rows}
    >
      <StackedColumns points={columns} series={series} />
    </Chart>
  );
}

function ProxyHealth({ stats, trends }: { stats: Stats; trends: Trends }) {
  const t = useT();
  const format = useFormat();
  const points = sessionPoints(trends, stats.now);
  const series: Series[] = [
    { id: "good", name: t("overview.sessionsGood") },
    { id: "bad", name: t("overview.sessionsFailed") },
  ];
  const sum = (id: string) => points.reduce((total, { values }) => total + (values[id] ?? 0), 0);
  const rows = points
    .filter(({ values }) => values.good || values.bad)
    .map(({ at, values }) => [
      format.clock(at),
      ...series.map(({ id }) => format.number(values[id] ?? 0)),
    ]);
  return (
    <Chart
      title={t("overview.proxyHealth")}
      summary={t("overview.sessionsSummary", {
        good: format.number(sum("good")),
        failed: format.number(sum("bad")),
      })}
      legend={series}
      headers={[t("chart.time"), ...series.map(({ name }) => name)]}
      rows={rows}
    >
      <StackedColumns points={points} series={series} />
    </Chart>
  );
}

function Depth({ trends: { depth } }: { trends: Trends }) {
  const t = useT();
  const format = useFormat();
  const points = depth.map(({ at, waiting }) => ({ at: Date.parse(at), values: { waiting } }));
  const rows = points.map(({ at, values }) => [format.clock(at), format.number(values.waiting)]);
  return (
    <Chart
      title={t("overview.depth")}
      summary={t("overview.depthSummary", { count: depth.at(-1)?.waiting ?? 0 })}
      headers={[t("chart.time"), t("overview.waiting")]}
      rows={rows}
    >
      <LineChart points={points} series={{ id: "waiting", name: t("overview.waiting") }} />
    </Chart>
  );
}

function Phases({ stats: { phases } }: { stats: Stats }) {
  const t = useT();
  const format = useFormat();
  if (!phases.length) return <Text c="dimmed">{t("overview.noPhases")}</Text>;
  const nameOf = (phase: string) =>
    isMessageId(`phase.${phase}`) ? t(`phase.${phase}` as "phase.queue") : phase;
  const span = (ms: number | null) => (ms === null ? "–" : format.duration(ms / 1000));
  const sorted = [...phases].sort((a, b) => PHASES.indexOf(a.phase) - PHASES.indexOf(b.phase));
  const legend = [
    { id: "p50", name: t("overview.median") },
    { id: "p95", name: t("overview.p95") },
  ];
  return (
    <Chart
      title={t("overview.phases")}
      summary={t("overview.phasesSummary")}
      legend={legend}
      headers={[t("overview.phase"), t("overview.median"), t("overview.p95"), t("overview.count")]}
      rows={sorted.map(({ phase, p50_ms, p95_ms, count }) => [
        nameOf(phase),
        span(p50_ms),
        span(p95_ms),
        format.number(count),
      ])}
    >
      <HorizontalBars
        bars={sorted.map(({ phase, p50_ms, p95_ms }) => ({
          name: nameOf(phase),
          values: [
            { id: "p50", value: p50_ms ?? 0, text: span(p50_ms) },
            { id: "p95", value: p95_ms ?? 0, text: span(p95_ms) },
          ],
        }))}
      />
    </Chart>
  );
}

function Retries({ trends: { retries, window_seconds } }: { trends: Trends }) {
  const t = useT();
  const format = useFormat();
  if (!retries.length) return <Text c="dimmed">{t("overview.noRetries")}</Text>;
  const summary = t("overview.retriesSummary", {
    count: retries.reduce((sum, { count }) => sum + count, 0),
    minutes: Math.round(window_seconds / 60),
  });
  return (
    <Chart
      title={t("overview.retries")}
      summary={summary}
      headers={[t("overview.cause"), t("overview.count"), t("overview.last")]}
      rows={retries.map(({ cause, count, last_at }) => [
        cause,
        format.number(count),
        format.time(last_at),
      ])}
    >
      <HorizontalBars
        bars={retries.slice(0, 8).map(({ cause, count }) => ({
          name: cause,
          values: [{ id: "retried", value: count, text: format.number(count) }],
        }))}
      />
    </Chart>
  );
}
