// The overview's figures of the moment.
import { Anchor, Card, Group, Table, Text, Title } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { Link } from "wouter";
import { missionCounts } from "../../api/missions";
import type { Stats } from "../../api/operations";
import { knownId, useT } from "../../i18n";
import { useFormat } from "../../i18n/format";
import { STATUSES } from "../missions/filter";

export function Part({ title, children }: { title: string; children: ReactNode }) {
  return (
    <Card withBorder component="section" aria-label={title}>
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
        <Group key={index} justify="space-between" wrap="nowrap" align="baseline">
          <dt>{name}</dt>
          <dd>{value}</dd>
        </Group>
      ))}
    </dl>
  );
}

export function Missions() {
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

// What waits is all that is queued: a mission is held until a worker is ready for it, and waits all the same.
export function Queues({ stats: { queues } }: { stats: Stats }) {
  const t = useT();
  const format = useFormat();
  return (
    <Part title={t("overview.queues")}>
      {queues.length ? (
        <Table className="tight">
          <Table.Thead>
            <Table.Tr>
              <Table.Th>{t("overview.pipeline")}</Table.Th>
              <Table.Th className="right">{t("overview.due")}</Table.Th>
              <Table.Th className="right">{t("overview.running")}</Table.Th>
              <Table.Th className="right">{t("overview.oldest")}</Table.Th>
            </Table.Tr>
          </Table.Thead>
          <Table.Tbody>
            {queues.map((queue) => (
              <Table.Tr key={queue.pipeline}>
                <Table.Td className="breaks">{queue.pipeline}</Table.Td>
                <Table.Td className="right">{format.number(queue.queued)}</Table.Td>
                <Table.Td className="right">{format.number(queue.running)}</Table.Td>
                <Table.Td className="right">
                  {queue.oldest_waiting_seconds === null
                    ? "–"
                    : format.span(queue.oldest_waiting_seconds)}
                </Table.Td>
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

export function Fleet({ stats: { health } }: { stats: Stats }) {
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
          [
            <Anchor key="w" component={Link} href="/fleet">
              {t("fleet.workers")}
            </Anchor>,
            workers.join(", ") || "0",
          ],
          [
            <Anchor key="p" component={Link} href="/fleet">
              {t("fleet.proxies")}
            </Anchor>,
            t("overview.proxies", {
              active: health.active_proxies,
              used: health.proxies_in_use,
              failing: health.failing_proxies,
            }),
          ],
          [
            <Anchor key="s" component={Link} href="/fleet">
              {t("fleet.writers")}
            </Anchor>,
            format.number(health.active_writers),
          ],
          [
            <Anchor key="r" component={Link} href="/runners">
              {t("nav.runners")}
            </Anchor>,
            format.number(health.runners),
          ],
        ]}
      />
    </Part>
  );
}

export function Errors({ stats: { errors } }: { stats: Stats }) {
  const t = useT();
  const format = useFormat();
  return (
    <Part title={t("overview.errors")}>
      {errors.length ? (
        <Figures
          rows={errors
            .slice(0, 8)
            .map(({ pipeline, code, tasks }) => [
              <Anchor
                key="e"
                component={Link}
                href="/failures"
              >{`${code ?? "?"} · ${pipeline}`}</Anchor>,
              format.number(tasks),
            ])}
        />
      ) : (
        <Text c="dimmed">{t("overview.noErrors")}</Text>
      )}
    </Part>
  );
}
