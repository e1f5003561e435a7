import { Alert, Anchor, Card, Group, Table, Text, Title } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { Link } from "wouter";
import { missionCounts } from "../../api/missions";
import { type Stats, orchestrator, startOrchestrator, stats, statsKey, stopOrchestrator } from "../../api/operations";
import { useMay } from "../../app/access";
import { knownId, useT } from "../../i18n";
import { useFormat } from "../../i18n/format";
import { Loaded, PageHead } from "../../parts/States";
import { ActButton, Confirmed } from "../../parts/act";
import { STATUSES } from "../missions/filter";
import { Throughput } from "./Throughput";

const CAUSE: Record<string, string> = {
  DEAD_LETTERS: "/failures", STALLED_BATCHES: "/batches", STUCK_TASKS: "/runners", PROXIES_FAIL: "/fleet", WORKERS_FAIL: "/fleet",
  PROXIES_OUT: "/fleet", NO_PROXY: "/fleet", NO_WORKER: "/fleet", NO_WRITER: "/fleet", NO_RUNNER: "/runners", RUNNERS_LOST: "/runners",
}; // prettier-ignore

const PHASES = ["queue", "session", "scrape", "writer", "total"];

export default function Overview() {
  const t = useT();
  const query = useQuery(stats);
  return (
    <>
      <PageHead title={t("nav.overview")}>
        <Orchestrator />
      </PageHead>
      <Loaded query={query}>
        {(found) => (
          <>
            <Verdict stats={found} />
            <div className="cards">
              <Missions />
              <Queues stats={found} />
              <Fleet stats={found} />
              <Errors stats={found} />
              <Phases stats={found} />
            </div>
            <Part title={t("overview.throughput")}>
              <Throughput stats={found} />
            </Part>
          </>
        )}
      </Loaded>
    </>
  );
}

function Orchestrator() {
  const t = useT();
  const mayAct = useMay("operator");
  const { data } = useQuery(orchestrator);
  if (!data) return null;
  const stale = [["orchestrator"], statsKey];
  return (
    <>
      <Text size="sm" role="status">
        {t(`orchestrator.${data.state}`)}
      </Text>
      {mayAct && data.state === "open" && (
        <Confirmed variant="outline" color="red" act={stopOrchestrator} stale={stale} question={t("orchestrator.stopQuestion")}>
          {t("orchestrator.stop")}
        </Confirmed>
      )}
      {mayAct && data.state !== "open" && (
        <ActButton act={startOrchestrator} stale={stale}>
          {t("orchestrator.start")}
        </ActButton>
      )}
    </>
  );
}

function Verdict({ stats: { attention } }: { stats: Stats }) {
  const t = useT();
  const format = useFormat();
  if (!attention.length) return <Alert color="green" className="verdict" title={t("verdict.fine")} mb="md" />;
  return (
    <Alert color="orange" className="verdict" title={t("verdict.needs", { count: attention.length })} mb="md">
      <ul className="needs">
        {attention.map(({ code, count, message }) => {
          const id = `attention.${code}`;
          const text = knownId(id) ? t(id, { count }) : `${format.number(count)} ${message}`;
          return <li key={code}>{CAUSE[code] ? <Anchor component={Link} href={CAUSE[code]}>{text}</Anchor> : text}</li>;
        })}
      </ul>
    </Alert>
  );
}

function Part({ title, children }: { title: string; children: ReactNode }) {
  return (
    <Card withBorder>
      <Title order={2} size="h5" mb="xs">
        {title}
      </Title>
      {children}
    </Card>
  );
}

function Figures({ rows }: { rows: [name: ReactNode, value: ReactNode][] }) {
  return (
    <dl className="figures">
      {rows.map(([name, value], index) => (
        <Group key={index} justify="space-between" wrap="nowrap">
          <dt>{name}</dt>
          <dd>{value}</dd>
        </Group>
      ))}
    </dl>
  );
}

