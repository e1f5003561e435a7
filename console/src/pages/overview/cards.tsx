// Cards with current counts.
import { Anchor, Card, Group, Text, Title } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { Link } from "wouter";
import { type MissionStatus, missionCountsQuery } from "../../api/missions";
import type { Stats } from "../../api/overview";
import { HAS_MISSIONS } from "../../app/builtins";
import { type Columns, DataTable } from "../../components/DataTable";
import { useStatusName } from "../../components/StatusBadge";
import { useT } from "../../i18n";
import { useFormat } from "../../i18n/format";
import { STATUSES } from "../missions/filter";

export function OverviewCard({ title, children }: { title: string; children: ReactNode }) {
  return (
    <Card withBorder component="section" aria-label={title}>
      <Title order={2} size="h5" mb="xs">
        {title}
      </Title>
      {children}
    </Card>
  );
}

interface Count {
  name: string;
  href: string;
  value: string;
}

function Counts({ counts }: { counts: Count[] }) {
  return (
    <dl className="counts">
      {counts.map(({ name, href, value }) => (
        <Group key={name} justify="space-between" wrap="nowrap" align="baseline">
          <dt>
            <Anchor component={Link} href={href}>
              {name}
            </Anchor>
          </dt>
          <dd>{value}</dd>
        </Group>
      ))}
    </dl>
  );
}

export function Missions() {
  const t = useT();
  const format = useFormat();
  const { data } = useQuery(missionCountsQuery);
  const countOf = (status: MissionStatus) =>
    data ? `${format.number(data[status])}${data.capped.includes(status) ? "+" : ""}` : "–";
  return (
    <OverviewCard title={t("nav.missions")}>
      <Counts
        counts={STATUSES.map((status) => ({
          name: t(`status.${status}`),
          href: `/missions?status=${status}`,
          value: countOf(status),
        }))}
      />
    </OverviewCard>
  );
}

// Queued tasks count as waiting, including the missions that wait for a worker.
export function Queues({ stats: { queues } }: { stats: Stats }) {
  const t = useT();
  const format = useFormat();
  const columns: Columns<Stats["queues"][number]> = [
    [t("overview.pipeline"), ({ pipeline }) => pipeline, "breaks"],
    [t("overview.waiting"), ({ queued }) => format.number(queued), "right"],
    [t("overview.running"), ({ running }) => format.number(running), "right"],
    [
      t("overview.oldest"),
      ({ oldest_waiting_seconds: seconds }) => (seconds === null ? "–" : format.duration(seconds)),
      "right",
    ],
  ];
  return (
    <OverviewCard title={t("overview.queues")}>
      {queues.length ? (
        <DataTable
          label={t("overview.queues")}
          columns={columns}
          rows={queues}
          keyOf={({ pipeline }) => pipeline}
          minWidth={280}
        />
      ) : (
        <Text c="dimmed">{t("overview.noQueues")}</Text>
      )}
    </OverviewCard>
  );
}

export function Fleet({ stats: { health } }: { stats: Stats }) {
  const t = useT();
  const format = useFormat();
  const nameOf = useStatusName();
  const workers = Object.entries(health.workers).map(
    ([state, count]) => `${format.number(count)} ${nameOf(state)}`,
  );
  const proxies = t("overview.proxies", {
    active: health.active_proxies,
    used: health.proxies_in_use,
    failing: health.failing_proxies,
  });
  const members = [
    { name: t("fleet.workers"), href: "/fleet", value: workers.join(", ") || "0" },
    { name: t("fleet.proxies"), href: "/fleet", value: proxies },
    { name: t("fleet.writers"), href: "/fleet", value: format.number(health.active_writers) },
  ];
  return (
    <OverviewCard title={t(HAS_MISSIONS ? "nav.fleet" : "nav.runners")}>
      <Counts
        counts={[
          ...(HAS_MISSIONS ? members : []),
          { name: t("nav.runners"), href: "/runners", value: format.number(health.runners) },
        ]}
      />
    </OverviewCard>
  );
}

export function Errors({ stats: { errors } }: { stats: Stats }) {
  const t = useT();
  const format = useFormat();
  return (
    <OverviewCard title={t("overview.errors")}>
      {errors.length ? (
        <Counts
          counts={errors.slice(0, 8).map(({ pipeline, code, tasks }) => ({
            name: `${code ?? "?"} · ${pipeline}`,
            href: "/failures",
            value: format.number(tasks),
          }))}
        />
      ) : (
        <Text c="dimmed">{t("overview.noErrors")}</Text>
      )}
    </OverviewCard>
  );
}
