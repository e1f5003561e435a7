// How it went over the last minutes or hours.
import { Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { type Stats, type Trends, trendsOver, type Window } from "../../api/operations";
import { knownId, useT } from "../../i18n";
import { useFormat } from "../../i18n/format";
import { Chart, type Series } from "../../parts/chart/Chart";
import { Bars, Columns, Line } from "../../parts/chart/plots";
import { Loaded } from "../../parts/States";
import { useStatusName } from "../../parts/Status";
import { Part } from "./cards";
import { columnsOf, sessionsOf } from "./throughput";

const PHASES = ["queue", "session", "scrape", "writer", "total"];

export function Charts({ stats, window }: { stats: Stats; window: Window }) {
  const t = useT();
  const trends = useQuery(trendsOver(window));
  return (
    <div className="charts">
      <Part title={t("overview.throughput")}>
        <Throughput stats={stats} />
      </Part>
      <Part title={t("overview.proxyHealth")}>
        <Loaded query={trends}>{(found) => <ProxyHealth stats={stats} trends={found} />}</Loaded>
      </Part>
      <Part title={t("overview.depth")}>
        <Loaded query={trends}>{(found) => <Depth trends={found} />}</Loaded>
      </Part>
      <Part title={t("overview.phases")}>
        <Phases stats={stats} />
      </Part>
      <Part title={t("overview.retries")}>
        <Loaded query={trends}>{(found) => <Retries trends={found} />}</Loaded>
      </Part>
    </div>
  );
}

function Throughput({ stats }: { stats: Stats }) {
  const t = useT();
  const format = useFormat();
  const nameOf = useStatusName();
  const columns = columnsOf(stats);
  const series: Series[] = [...new Set(stats.throughput.map(({ outcome }) => outcome))]
    .sort()
    .map((id) => ({ id, name: nameOf(id) }));
  const totals = columns.map(({ values }) =>
    Object.values(values).reduce((sum, one) => sum + one, 0),
  );
  const told = t("overview.ended", {
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
      told={told}
      legend={series}
      heads={[t("chart.time"), ...series.map(({ name }) => name)]}
      rows={rows}
    >
      <Columns points={columns} series={series} />
    </Chart>
  );
}

function ProxyHealth({ stats, trends }: { stats: Stats; trends: Trends }) {
  const t = useT();
  const format = useFormat();
  const points = sessionsOf(trends, stats.now);
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
      told={t("overview.sessionsTold", {
        good: format.number(sum("good")),
        failed: format.number(sum("bad")),
      })}
      legend={series}
      heads={[t("chart.time"), ...series.map(({ name }) => name)]}
      rows={rows}
    >
      <Columns points={points} series={series} />
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
      told={t("overview.depthTold", { count: depth.at(-1)?.waiting ?? 0 })}
      heads={[t("chart.time"), t("overview.due")]}
      rows={rows}
    >
      <Line points={points} series={{ id: "waiting", name: t("overview.due") }} />
    </Chart>
  );
}

function Phases({ stats: { phases } }: { stats: Stats }) {
  const t = useT();
  const format = useFormat();
  if (!phases.length) return <Text c="dimmed">{t("overview.noPhases")}</Text>;
  const nameOf = (phase: string) =>
    knownId(`lane.${phase}`) ? t(`lane.${phase}` as "lane.queue") : phase;
  const span = (ms: number | null) => (ms === null ? "–" : format.span(ms / 1000));
  const sorted = [...phases].sort((a, b) => PHASES.indexOf(a.phase) - PHASES.indexOf(b.phase));
  const legend = [
    { id: "p50", name: t("overview.median") },
    { id: "p95", name: t("overview.p95") },
  ];
  return (
    <Chart
      title={t("overview.phases")}
      told={t("overview.phasesTold")}
      legend={legend}
      heads={[t("overview.phase"), t("overview.median"), t("overview.p95"), t("overview.count")]}
      rows={sorted.map(({ phase, p50_ms, p95_ms, count }) => [
        nameOf(phase),
        span(p50_ms),
        span(p95_ms),
        format.number(count),
      ])}
    >
      <Bars
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
  const told = t("overview.retriesTold", {
    count: retries.reduce((sum, { count }) => sum + count, 0),
    minutes: Math.round(window_seconds / 60),
  });
  return (
    <Chart
      title={t("overview.retries")}
      told={told}
      heads={[t("overview.cause"), t("overview.count"), t("overview.last")]}
      rows={retries.map(({ cause, count, last_at }) => [
        cause,
        format.number(count),
        format.time(last_at),
      ])}
    >
      <Bars
        bars={retries.slice(0, 8).map(({ cause, count }) => ({
          name: cause,
          values: [{ id: "retried", value: count, text: format.number(count) }],
        }))}
      />
    </Chart>
  );
}
