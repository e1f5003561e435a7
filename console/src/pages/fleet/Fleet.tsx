import { Button, Group, Paper, Text, Title } from "@mantine/core";
import { type UseQueryResult, useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { Link } from "wouter";
import {
  type FleetKind,
  type FleetProxy,
  type FleetWorker,
  type FleetWriter,
  proxiesQuery,
  workersQuery,
  writersQuery,
} from "../../api/fleet";
import { useHasRole } from "../../app/session";
import { type Columns, DataTable } from "../../components/DataTable";
import { EmptyState, PageHeader, QueryView } from "../../components/States";
import { StatusBadge } from "../../components/StatusBadge";
import { useT } from "../../i18n";
import { useFormat } from "../../i18n/format";
import { MemberActions } from "./MemberActions";
import { type Known, MemberDialog } from "./MemberDialog";

export default function Fleet() {
  const t = useT();
  const format = useFormat();
  const share = (good: number, all: number) =>
    all
      ? `${Math.round((100 * good) / all)} % (${format.number(good)}/${format.number(all)})`
      : "–";
  const workerColumns: Columns<FleetWorker> = [
    [t("fleet.state"), (one) => <StatusBadge status={one.active ? one.status : "inactive"} />],
    [t("fleet.session"), (one) => (one.session_count ? format.number(one.session_count) : "")],
    [
      t("fleet.mission"),
      (one) =>
        one.current_mission_id && (
          <Link href={`/missions/${one.current_mission_id}`}>{one.current_mission_id}</Link>
        ),
    ],
    [t("mission.proxy"), (one) => one.proxy],
    [t("fleet.progressAge"), (one) => one.progress_at && format.ago(one.progress_at)],
    [t("fleet.good"), (one) => share(one.good_sessions, one.sessions)],
    [t("fleet.missions"), (one) => format.number(one.missions)],
    [
      t("mission.error"),
      (one) => one.error_code && <span title={one.error_message ?? ""}>{one.error_code}</span>,
    ],
  ];
  const proxyColumns: Columns<FleetProxy> = [
    [t("fleet.state"), (one) => <StatusBadge status={one.status} />],
    [t("field.host"), (one) => (one.port ? `${one.host}:${one.port}` : one.host)],
    [t("mission.worker"), (one) => one.worker],
    [
      t("fleet.failures"),
      (one) =>
        one.fail_count ? (
          <span title={one.last_failure ?? ""}>{format.number(one.fail_count)}</span>
        ) : (
          "0"
        ),
    ],
    [t("fleet.good"), (one) => share(one.good_sessions, one.sessions)],
  ];
  const writerColumns: Columns<FleetWriter> = [
    [t("fleet.state"), (one) => <StatusBadge status={one.status} />],
    [t("field.url"), (one) => one.url],
    [t("fleet.failures"), (one) => format.number(one.failures + one.failed_jobs)],
    [
      t("mission.error"),
      (one) => one.error_code && <span title={one.error_message ?? ""}>{one.error_code}</span>,
    ],
  ];
  return (
    <>
      <PageHeader title={t("nav.fleet")} />
      <Members kind="workers" query={useQuery(workersQuery)} columns={workerColumns} />
      <Members kind="proxies" query={useQuery(proxiesQuery)} columns={proxyColumns} />
      <Members kind="writers" query={useQuery(writersQuery)} columns={writerColumns} />
    </>
  );
}

interface Common extends Known {
  active: boolean;
  last_test_at: string | null;
  last_test_ok: boolean | null;
  last_test_message: string | null;
}

function Members<T extends Common>({
  kind,
  query,
  columns,
}: {
  kind: FleetKind;
  query: UseQueryResult<T[]>;
  columns: Columns<T>;
}) {
  const t = useT();
  const allColumns: Columns<T> = [
    [t("field.name"), (member) => member.name, "nowrap"],
    ...columns,
    [t("fleet.lastTest"), (member) => <LastTest member={member} />],
    [t("common.actions"), (member) => <MemberActions kind={kind} member={member} />, "right"],
  ];
  const mayAdd = useHasRole("admin");
  const [adding, setAdding] = useState(false);
  return (
    <Paper withBorder p="md" mb="md">
      <Group justify="space-between" mb="xs">
        <Title order={2} size="h4">
          {t(`fleet.${kind}`)}
        </Title>
        {mayAdd && (
          <Button size="xs" variant="default" onClick={() => setAdding(true)}>
            {t(`fleet.add.${kind}`)}
          </Button>
        )}
      </Group>
      <QueryView query={query}>
        {(members) =>
          members.length ? (
            <DataTable
              label={t(`fleet.${kind}`)}
              columns={allColumns}
              rows={members}
              keyOf={({ id }) => id}
              minWidth={700}
            />
          ) : (
            <EmptyState>{t("fleet.none")}</EmptyState>
          )
        }
      </QueryView>
      <MemberDialog kind={kind} opened={adding} close={() => setAdding(false)} />
    </Paper>
  );
}

function LastTest({ member }: { member: Common }) {
  const format = useFormat();
  if (!member.last_test_at) return <>–</>;
  return (
    <Text
      size="sm"
      className={member.last_test_ok ? "good" : "bad"}
      title={member.last_test_message ?? ""}
    >
      {member.last_test_ok ? "✓" : "✗"} {format.ago(member.last_test_at)}
    </Text>
  );
}
