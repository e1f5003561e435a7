import { Button, Group, Paper, Table, Text, Title } from "@mantine/core";
import { type UseQueryResult, useQuery } from "@tanstack/react-query";
import { type ReactNode, useState } from "react";
import { Link } from "wouter";
import {
  type Kind,
  type Proxy,
  proxies,
  type Worker,
  type Writer,
  workers,
  writers,
} from "../../api/fleet";
import { useMay } from "../../app/access";
import { type MessageId, useT } from "../../i18n";
import { useFormat } from "../../i18n/format";
import { Empty, Loaded, PageHead } from "../../parts/States";
import { Status } from "../../parts/Status";
import { MemberActions } from "./MemberActions";
import { type Known, MemberDialog } from "./MemberDialog";

type Cells<T> = [title: MessageId, cell: (member: T) => ReactNode][];

export default function Fleet() {
  const t = useT();
  const format = useFormat();
  const share = (good: number, all: number) =>
    all
      ? `${Math.round((100 * good) / all)} % (${format.number(good)}/${format.number(all)})`
      : "–";
  const workerCells: Cells<Worker> = [
    ["fleet.state", (one) => <Status of={one.active ? one.status : "inactive"} />],
    ["fleet.session", (one) => (one.session_count ? format.number(one.session_count) : "")],
    [
      "fleet.mission",
      (one) =>
        one.current_mission_id && (
          <Link href={`/missions/${one.current_mission_id}`}>{one.current_mission_id}</Link>
        ),
    ],
    ["mission.proxy", (one) => one.proxy],
    ["fleet.progressAge", (one) => one.progress_at && format.ago(one.progress_at)],
    ["fleet.good", (one) => share(one.good_sessions, one.sessions)],
    ["fleet.missions", (one) => format.number(one.missions)],
    [
      "mission.error",
      (one) => one.error_code && <span title={one.error_message ?? ""}>{one.error_code}</span>,
    ],
  ];
  const proxyCells: Cells<Proxy> = [
    ["fleet.state", (one) => <Status of={one.status} />],
    ["field.host", (one) => (one.port ? `${one.host}:${one.port}` : one.host)],
    ["mission.worker", (one) => one.worker],
    [
      "fleet.failures",
      (one) =>
        one.fail_count ? (
          <span title={one.last_failure ?? ""}>{format.number(one.fail_count)}</span>
        ) : (
          "0"
        ),
    ],
    ["fleet.good", (one) => share(one.good_sessions, one.sessions)],
  ];
  const writerCells: Cells<Writer> = [
    ["fleet.state", (one) => <Status of={one.active ? "ready" : "inactive"} />],
    ["field.url", (one) => one.url],
  ];
  return (
    <>
      <PageHead title={t("nav.fleet")} />
      <Members kind="workers" query={useQuery(workers)} cells={workerCells} />
      <Members kind="proxies" query={useQuery(proxies)} cells={proxyCells} />
      <Members kind="writers" query={useQuery(writers)} cells={writerCells} />
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
  cells,
}: {
  kind: Kind;
  query: UseQueryResult<T[]>;
  cells: Cells<T>;
}) {
  const t = useT();
  const mayAdd = useMay("admin");
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
      <Loaded query={query}>
        {(members) =>
          members.length ? (
            <Rows kind={kind} members={members} cells={cells} />
          ) : (
            <Empty>{t("fleet.none")}</Empty>
          )
        }
      </Loaded>
      <MemberDialog kind={kind} opened={adding} close={() => setAdding(false)} />
    </Paper>
  );
}

function Rows<T extends Common>({
  kind,
  members,
  cells,
}: {
  kind: Kind;
  members: T[];
  cells: Cells<T>;
}) {
  const t = useT();
  return (
    <Table.ScrollContainer
      minWidth={700}
      type="native"
      tabIndex={0}
      role="region"
      aria-label={t(`fleet.${kind}`)}
    >
      <Table highlightOnHover className="tight dense">
        <Table.Thead>
          <Table.Tr>
            <Table.Th>{t("field.name")}</Table.Th>
            {cells.map(([title]) => (
              <Table.Th key={title}>{t(title)}</Table.Th>
            ))}
            <Table.Th>{t("fleet.lastTest")}</Table.Th>
            <Table.Th>
              <span className="hidden-text">{t("act.actions")}</span>
            </Table.Th>
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {members.map((member) => (
            <Table.Tr key={member.id}>
              <Table.Td className="nowrap">{member.name}</Table.Td>
              {cells.map(([title, cell]) => (
                <Table.Td key={title}>{cell(member)}</Table.Td>
              ))}
              <Table.Td>
                <LastTest member={member} />
              </Table.Td>
              <Table.Td>
                <MemberActions kind={kind} member={member} />
              </Table.Td>
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
    </Table.ScrollContainer>
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