function Missions() {
  const t = useT();
  const format = useFormat();
  const { data } = useQuery(missionCounts);
  const rows = STATUSES.map((status): [ReactNode, ReactNode] => [
    <Anchor key={status} component={Link} href={`/missions?status=${status}`}>
      {t(`status.${status}`)}
    </Anchor>,
    data ? `${format.number(data[status])}${data.capped.includes(status) ? "+" : ""}` : "–",
  ]);
  return (
    <Part title={t("nav.missions")}>
      <Figures rows={rows} />
    </Part>
  );
}

function Queues({ stats: { queues } }: { stats: Stats }) {
  const t = useT();
  const format = useFormat();
  return (
    <Part title={t("overview.queues")}>
      {queues.length ? (
        <Table>
          <Table.Thead>
            <Table.Tr>
              <Table.Th>{t("overview.pipeline")}</Table.Th>
              <Table.Th className="right">{t("overview.due")}</Table.Th>
              <Table.Th className="right">{t("status.running")}</Table.Th>
              <Table.Th className="right">{t("overview.oldest")}</Table.Th>
            </Table.Tr>
          </Table.Thead>
          <Table.Tbody>
            {queues.map((queue) => (
              <Table.Tr key={queue.pipeline}>
                <Table.Td>{queue.pipeline}</Table.Td>
                <Table.Td className="right">{format.number(queue.due)}</Table.Td>
                <Table.Td className="right">{format.number(queue.running)}</Table.Td>
                <Table.Td className="right">{queue.oldest_waiting_seconds === null ? "–" : format.span(queue.oldest_waiting_seconds)}</Table.Td>
              </Table.Tr>
            ))}
          </Table.Tbody>
        </Table>
      ) : (
        <Text c="dimmed">{t("overview.noQueues")}</Text>
      )}
    </Part>
  );
}

function Fleet({ stats: { health } }: { stats: Stats }) {
  const t = useT();
  const format = useFormat();
  const workers = Object.entries(health.workers).map(([state, count]) => {
    const id = `status.${state}`;
    return `${format.number(count)} ${knownId(id) ? t(id) : state}`;
  });
  return (
    <Part title={t("nav.fleet")}>
      <Figures
        rows={[
          [<Anchor key="w" component={Link} href="/fleet">{t("fleet.workers")}</Anchor>, workers.join(", ") || "0"],
          [t("fleet.proxies"), t("overview.proxies", { active: health.active_proxies, used: health.proxies_in_use, failing: health.failing_proxies })],
          [t("fleet.writers"), format.number(health.active_writers)],
          [<Anchor key="r" component={Link} href="/runners">{t("nav.runners")}</Anchor>, format.number(health.runners)],
        ]}
      />
    </Part>
  );
}

function Errors({ stats: { errors } }: { stats: Stats }) {
  const t = useT();
  const format = useFormat();
  return (
    <Part title={t("overview.errors")}>
      {errors.length ? (
        <Figures rows={errors.slice(0, 8).map(({ pipeline, code, tasks }) => [<Anchor key="e" component={Link} href="/failures">{`${code ?? "?"} · ${pipeline}`}</Anchor>, format.number(tasks)])} />
      ) : (
        <Text c="dimmed">{t("overview.noErrors")}</Text>
      )}
    </Part>
  );
}

function Phases({ stats: { phases } }: { stats: Stats }) {
  const t = useT();
  const format = useFormat();
  const span = (ms: number | null) => (ms === null ? "–" : format.span(ms / 1000));
  return (
    <Part title={t("overview.phases")}>
      {phases.length ? (
        <Figures
          rows={[...phases].sort((a, b) => PHASES.indexOf(a.phase) - PHASES.indexOf(b.phase)).map(({ phase, p50_ms, p95_ms }) => {
            const id = `lane.${phase}`;
            return [knownId(id) ? t(id) : phase, `${span(p50_ms)} · ${span(p95_ms)}`];
          })}
        />
      ) : (
        <Text c="dimmed">{t("overview.noPhases")}</Text>
      )}
    </Part>
  );
}
